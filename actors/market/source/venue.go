// Package source reads prices and news from real sources and checks them.
//
// A Venue is a source of prices. The clients of binance, coinbase and alpaca are subpackages, as are
// the client of feeds (rss) and the one that sends all requests (fetch). An AssetFeed keeps one asset
// up to date: it reads the history at the first venue that has the asset, then new prices, switches to
// the next venue when that one fails, and back to the first once it has worked for ten minutes. A
// Reporter reads news. Both pass a Delivery to the feeder. Prices from outside, which come through the
// two streams of Redis, are a source, too, called stream: ParseTick and ParseBar decode their entries.
//
// Everything from outside is checked, and counted if it is refused because it cannot be true.
//
// Where to read: venue.go (venues and their symbols), assetfeed.go, listener.go and probe.go (one
// asset), entry.go (checks), news.go, listing.go (which assets a venue has),
// demand.go (which assets are kept), health.go (whether sources work).
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/coinbase"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Venue is a real source of prices. Its methods may be called from anywhere.
type Venue interface {
	// Name returns its name in market.source.
	Name() string
	// Symbol returns its symbol of an asset, or false if it cannot have the asset. class is empty
	// if only the name is known.
	Symbol(symbol, class string) (string, bool)
	// Class returns the class of its assets that are known by name only.
	Class() string
	// Bars returns unchecked bars that open in [from, to). The last one may still be open. The
	// error for an asset that it does not have is fetch.ErrUnknown.
	Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error)
	// Listed returns the symbols of all its assets, or nil if it publishes no list.
	Listed(ctx context.Context) ([]string, error)
	// Follow passes trades and closed bars to notify until stop is called. It returns false at a
	// venue that must be polled.
	Follow(symbol string, notify func(binance.Event)) (stop func(), ok bool)
	// Run provides the events of Follow until ctx ends.
	Run(ctx context.Context)
	// Ping checks that the venue answers and returns its time, or 0 if it does not publish it.
	Ping(ctx context.Context) (int64, error)
}

// Stream is the name of the prices from outside as a source. The two streams are always read, for
// the assets that no other source gives.
const Stream = "stream"

// allNames lists all sources.
var allNames = append([]string{simulated.Name, Stream}, venueNames...)

// ParseSources parses the setting market.source, a comma-separated list of sources, which are used
// in this order. The error for an unknown name lists the known ones.
func ParseSources(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(allNames, name) {
			known := strings.Join(allNames, ", ")
			return nil, fmt.Errorf("market.source: %q is not known: use %s, or several with commas", name, known)
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("market.source: %q stands there twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// venueNames are the real sources.
var venueNames = []string{binance.Name, coinbase.Name, alpaca.Name}

// IsVenue reports whether a source is a real one.
func IsVenue(name string) bool { return slices.Contains(venueNames, name) }

// Options configure access to real sources. The zero value works, except for Alpaca, which needs keys.
type Options struct {
	BinanceURL, BinanceStreamURL, CoinbaseURL, AlpacaURL string // defaults: those of the sources
	AlpacaKey, AlpacaSecret                              string
	AlpacaFeed                                           string // iex or sip; default iex
	// News lists feeds: URL, or URL=WEIGHT with a weight of 0 to 1.
	News []string
}

// Check returns the errors in o for the configured sources.
func (o *Options) Check(sources []string) error {
	var faults []error
	schemes := []string{"http", "https", "ws", "wss"}
	for name, text := range map[string]string{
		"market.binance_url": o.BinanceURL, "market.binance_stream_url": o.BinanceStreamURL,
		"market.coinbase_url": o.CoinbaseURL, "market.alpaca_url": o.AlpacaURL,
	} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme)) {
			faults = append(faults, fmt.Errorf("%s: must be scheme and host, such as https://example.com", name))
		}
	}
	if slices.Contains(sources, alpaca.Name) && (o.AlpacaKey == "" || o.AlpacaSecret == "") {
		faults = append(faults,
			errors.New("market.alpaca_key, market.alpaca_secret: must be given where market.source has alpaca"))
	}
	if o.AlpacaFeed != "" && o.AlpacaFeed != "iex" && o.AlpacaFeed != "sip" {
		faults = append(faults, errors.New("market.alpaca_feed: must be iex or sip"))
	}
	for _, text := range o.News {
		if _, _, err := parseNewsFeed(text); err != nil {
			faults = append(faults, fmt.Errorf("market.news_feeds: %w", err))
		}
	}
	return errors.Join(faults...)
}

// Requests a second, and at once, to each source. Binance allows a weight of 6,000 a minute, of
// which half is left to other users of the address.
const (
	binanceRate, binanceBurst   = 50, 200
	coinbaseRate, coinbaseBurst = 5, 10
	alpacaRate, alpacaBurst     = 3, 20
	feedsRate, feedsBurst       = 2, 10
)

// Open returns the real ones of sources in their order.
func (o *Options) Open(sources []string, log *slog.Logger, m *Metrics) []Venue {
	var all []Venue
	for _, name := range sources {
		switch name {
		case binance.Name:
			c := fetch.New(fetch.Options{Name: name, Rate: binanceRate, Burst: binanceBurst, Done: m.asked})
			skip := func() { m.Skip(prices.SkipFields) }
			stream := binance.NewStream(binance.StreamOptions{URL: o.BinanceStreamURL, Log: log, Faulty: skip})
			all = append(all, &binanceVenue{binance.NewClient(cmp.Or(o.BinanceURL, binance.BaseURL), c), stream})
		case coinbase.Name:
			c := fetch.New(fetch.Options{Name: name, Rate: coinbaseRate, Burst: coinbaseBurst, Done: m.asked})
			all = append(all, &coinbaseVenue{Client: coinbase.NewClient(cmp.Or(o.CoinbaseURL, coinbase.BaseURL), c)})
		case alpaca.Name:
			all = append(all, &alpacaVenue{Client: o.alpaca(m)})
		}
	}
	return all
}

func (o *Options) alpaca(m *Metrics) *alpaca.Client {
	c := fetch.New(fetch.Options{Name: alpaca.Name, Rate: alpacaRate, Burst: alpacaBurst, Done: m.asked,
		Header: alpaca.Header(o.AlpacaKey, o.AlpacaSecret)})
	return alpaca.NewClient(cmp.Or(o.AlpacaURL, alpaca.BaseURL), cmp.Or(o.AlpacaFeed, "iex"), c)
}

func (o *Options) feeds(m *Metrics) *fetch.Client {
	return fetch.New(fetch.Options{Name: rss.Name, Rate: feedsRate, Burst: feedsBurst, AnyHost: true, Done: m.asked})
}

// binanceQuote and coinbaseQuote follow the coin in the symbols of these sources.
const (
	binanceQuote  = "USDT"
	coinbaseQuote = "-USD"
)

// quotes are the quote currencies of coins. All stand for a dollar.
var quotes = []string{"FDUSD", "USDT", "USDC", "TUSD", "BUSD", "USD"}

var coin = regexp.MustCompile(`^[A-Z0-9]{2,15}$`)

// dollarCoins are coins whose own names end in a quote currency.
var dollarCoins = []string{"AUSD", "BFUSD", "BUSD", "CRVUSD", "FDUSD", "GUSD", "GYUSD", "LUSD", "MUSD", "PYUSD",
	"RLUSD", "SUSD", "TUSD", "XUSD", "ZUSD"}

// CoinOf returns the coin that a name means, with or without a quote currency, or false if it
// cannot be a coin. The coin of a coin is itself.
func CoinOf(symbol, class string) (string, bool) {
	if class != "" && class != assets.Crypto {
		return "", false
	}
	name := assets.Bare(symbol)
	for ok := true; ok && !slices.Contains(dollarCoins, name); {
		name, ok = cutQuote(name)
	}
	return name, coin.MatchString(name)
}

// cutQuote returns a name without its quote currency, if it ends in one.
func cutQuote(name string) (base string, ok bool) {
	for _, q := range quotes {
		if base, ok = strings.CutSuffix(name, q); ok && len(base) >= 2 {
			return base, true
		}
	}
	return name, false
}

type binanceVenue struct {
	*binance.Client
	*binance.Stream
}

func (*binanceVenue) Name() string  { return binance.Name }
func (*binanceVenue) Class() string { return assets.Crypto }

func (*binanceVenue) Symbol(symbol, class string) (string, bool) {
	name, ok := CoinOf(symbol, class)
	return name + binanceQuote, ok
}

// polled is embedded in a venue that does not stream.
type polled struct{}

func (polled) Follow(string, func(binance.Event)) (func(), bool) { return nil, false }
func (polled) Run(context.Context)                               {}

type coinbaseVenue struct {
	*coinbase.Client
	polled
}

func (*coinbaseVenue) Name() string  { return coinbase.Name }
func (*coinbaseVenue) Class() string { return assets.Crypto }

func (*coinbaseVenue) Symbol(symbol, class string) (string, bool) {
	name, ok := CoinOf(symbol, class)
	return name + coinbaseQuote, ok
}

// venueSymbols holds Venue.Symbol of each real source.
var venueSymbols = map[string]func(symbol, class string) (string, bool){
	binance.Name:  (*binanceVenue)(nil).Symbol,
	coinbase.Name: (*coinbaseVenue)(nil).Symbol,
	alpaca.Name:   (*alpacaVenue)(nil).Symbol,
}

// SymbolAt returns the symbol of an asset at a real source, or false if the source cannot have it
// or is not a real one. See Venue.Symbol.
func SymbolAt(source, symbol, class string) (string, bool) {
	if symbolOf := venueSymbols[source]; symbolOf != nil {
		return symbolOf(symbol, class)
	}
	return "", false
}

// proxies holds the funds whose prices stand for those of commodities.
var proxies = map[string]string{"natural_gas": "UNG", "oil": "USO", "corn": "CORN", "wheat": "WEAT"}

// ProxyOf returns the fund whose prices stand for those of an asset, or an empty string.
func ProxyOf(r *marketdata.Asset) string {
	if r.Source == alpaca.Name && r.Class == assets.Commodity {
		return proxies[r.Symbol]
	}
	return ""
}

// GivesCoins reports whether a source gives prices of coins.
func GivesCoins(source string) bool { return source == binance.Name || source == coinbase.Name }

type alpacaVenue struct {
	*alpaca.Client
	polled
}

func (*alpacaVenue) Name() string  { return alpaca.Name }
func (*alpacaVenue) Class() string { return assets.Stock }

// Listed implements Venue. The list is at another server, which needs other keys.
func (*alpacaVenue) Listed(context.Context) ([]string, error) { return nil, nil }

var ticker = regexp.MustCompile(`^[A-Z]{1,5}(\.[A-Z])?$`)

// IsTicker reports whether a folded name has the form of a stock ticker.
func IsTicker(name string) bool { return ticker.MatchString(name) }

func (*alpacaVenue) Symbol(symbol, class string) (string, bool) {
	switch class {
	case assets.Commodity:
		fund, ok := proxies[symbol]
		return fund, ok
	case assets.Stock, "":
		name := assets.Fold(symbol)
		return name, IsTicker(name)
	}
	return "", false
}

// Bars leaves out bars outside of sessions, and makes days begin at midnight UTC like all our bars.
// Bars of an hour are built from those of 5m, because the exchange opens at half past an hour and
// the service's bar of that hour includes earlier trades.
func (v *alpacaVenue) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) (
	[]marketdata.Bar, error) {
	requested := tf
	if tf == signal.H1 {
		requested = signal.M5
	}
	bars, err := v.Client.Bars(ctx, symbol, requested, from, to)
	kept := bars[:0]
	for _, b := range bars {
		switch {
		case tf == signal.D1:
			b.OpenTime -= b.OpenTime % prices.FrameMS[prices.D1]
			b.CloseTime = b.OpenTime + prices.FrameMS[prices.D1]
		case !sessions.Exchange.Open(prices.Time(b.OpenTime)):
			continue
		case tf == signal.H1:
			hour := b.OpenTime - b.OpenTime%prices.FrameMS[prices.H1]
			if n := len(kept); n > 0 && kept[n-1].OpenTime == hour {
				prices.Merge(&kept[n-1], &b)
				continue
			}
			b.OpenTime, b.CloseTime = hour, hour+prices.FrameMS[prices.H1]
		}
		kept = append(kept, b)
	}
	return kept, err
}

// Ping implements Venue. The service does not publish its time.
func (v *alpacaVenue) Ping(ctx context.Context) (int64, error) {
	_, _, err := v.Client.News(ctx, "SPY", 0, 1)
	return 0, err
}
