package service

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// pricer writes prices from outside: by XADD to the two streams.
type pricer struct {
	tb  testing.TB
	rdb redis.Cmdable
}

func newMarket(tb testing.TB, rdb redis.Cmdable) pricer { return pricer{tb, rdb} }

// add writes entries, each a list of names and values, to a stream.
func (m pricer) add(stream string, entries ...[]any) {
	m.tb.Helper()
	p := m.rdb.Pipeline()
	for _, e := range entries {
		p.XAdd(m.tb.Context(), &redis.XAddArgs{Stream: stream, Values: e})
	}
	if _, err := p.Exec(m.tb.Context()); err != nil {
		m.tb.Fatalf("write to %s: %v", stream, err)
	}
}

// tick writes a trade.
func (m pricer) tick(asset, price string) {
	m.tb.Helper()
	m.add("market:ticks", []any{"asset", asset, "price", price})
}

// hours writes the last n closed bars of 1h and returns them.
func (m pricer) hours(asset string, n int) []marketdata.Bar {
	m.tb.Helper()
	return m.bars(asset, signal.H1, time.Hour, n)
}

// bars writes the last n closed bars of a timeframe, which has the given length,
// and returns them.
func (m pricer) bars(asset string, tf signal.Timeframe, length time.Duration, n int) []marketdata.Bar {
	m.tb.Helper()
	bars := waves(length, n)
	m.give(asset, tf, bars...)
	return bars
}

// waves returns the last n closed bars of a length, whose prices are those of path.
func waves(length time.Duration, n int) []marketdata.Bar {
	step := length.Milliseconds()
	end := time.Now().UnixMilli() / step * step
	bars := make([]marketdata.Bar, n)
	for i := range bars {
		open := end - int64(n-i)*step
		b := marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: path(i), Close: path(i + 1),
			Volume: 5 + float64(i%7)}
		b.High, b.Low = max(b.Open, b.Close)+.5, min(b.Open, b.Close)-.5
		bars[i] = b
	}
	return bars
}

// give writes bars of a timeframe.
func (m pricer) give(asset string, tf signal.Timeframe, bars ...marketdata.Bar) {
	m.tb.Helper()
	entries := make([][]any, len(bars))
	for i, b := range bars {
		entries[i] = []any{"asset", asset, "timeframe", string(tf), "open_time", b.OpenTime,
			"open", b.Open, "high", b.High, "low", b.Low, "close", b.Close, "volume", b.Volume}
	}
	m.add("market:bars", entries...)
}

// path returns the price after i bars: waves with a drift.
func path(i int) float64 {
	x := float64(i)
	return math.Round((100+8*math.Sin(x/11)+3*math.Cos(x/5)+.01*x)*1e4) / 1e4
}

// open makes an asset that can be run on, with a last trade.
func (m pricer) open(asset, price string) []marketdata.Bar {
	m.tb.Helper()
	bars := m.hours(asset, 400)
	m.tick(asset, price)
	return bars
}

func TestARunSeesThePricesThatOthersWrite(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()))
	prices := newMarket(t, redis.Client())
	trader, _ := s.account(t)

	trader.tryRun("WAVES", "momentum").fails(t, "agent_failed")
	prices.hours("WAVES", 250)
	eventually(t, "250 bars are too few", func() bool {
		a := trader.tryRun("WAVES", "momentum")
		return decode[problem](t, a.Body).ErrorCode == "INSUFFICIENT_HISTORY"
	})
	bars := prices.hours("WAVES", 500)
	prices.tick("WAVES", "102.75")
	eventually(t, "all bars and the tick are seen", func() bool {
		seen, err := s.process.market.Series(t.Context(), "waves", signal.H1)
		return err == nil && slices.Equal(seen.Bars, bars) && seen.Last.Price == 102.75
	})

	// The run answers with the result of the strategy on these bars.
	series := strategy.NewSeries(signal.H1).WithTick(1e-5)
	must(t, series.Sync(bars))
	for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
		want, err := series.Assess(name, signal.MediumRisk)
		if err != nil {
			t.Fatalf("assess %s: %v", name, err)
		}
		levels, err := want.Levels(102.75, 1e-5)
		must(t, err)
		got := trader.run("WAVES", name)
		if got.Direction != string(want.Direction) || math.Abs(got.Confidence-want.Confidence) > .0001 ||
			*got.Entry != 102.75 || *got.Stop != levels.Stop || *got.Target != levels.Target {
			t.Errorf("%s: the run has %s %v at %v, stop %v, target %v; the strategy %s %v at %+v", name, got.Direction,
				got.Confidence, *got.Entry, *got.Stop, *got.Target, want.Direction, want.Confidence, levels)
		}
	}

	// The next tick is the next entry, whatever the spelling of the asset.
	for _, price := range []string{"102.8", "103.123", "99.5"} {
		prices.tick("waves", price)
		eventually(t, "the entry is "+price, func() bool {
			return fmt.Sprint(*trader.run("Waves", "breakout").Entry) == price
		})
	}
}

func TestTheFirstRunOnAnAssetKnowsItsLastTrade(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	rdb := redis.Client()
	s := start(t, testConfig(t, redis.URL()))
	prices := newMarket(t, rdb)
	trader, _ := s.account(t)
	for i := range 5 {
		asset := fmt.Sprintf("NEW%d", i)
		prices.hours(asset, 400)
		eventually(t, "the bars are taken", func() bool { return rdb.XLen(t.Context(), "market:bars").Val() == 0 })
		ticks := s.metric(t, "agentsignal_market_ticks_total")
		prices.tick(asset, "102.5")
		eventually(t, "the tick is taken", func() bool { return s.metric(t, "agentsignal_market_ticks_total") > ticks })
		// The asset has not been requested before, and it does not trade again.
		eventually(t, "the tick is the entry", func() bool { return *trader.run(asset, "momentum").Entry == 102.5 })
	}
}

func TestInvalidMarketDataIsIgnored(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()))
	rdb := redis.Client()
	prices := newMarket(t, rdb)
	bars := prices.open("ACME", "101.5")
	s.awaitPrices(t, "ACME", signal.H1)

	now := time.Now().UnixMilli()
	hour := bars[len(bars)-1].OpenTime
	bar := func(change ...any) []any {
		fields := map[string]any{"asset": "ACME", "timeframe": "1h", "open_time": hour, "open": 100,
			"high": 101, "low": 99, "close": 100}
		for i := 0; i < len(change); i += 2 {
			fields[change[i].(string)] = change[i+1]
		}
		var list []any
		for name, value := range fields {
			if value != nil {
				list = append(list, name, value)
			}
		}
		return list
	}
	ticks := [][]any{
		{"asset", "ACME", "price", "NaN"}, {"asset", "ACME", "price", "+Inf"}, {"asset", "ACME", "price", "-1"},
		{"asset", "ACME", "price", "0"},
		{"asset", "ACME", "price", "1e300"}, {"asset", "ACME", "price", ""}, {"asset", "ACME", "price", "0x10"},
		{"asset", "ACME", "price", "1_000"},
		{"asset", "ACME", "price", strings.Repeat("9", 4000)}, {"asset", "ACME", "price", "\xff\x00"}, {"price", "5"},
		{"asset", "ACME"},
		{"asset", "ACME", "price", "5", "colour", "blue"}, {"asset", "", "price", "5"},
		{"asset", strings.Repeat("A", 10_000), "price", "5"},
		{"asset", "AC\x00ME", "price", "5"}, {"asset", "ACME", "price", "5", "volume", "-3"},
		{"asset", "ACME", "price", "5", "volume", "many"},
		{"asset", "ACME", "price", "5", "time", "yesterday"}, {"asset", "ACME", "price", "5", "time", now + 3_600_000},
		{"asset", "ACME", "price", "5", "time", "99999999999999999999"},
		{"asset", "ACME", "price", "5", "time", now - 3_600_000},
		{"x", "y"}, {"asset", "ACME", "price", "5", "time", "-1"},
	}
	malformed := [][]any{
		bar("open", "NaN"), bar("close", -5), bar("high", 98), bar("low", 102), bar("high", "Infinity"),
		bar("timeframe", "7m"), bar("timeframe", nil),
		bar("open_time", hour+1), bar("open_time", now+86_400_000), bar("open_time", "9223372036854775807"),
		bar("open_time", -1), bar("open_time", nil),
		bar("volume", "NaN"), bar("asset", "\xc3\x28"), bar("extra", 1), {"nothing", "at all"},
	}
	before := s.metric(t, "agentsignal_market_entries_skipped_total")
	for range 5 {
		prices.add("market:ticks", ticks...)
		prices.add("market:bars", malformed...)
	}
	want := before + float64(5*(len(ticks)+len(malformed)))
	eventually(t, "all nonsense is counted", func() bool {
		return s.metric(t, "agentsignal_market_entries_skipped_total") == want
	})

	// Later entries are read, and the invalid ones have no effect.
	prices.tick("ACME", "101.75")
	trader, _ := s.account(t)
	eventually(t, "the next tick is the entry", func() bool { return *trader.run("ACME", "momentum").Entry == 101.75 })
	seen, err := s.process.market.Series(t.Context(), "ACME", signal.H1)
	if err != nil || len(seen.Bars) != len(bars) || seen.Bars[len(bars)-1] != bars[len(bars)-1] {
		t.Errorf("the bars are %d, the last %+v, err %v", len(seen.Bars), seen.Bars[len(seen.Bars)-1], err)
	}
	s.awaitReady(t)
}
