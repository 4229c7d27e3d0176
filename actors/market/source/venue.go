// Package source reads prices and news from real places, and checks them.
//
// A Venue is a place that gives prices; the clients of binance, coinbase and alpaca lie
// below, with the one of feeds (rss) and what all of them send requests with (fetch). An
// AssetFeed keeps one asset up to date: it reads its history at the first venue that has it,
// then what is new, goes to the next venue when that one fails, and back to the first once it
// has worked for ten minutes. A Reporter reads news. Both hand what they have to the feeder
// as a Delivery. Prices from outside that come in through the two streams of Redis are a
// source, too, called stream: ParseTick and ParseBar read their entries.
//
// Whatever comes from outside is checked, and counted if it is refused: nothing is delivered
// that cannot be true.
//
// Where to read: venue.go (the places, and what they call assets), assetfeed.go, listener.go
// and probe.go (one asset), sanitize.go and entry.go (what is refused), news.go, listing.go
// (which assets a place has), demand.go (which assets are kept), health.go (whether sources
// work).
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

// Venue is a real place that gives prices. Its methods may be called from anywhere.
type Venue interface {
	// Name is what market.source calls it.
	Name() string
	// Symbol returns what it calls an asset, or false if it cannot have that. class is
	// empty for one of which only the name is known.
	Symbol(symbol, class string) (string, bool)
	// Class returns the class of an asset that it has, of which only the name is known.
	Class() string
	// Bars returns bars that open in [from, to), as the venue gives them: they have not
	// been checked. The last one may be open still. The error of an asset that it does
	// not have is fetch.ErrUnknown.
	Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error)
	// Listed returns what it calls all assets that it has. known is false at a venue that
	// does not tell.
	Listed(ctx context.Context) (symbols []string, known bool, err error)
	// Follow has trades and closed bars passed to told until stop is called. It returns false at
	// a venue that must be asked.
	Follow(symbol string, told func(binance.Event)) (stop func(), ok bool)
	// Run does what Follow needs, until ctx ends.
	Run(ctx context.Context)
	// Ping asks for a sign of life and the venue's time; 0 if it does not tell.
	Ping(ctx context.Context) (int64, error)
}

// Stream is the name of the source that is not one of ours: prices come in
// through the two streams only. They are read whatever the sources are, for those
// assets that no other source gives.
const Stream = "stream"

// allNames lists the sources that there are.
var allNames = append([]string{simulated.Name, Stream}, venueNames...)

// ParseSources reads the setting market.source: a comma list of sources, which are
// asked in their order for each asset. An unknown name is an error that lists the
// known ones.
func ParseSources(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(allNames, name) {
			return nil, fmt.Errorf("market.source: %q is not known: use %s, or several with commas", name, strings.Join(allNames, ", "))
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

// Options say how real sources are reached. The zero value works, but for Alpaca,
// which needs keys.
type Options struct {
	BinanceURL, BinanceStreamURL, CoinbaseURL, AlpacaURL string // defaults: those of the sources
	AlpacaKey, AlpacaSecret                              string
	AlpacaFeed                                           string // iex or sip; default iex
	// News are the feeds that are read: URL, or URL=WEIGHT with a weight of 0 to 1.
	News []string
}

// Check returns what is wrong with o for sources that are asked for.
func (o *Options) Check(sources []string) error {
	var faults []error
	for name, text := range map[string]string{"market.binance_url": o.BinanceURL, "market.binance_stream_url": o.BinanceStreamURL,
		"market.coinbase_url": o.CoinbaseURL, "market.alpaca_url": o.AlpacaURL} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme)) {
			faults = append(faults, fmt.Errorf("%s: must be scheme and host, such as https://example.com", name))
		}
	}
	if slices.Contains(sources, alpaca.Name) && (o.AlpacaKey == "" || o.AlpacaSecret == "") {
		faults = append(faults, errors.New("market.alpaca_key, market.alpaca_secret: must be given where market.source has alpaca"))
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

// Requests a second that sources take, and how many at once. Binance counts weights of
// 6,000 a minute, of which half is left to others behind the same address.
const (
	binanceRate, binanceBurst   = 50, 200
	coinbaseRate, coinbaseBurst = 5, 10
	alpacaRate, alpacaBurst     = 3, 20
	feedsRate, feedsBurst       = 2, 10
)

// Open returns the real sources among those named, in their order.
func (o *Options) Open(sources []string, log *slog.Logger, m *Metrics) []Venue {
	var all []Venue
	for _, name := range sources {
		switch name {
		case binance.Name:
			c := fetch.New(fetch.Options{Name: name, Rate: binanceRate, Burst: binanceBurst, Done: m.asked})
			stream := binance.NewStream(binance.StreamOptions{URL: o.BinanceStreamURL, Log: log, Faulty: func() { m.Skip(prices.SkipFields) }})
			all = append(all, &binanceVenue{binance.NewClient(cmp.Or(o.BinanceURL, binance.BaseURL), c), stream})
		case coinbase.Name:
			c := fetch.New(fetch.Options{Name: name, Rate: coinbaseRate, Burst: coinbaseBurst, Done: m.asked})
			all = append(all, &coinbaseVenue{coinbase.NewClient(cmp.Or(o.CoinbaseURL, coinbase.BaseURL), c)})
		case alpaca.Name:
			all = append(all, &alpacaVenue{o.alpaca(m)})
		}
	}
	return all
}

func (o *Options) alpaca(m *Metrics) *alpaca.Client {
	c := fetch.New(fetch.Options{Name: alpaca.Name, Rate: alpacaRate, Burst: alpacaBurst, Header: alpaca.Header(o.AlpacaKey, o.AlpacaSecret), Done: m.asked})
	return alpaca.NewClient(cmp.Or(o.AlpacaURL, alpaca.BaseURL), cmp.Or(o.AlpacaFeed, "iex"), c)
}

func (o *Options) feeds(m *Metrics) *fetch.Client {
	return fetch.New(fetch.Options{Name: rss.Name, Rate: feedsRate, Burst: feedsBurst, AnyHost: true, Done: m.asked})
}

// binanceQuote and coinbaseQuote follow the coin in what these sources call it.
const (
	binanceQuote  = "USDT"
	coinbaseQuote = "-USD"
)

// quotes are what coins are priced in: all stand for a dollar.
var quotes = []string{"FDUSD", "USDT", "USDC", "TUSD", "BUSD", "USD"}

var coin = regexp.MustCompile(`^[A-Z0-9]{2,15}$`)

// dollarCoins are coins whose own names end in one of quotes.
var dollarCoins = []string{"AUSD", "BFUSD", "BUSD", "CRVUSD", "FDUSD", "GUSD", "GYUSD", "LUSD", "MUSD", "PYUSD", "RLUSD",
	"SUSD", "TUSD", "XUSD", "ZUSD"}

// CoinOf returns the coin that a name stands for, with or without what it is priced in,
// or false if it can be none. The coin of a coin is itself.
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

// cutQuote returns a name without what it is priced in, if it ends in that.
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
	stream *binance.Stream
}

func (*binanceVenue) Name() string  { return binance.Name }
func (*binanceVenue) Class() string { return assets.Crypto }

func (*binanceVenue) Symbol(symbol, class string) (string, bool) {
	name, ok := CoinOf(symbol, class)
	return name + binanceQuote, ok
}

func (v *binanceVenue) Listed(ctx context.Context) ([]string, bool, error) {
	symbols, err := v.Client.Listed(ctx)
	return symbols, true, err
}

func (v *binanceVenue) Follow(symbol string, told func(binance.Event)) (func(), bool) {
	return v.stream.Follow(symbol, told)
}

func (v *binanceVenue) Run(ctx context.Context) { v.stream.Run(ctx) }

type coinbaseVenue struct{ *coinbase.Client }

func (*coinbaseVenue) Name() string                                      { return coinbase.Name }
func (*coinbaseVenue) Class() string                                     { return assets.Crypto }
func (*coinbaseVenue) Follow(string, func(binance.Event)) (func(), bool) { return nil, false }
func (*coinbaseVenue) Run(context.Context)                               {}

func (v *coinbaseVenue) Listed(ctx context.Context) ([]string, bool, error) {
	products, err := v.Client.Listed(ctx)
	return products, true, err
}

func (*coinbaseVenue) Symbol(symbol, class string) (string, bool) {
	name, ok := CoinOf(symbol, class)
	return name + coinbaseQuote, ok
}

// venueSymbols returns, for each real source, what it calls an asset. See venue.Symbol.
var venueSymbols = map[string]func(symbol, class string) (string, bool){
	binance.Name:  (*binanceVenue)(nil).Symbol,
	coinbase.Name: (*coinbaseVenue)(nil).Symbol,
	alpaca.Name:   (*alpacaVenue)(nil).Symbol,
}

// SymbolAt returns what a real source calls an asset, or false if it cannot have that or
// is not a real source. See venue.Symbol.
func SymbolAt(source, symbol, class string) (string, bool) {
	called := venueSymbols[source]
	if called == nil {
		return "", false
	}
	return called(symbol, class)
}

// proxies are the funds whose prices stand for those of commodities.
var proxies = map[string]string{"natural_gas": "UNG", "oil": "USO", "corn": "CORN", "wheat": "WEAT"}

// ProxyOf returns the fund whose prices are given for an asset; empty: they are its own.
func ProxyOf(r *marketdata.Asset) string {
	if r.Source == alpaca.Name && r.Class == assets.Commodity {
		return proxies[r.Symbol]
	}
	return ""
}

// GivesCoins reports whether a source gives prices of coins.
func GivesCoins(source string) bool { return source == binance.Name || source == coinbase.Name }

type alpacaVenue struct{ *alpaca.Client }

func (*alpacaVenue) Name() string                                      { return alpaca.Name }
func (*alpacaVenue) Class() string                                     { return assets.Stock }
func (*alpacaVenue) Follow(string, func(binance.Event)) (func(), bool) { return nil, false }
func (*alpacaVenue) Run(context.Context)                               {}

// Listed implements venue. Its list is at another server, for other keys.
func (*alpacaVenue) Listed(context.Context) ([]string, bool, error) { return nil, false, nil }

var ticker = regexp.MustCompile(`^[A-Z]{1,5}(\.[A-Z])?$`)

// IsTicker reports whether a folded name has the form of a stock's ticker.
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

// Bars leaves out what was traded outside of sessions, and has days begin at midnight
// UTC, as all our bars do. Bars of an hour are made of those of 5m: the exchange opens at
// half past an hour, and the service's own bar of that hour has what was traded before.
func (v *alpacaVenue) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error) {
	asked := tf
	if tf == signal.H1 {
		asked = signal.M5
	}
	bars, err := v.Client.Bars(ctx, symbol, asked, from, to)
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

// Ping implements venue. The service does not give its time.
func (v *alpacaVenue) Ping(ctx context.Context) (int64, error) {
	_, err := v.Client.News(ctx, "SPY", 0, 1)
	return 0, err
}
