package feeder

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// ticksOf returns the ticks that the feeder wrote of an asset, in order.
func (b *bench) ticksOf(asset string) []marketdata.AssetTick {
	b.t.Helper()
	entries, err := b.store.ReadTicks(b.t.Context(), marketdata.OwnTicks, signal.Position{}, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var all []marketdata.AssetTick
	for i := range entries {
		x, skipped := source.ParseTick(marketdata.OwnTicks, &entries[i])
		if skipped != "" {
			b.t.Fatalf("a tick of our own is not valid: %s %v", skipped, entries[i].Fields)
		}
		if x.Asset == asset {
			all = append(all, x)
		}
	}
	return all
}

func exchangeOptions(x *markettest.Exchange) source.Options {
	return source.Options{BinanceURL: x.URL, BinanceStreamURL: x.StreamURL(), CoinbaseURL: x.URL}
}

func TestARealAssetIsTakenUpWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT", "DOGEUSDT")
	m := b.market(market.Options{Sources: "binance"})
	b.feed(Options{Sources: "binance", Real: exchangeOptions(x)})

	s, err := m.Series(t.Context(), "btc-usd", signal.H1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source != "binance" || s.Asset.Symbol != "BTC" || s.Asset.Class != assets.Crypto || s.Compression != 1 || len(s.Bars) < 990 {
		t.Fatalf("%+v, %d bars", s.Asset, len(s.Bars))
	}
	now := c.Now().UnixMilli()
	newest := s.Bars[len(s.Bars)-1]
	if newest.CloseTime != now-now%prices.FrameMS[prices.H1] || newest.Close != markettest.PriceAt(newest.CloseTime-60_000) {
		t.Errorf("newest bar %+v", newest)
	}
	for _, tf := range signal.Timeframes {
		if s, err := m.Series(t.Context(), "BTC", tf); err != nil || len(s.Bars) < 990 {
			t.Errorf("%s: %d bars, %v", tf, len(s.Bars), err)
		}
	}
	if s, err := m.Series(t.Context(), "DOGE", signal.M1); err != nil || s.Asset.Symbol != "DOGE" || s.Asset.Class != assets.Crypto {
		t.Errorf("a coin that only the exchange knows: %v", err)
	}
	for _, name := range []string{"NOCOIN", "EURUSD", "AAPL", "x y"} {
		_, err := m.Series(t.Context(), name, signal.M1)
		if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.DataUnavailable || e.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// follower is a bench whose feeder follows BTC at an exchange.
type follower struct {
	*bench
	stop func() // ends the feeder
}

func newFollower(t *testing.T) (*follower, *markettest.Clock, *markettest.Exchange, *market.Market) {
	t.Helper()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT")
	m := b.market(market.Options{Sources: "binance"})
	stop := b.feed(Options{Sources: "binance", Real: exchangeOptions(x)})
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	return &follower{b, stop}, c, x, m
}

// trade lets a second pass, in the middle of which the exchange trades, and returns when
// it began.
func (f *follower) trade(c *markettest.Clock, x *markettest.Exchange) (start int64) {
	f.t.Helper()
	start = c.Now().UnixMilli()
	c.Add(time.Second)
	markettest.Eventually(f.t, "a trade", func() bool {
		x.Trade("BTCUSDT", markettest.PriceAt(start), start+500)
		return len(f.ticksOf("BTC")) > 0
	})
	return start
}

func TestRealTicksAndBarsCount(t *testing.T) {
	t.Parallel()
	b, c, x, m := newFollower(t)
	start := c.Now().UnixMilli()
	price := markettest.PriceAt(start)
	// What cannot be true, and what somebody else says, is no price.
	bad := []struct {
		price float64
		ms    int64
	}{{-1, start + 500}, {0, start + 500}, {1 / price, start + 500}, {price * 5, start + 500}, {price, start + 3_600_000}, {price, 5}}
	for _, p := range bad {
		x.Trade("BTCUSDT", p.price, p.ms)
	}
	x.Say("btcusdt@trade", map[string]any{"e": "trade", "s": "BTCUSDT", "p": "NaN", "q": "1", "T": start})
	x.Say("btcusdt@trade", map[string]any{"e": "trade", "s": "BTCUSDT", "p": nil, "q": "1", "T": start})
	b.server.Client().Do(t.Context(), "XADD", "market:ticks", "*", "asset", "BTC", "price", "1")
	c.Add(time.Second)
	x.Trade("BTCUSDT", price+1, start+900)
	markettest.Eventually(t, "the trade is shown", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Ticks && s.Last.Price == price+1 && s.Last.Time == start+900
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Source == "binance" && tick.Price != price+1 {
			t.Errorf("a bad price was let through: %+v", tick)
		}
	}
	// The bar closes, and the coarser ones follow from it.
	c.Add(59 * time.Second)
	x.Close1m("BTCUSDT", start)
	markettest.Eventually(t, "the bar is shown", func() bool {
		x.Trade("BTCUSDT", price, start+60_000)
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Bars[len(s.Bars)-1].OpenTime == start
	})
	c.Add(4 * time.Minute)
	// Four bars were not told of: they are asked for.
	x.Close1m("BTCUSDT", start+4*60_000)
	c.Add(10 * time.Second)
	markettest.Eventually(t, "the bar of 5m is built", func() bool {
		x.Trade("BTCUSDT", markettest.PriceAt(start+5*60_000), c.Now().UnixMilli())
		s, err := m.Series(t.Context(), "BTC", signal.M5)
		if err != nil {
			return false
		}
		newest := s.Bars[len(s.Bars)-1]
		return newest.OpenTime == start && newest.Open == markettest.PriceAt(start) && newest.Close == markettest.PriceAt(start+4*60_000) && newest.Volume == 5*12.5
	})
}

// What was traded while there was no connection is in bars before the next tick
// counts.
func TestAReconnectIsMadeUpFor(t *testing.T) {
	t.Parallel()
	b, c, x, _ := newFollower(t)
	start := b.trade(c, x)
	x.Cut()
	markettest.Eventually(t, "the connection is lost", func() bool { return !x.Follows("BTCUSDT") })
	c.Add(20 * time.Second) // longer, and the asset were looked for elsewhere
	x.Accept()
	c.Add(5 * time.Second)
	markettest.Eventually(t, "the connection is back", func() bool { return x.Follows("BTCUSDT") })
	c.Add(2*time.Minute + 40*time.Second)
	now := c.Now().UnixMilli()
	markettest.Eventually(t, "a trade after it", func() bool {
		x.Trade("BTCUSDT", markettest.PriceAt(now), now)
		ticks := b.ticksOf("BTC")
		return ticks[len(ticks)-1].Time == now
	})
	var first marketdata.AssetTick
	for _, tick := range b.ticksOf("BTC") {
		if tick.Time > start+500 {
			first = tick
			break
		}
	}
	if first.Missed != start+500 {
		t.Errorf("the first tick after the gap says %d, want that ticks since %d are missing", first.Missed, start+500)
	}
	bars, _, err := b.store.Bars(t.Context(), "BTC", signal.M1)
	if err != nil || bars[len(bars)-1].CloseTime < start+60_000 {
		t.Errorf("the bars of the gap were not there: %v", err)
	}
}

// Who feeds next goes on with the assets that were taken up, and makes up for the time
// between.
func TestANewFeederKeepsRealAssets(t *testing.T) {
	t.Parallel()
	b, c, x, m := newFollower(t)
	start := b.trade(c, x)
	b.stop()
	c.Add(3 * time.Hour)
	now := c.Now().UnixMilli()
	b.feed(Options{Node: "two", Sources: "binance", Real: exchangeOptions(x)})
	markettest.Eventually(t, "a trade of the next feeder", func() bool {
		x.Trade("BTCUSDT", markettest.PriceAt(now), now)
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && s.Last.Time == now && s.Bars[len(s.Bars)-1].CloseTime == now-now%prices.FrameMS[prices.H1]
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Time > start+500 {
			// Of what came last the former feeder may not have kept that it came.
			if tick.Missed != start+500 && tick.Missed != start {
				t.Errorf("the first tick after the gap says %d", tick.Missed)
			}
			break
		}
	}
	bars, _, err := b.store.Bars(t.Context(), "BTC", signal.M1)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(bars); i++ {
		if bars[i].OpenTime != bars[i-1].CloseTime {
			t.Fatalf("a bar is missing at %d", bars[i-1].CloseTime)
		}
	}
}

// A source that gives prices of something else is not believed, and its history is read
// again once it insists.
func TestASourceThatInsistsIsReadAnew(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT")
	o := exchangeOptions(x)
	other := markettest.New(t, c.Now)
	o.CoinbaseURL = other.URL
	m := b.market(market.Options{Sources: "binance,coinbase"})
	b.feed(Options{Sources: "binance,coinbase", Real: o})
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	for i := range int64(source.LevelFaults) {
		x.Trade("BTCUSDT", 1/markettest.PriceAt(0), c.Now().UnixMilli()+i)
	}
	markettest.Eventually(t, "the other source gives the prices", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Source == "coinbase"
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Price < 1000 {
			t.Errorf("%+v is written", tick)
		}
	}
	// What the first one says now is of no interest.
	x.Trade("BTCUSDT", markettest.PriceAt(0), c.Now().UnixMilli())
	if s, err := m.Series(t.Context(), "BTC", signal.M1); err != nil || s.Ticks {
		t.Errorf("ticks %t, %v", s.Ticks, err)
	}
}

func TestAFailingSourceIsReplaced(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT")
	x.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTeapot)
	})
	other := markettest.New(t, c.Now)
	o := exchangeOptions(x)
	o.CoinbaseURL = other.URL
	m := b.market(market.Options{Sources: "binance,coinbase"})
	b.feed(Options{Sources: "binance,coinbase", Real: o})
	s, err := m.Series(t.Context(), "BTC", signal.M5)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source != "coinbase" || s.Ticks {
		t.Errorf("source %s, ticks %t", s.Source, s.Ticks)
	}
	if asked := x.Asked(); asked != 1 {
		t.Errorf("the exchange was asked %d times although it bans us", asked)
	}
}

func TestNobodyIsWaitedForWithoutASource(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT")
	x.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html>sign in</html>"))
	})
	m := b.market(market.Options{Sources: "binance"})
	b.feed(Options{Sources: "binance", Real: exchangeOptions(x)})
	_, err := m.Series(t.Context(), "BTC", signal.M5)
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok || e.Code != signal.DataUnavailable || !e.Retryable || e.RetryAfter <= 0 {
		t.Errorf("%v", err)
	}
}
