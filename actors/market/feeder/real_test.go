package feeder

import (
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

// exchangeBench is a bench with an exchange, on a clock that the test moves.
type exchangeBench struct {
	*bench
	*markettest.Clock
	*markettest.Exchange
	o Options // of feeders
}

// newExchangeBench returns a bench for sources at an exchange with symbols.
func newExchangeBench(t *testing.T, sources string, symbols ...string) *exchangeBench {
	t.Helper()
	c := markettest.NewClock()
	x := markettest.New(t, c.Now, symbols...)
	real := source.Options{BinanceURL: x.URL, BinanceStreamURL: x.StreamURL(), CoinbaseURL: x.URL}
	return &exchangeBench{newBench(t, c.Now), c, x, Options{Sources: sources, Real: real}}
}

func (b *exchangeBench) start() (m *market.Market, stop func()) {
	b.t.Helper()
	return b.market(market.Options{Sources: b.o.Sources}), b.feed(b.o)
}

func (b *exchangeBench) cut(d time.Duration) {
	b.t.Helper()
	b.Cut()
	markettest.Eventually(b.t, "the connection is lost", func() bool { return !b.Follows("BTCUSDT") })
	b.Add(d)
	b.Accept()
}

// reconnect waits until the feeder has connected to the exchange again.
func (b *exchangeBench) reconnect() {
	b.t.Helper()
	markettest.Eventually(b.t, "the connection is back", func() bool { return b.Follows("BTCUSDT") })
}

func TestRealAssetIsTakenUpWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance", "BTCUSDT", "DOGEUSDT")
	m, _ := b.start()

	s, err := m.Series(t.Context(), "btc-usd", signal.H1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source != "binance" || s.Asset.Symbol != "BTC" || s.Asset.Class != assets.Crypto || s.Compression != 1 ||
		len(s.Bars) < 990 {
		t.Fatalf("%+v, %d bars", s.Asset, len(s.Bars))
	}
	now := b.Now().UnixMilli()
	newest, closes := s.Bars[len(s.Bars)-1], now-now%prices.FrameMS[prices.H1]
	if newest.CloseTime != closes || newest.Close != markettest.PriceAt(closes-60_000) {
		t.Errorf("newest bar %+v", newest)
	}
	for _, tf := range signal.Timeframes {
		if s, err := m.Series(t.Context(), "BTC", tf); err != nil || len(s.Bars) < 990 {
			t.Errorf("%s: %d bars, %v", tf, len(s.Bars), err)
		}
	}
	s, err = m.Series(t.Context(), "DOGE", signal.M1)
	if err != nil || s.Asset.Symbol != "DOGE" || s.Asset.Class != assets.Crypto {
		t.Errorf("a coin that only the exchange knows: %v", err)
	}
	for _, name := range []string{"NOCOIN", "EURUSD", "AAPL", "x y"} {
		_, err := m.Series(t.Context(), name, signal.M1)
		if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || e.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// newFollower returns a bench whose feeder follows BTC.
func newFollower(t *testing.T) (b *exchangeBench, m *market.Market, stop func()) {
	t.Helper()
	b = newExchangeBench(t, "binance", "BTCUSDT")
	m, stop = b.start()
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	return b, m, stop
}

// trade lets a second pass with a trade in the middle, and returns when it began.
func (b *exchangeBench) trade() (start int64) {
	b.t.Helper()
	start = b.Now().UnixMilli()
	b.Add(time.Second)
	markettest.Eventually(b.t, "a trade", func() bool {
		b.Trade("BTCUSDT", markettest.PriceAt(start), start+500)
		return len(b.ticksOf("BTC")) > 0
	})
	return start
}

func TestRealTicksAndBarsCount(t *testing.T) {
	t.Parallel()
	b, m, _ := newFollower(t)
	start := b.Now().UnixMilli()
	price := markettest.PriceAt(start)
	// Prices that cannot be true, and those from outside, do not count.
	for _, bad := range []float64{-1, 0, 1 / price, price * 5} {
		b.Trade("BTCUSDT", bad, start+500)
	}
	b.Trade("BTCUSDT", price, start+3_600_000)
	b.Trade("BTCUSDT", price, 5)
	b.Say("btcusdt@trade", map[string]any{"e": "trade", "s": "BTCUSDT", "p": "NaN", "q": "1", "T": start})
	b.Say("btcusdt@trade", map[string]any{"e": "trade", "s": "BTCUSDT", "p": nil, "q": "1", "T": start})
	b.server.Client().Do(t.Context(), "XADD", "market:ticks", "*", "asset", "BTC", "price", "1")
	b.Add(time.Second)
	b.Trade("BTCUSDT", price+1, start+900)
	b.await(m, "the trade is published", "BTC", signal.M1, func(s market.Snapshot) bool {
		return s.Ticks && s.Last.Price == price+1 && s.Last.Time == start+900
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Source == "binance" && tick.Price != price+1 {
			t.Errorf("a bad price was accepted: %+v", tick)
		}
	}
	// The bar closes, and the coarser ones follow from it.
	b.Add(59 * time.Second)
	b.Close1m("BTCUSDT", start)
	markettest.Eventually(t, "the bar is published", func() bool {
		b.Trade("BTCUSDT", price, start+60_000)
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Bars[len(s.Bars)-1].OpenTime == start
	})
	b.Add(4 * time.Minute)
	// Four bars were not sent, and are requested.
	b.Close1m("BTCUSDT", start+4*60_000)
	b.Add(10 * time.Second)
	markettest.Eventually(t, "the bar of 5m is built", func() bool {
		b.Trade("BTCUSDT", markettest.PriceAt(start+5*60_000), b.Now().UnixMilli())
		s, err := m.Series(t.Context(), "BTC", signal.M5)
		if err != nil {
			return false
		}
		newest := s.Bars[len(s.Bars)-1]
		return newest.OpenTime == start && newest.Open == markettest.PriceAt(start) &&
			newest.Close == markettest.PriceAt(start+4*60_000) && newest.Volume == 5*12.5
	})
}

// Trades during an outage are in bars before the next tick counts.
func TestBarsMakeUpForAnOutage(t *testing.T) {
	t.Parallel()
	b, _, _ := newFollower(t)
	start := b.trade()
	// The time passes before the connection is back: bars are requested as soon as it is.
	b.cut(3 * time.Minute)
	b.reconnect()
	now := b.Now().UnixMilli()
	markettest.Eventually(t, "a trade after it", func() bool {
		b.Trade("BTCUSDT", markettest.PriceAt(now), now)
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
		t.Errorf("the first tick after the gap has %d as the time of missing ticks, want %d", first.Missed, start+500)
	}
	bars, _, err := b.store.Bars(t.Context(), "BTC", signal.M1)
	if err != nil || bars[len(bars)-1].CloseTime < start+60_000 {
		t.Errorf("the bars of the gap are missing: %v", err)
	}
}

// The next feeder continues with the assets that were taken up, and fills the gap.
func TestNextFeederKeepsRealAssets(t *testing.T) {
	t.Parallel()
	b, m, stop := newFollower(t)
	start := b.trade()
	stop()
	b.Add(3 * time.Hour)
	now := b.Now().UnixMilli()
	b.o.Node = "two"
	b.feed(b.o)
	markettest.Eventually(t, "a trade of the next feeder", func() bool {
		b.Trade("BTCUSDT", markettest.PriceAt(now), now)
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && s.Last.Time == now && s.Bars[len(s.Bars)-1].CloseTime == now-now%prices.FrameMS[prices.H1]
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Time > start+500 {
			// The former feeder may not have stored that the last tick came.
			if tick.Missed != start+500 && tick.Missed != start {
				t.Errorf("the first tick after the gap has %d as the time of missing ticks", tick.Missed)
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

// Prices at another level are refused, and after many of them the history is read again.
func TestPersistentLevelIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance,coinbase", "BTCUSDT")
	b.o.Real.CoinbaseURL = markettest.New(t, b.Now).URL
	m, _ := b.start()
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	for i := range int64(source.LevelFaults) {
		b.Trade("BTCUSDT", 1/markettest.PriceAt(0), b.Now().UnixMilli()+i)
	}
	b.await(m, "the other source gives the prices", "BTC", signal.M1, func(s market.Snapshot) bool {
		return s.Source == "coinbase"
	})
	for _, tick := range b.ticksOf("BTC") {
		if tick.Price < 1000 {
			t.Errorf("%+v is written", tick)
		}
	}
	// The first source is ignored now.
	b.Trade("BTCUSDT", markettest.PriceAt(0), b.Now().UnixMilli())
	if s, err := m.Series(t.Context(), "BTC", signal.M1); err != nil || s.Ticks {
		t.Errorf("ticks %t, %v", s.Ticks, err)
	}
}

func TestFailingSourceIsReplaced(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance,coinbase", "BTCUSDT")
	b.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTeapot)
	})
	b.o.Real.CoinbaseURL = markettest.New(t, b.Now).URL
	m, _ := b.start()
	s, err := m.Series(t.Context(), "BTC", signal.M5)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source != "coinbase" || s.Ticks {
		t.Errorf("source %s, ticks %t", s.Source, s.Ticks)
	}
	if asked := b.Asked(); asked != 1 {
		t.Errorf("%d requests although the exchange bans us", asked)
	}
}

func TestSeriesFailsWithoutASource(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance", "BTCUSDT")
	b.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html>sign in</html>"))
	})
	m, _ := b.start()
	_, err := m.Series(t.Context(), "BTC", signal.M5)
	if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable || e.RetryAfter <= 0 {
		t.Errorf("%v", err)
	}
}
