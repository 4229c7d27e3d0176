package api

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestARunSeesThePricesThatOthersWrite(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	prices := e2e.NewMarket(t, redis.Client())
	trader, _ := s.Account(t)

	trader.TryRun("WAVES", "momentum").Fails(t, "agent_failed")
	prices.Hours("WAVES", 250)
	e2e.Eventually(t, "250 bars are too few", func() bool {
		a := trader.TryRun("WAVES", "momentum")
		return e2e.Decode[e2e.Problem](t, a.Body).ErrorCode == "INSUFFICIENT_HISTORY"
	})
	bars := prices.Hours("WAVES", 500)
	prices.Tick("WAVES", "102.75")
	e2e.Eventually(t, "all bars and the tick are seen", func() bool {
		seen, err := s.Market().Series(t.Context(), "waves", signal.H1)
		return err == nil && slices.Equal(seen.Bars, bars) && seen.Last.Price == 102.75
	})

	// The run answers with the result of the strategy on these bars.
	series := strategy.NewSeries(signal.H1).WithTick(1e-5)
	e2e.Must(t, series.Sync(bars))
	for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
		want, err := series.Assess(name, signal.MediumRisk)
		if err != nil {
			t.Fatalf("assess %s: %v", name, err)
		}
		levels, err := want.Levels(102.75, 1e-5)
		e2e.Must(t, err)
		got := trader.Run("WAVES", name)
		if got.Direction != string(want.Direction) || math.Abs(got.Confidence-want.Confidence) > .0001 ||
			*got.Entry != 102.75 || *got.Stop != levels.Stop || *got.Target != levels.Target {
			t.Errorf("%s: the run has %s %v at %v, stop %v, target %v; the strategy %s %v at %+v", name, got.Direction,
				got.Confidence, *got.Entry, *got.Stop, *got.Target, want.Direction, want.Confidence, levels)
		}
	}

	// The next tick is the next entry, whatever the spelling of the asset.
	for _, price := range []string{"102.8", "103.123", "99.5"} {
		prices.Tick("waves", price)
		e2e.Eventually(t, "the entry is "+price, func() bool {
			return fmt.Sprint(*trader.Run("Waves", "breakout").Entry) == price
		})
	}
}

func TestTheFirstRunOnAnAssetKnowsItsLastTrade(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	rdb := redis.Client()
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	prices := e2e.NewMarket(t, rdb)
	trader, _ := s.Account(t)
	for i := range 5 {
		asset := fmt.Sprintf("NEW%d", i)
		prices.Hours(asset, 400)
		e2e.Eventually(t, "the bars are taken", func() bool { return rdb.XLen(t.Context(), "market:bars").Val() == 0 })
		ticks := s.Metric(t, "agentsignal_market_ticks_total")
		prices.Tick(asset, "102.5")
		e2e.Eventually(t, "the tick is taken", func() bool { return s.Metric(t, "agentsignal_market_ticks_total") > ticks })
		// The asset has not been requested before, and it does not trade again.
		e2e.Eventually(t, "the tick is the entry", func() bool { return *trader.Run(asset, "momentum").Entry == 102.5 })
	}
}

func TestInvalidMarketDataIsIgnored(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	rdb := redis.Client()
	prices := e2e.NewMarket(t, rdb)
	bars := prices.Open("ACME", "101.5")
	s.AwaitPrices(t, "ACME", signal.H1)

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
	before := s.Metric(t, "agentsignal_market_entries_skipped_total")
	for range 5 {
		prices.Add("market:ticks", ticks...)
		prices.Add("market:bars", malformed...)
	}
	want := before + float64(5*(len(ticks)+len(malformed)))
	e2e.Eventually(t, "all nonsense is counted", func() bool {
		return s.Metric(t, "agentsignal_market_entries_skipped_total") == want
	})

	// Later entries are read, and the invalid ones have no effect.
	prices.Tick("ACME", "101.75")
	trader, _ := s.Account(t)
	e2e.Eventually(t, "the next tick is the entry", func() bool { return *trader.Run("ACME", "momentum").Entry == 101.75 })
	seen, err := s.Market().Series(t.Context(), "ACME", signal.H1)
	if err != nil || len(seen.Bars) != len(bars) || seen.Bars[len(bars)-1] != bars[len(bars)-1] {
		t.Errorf("the bars are %d, the last %+v, err %v", len(seen.Bars), seen.Bars[len(seen.Bars)-1], err)
	}
	s.AwaitReady(t)
}
