package feeder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// newStreamBench returns a bench whose feeder and market go by what anybody writes to
// Redis, and a client to write with.
func newStreamBench(t *testing.T) (b *bench, rdb *redis.Client, m *market.Market) {
	t.Helper()
	b = newBench(t, time.Now)
	b.feed(Options{Sources: "stream"})
	return b, b.server.Client(), b.market(market.Options{Sources: "stream"})
}

// write adds an entry to a stream as anybody may.
func (b *bench) write(rdb *redis.Client, stream string, fields ...any) {
	b.t.Helper()
	if err := rdb.XAdd(b.t.Context(), &redis.XAddArgs{Stream: stream, Values: fields}).Err(); err != nil {
		b.t.Fatal(err)
	}
}

// writeHours gives n bars of 1h that end with the last full hour by the clock.
func (b *bench) writeHours(rdb *redis.Client, asset string, n int) (last int64) {
	b.t.Helper()
	end := b.now().UnixMilli()
	end -= end % 3_600_000
	for i := n; i > 0; i-- {
		price := 100 + float64(i%17)
		b.write(rdb, "market:bars", "asset", asset, "timeframe", "1h", "open_time", end-int64(i)*3_600_000,
			"open", price, "high", price+2, "low", price-2, "close", price+1, "volume", 3)
	}
	return end - 3_600_000
}

// runError returns err as what it must be.
func runError(t *testing.T, err error) *signal.RunError {
	t.Helper()
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	return e
}

func TestPricesFromOutsideReachSnapshots(t *testing.T) {
	t.Parallel()
	b, rdb, m := newStreamBench(t)
	_, err := m.Series(t.Context(), "NOSUCH", signal.H1)
	if e := runError(t, err); e.Code != signal.DataUnavailable || e.Retryable || e.Message != "no source knows NOSUCH" {
		t.Errorf("an unknown asset: %+v", e)
	}

	last := b.writeHours(rdb, "BTCUSDT", 400)
	var s market.Snapshot
	markettest.Eventually(t, "bars", func() bool {
		var err error
		s, err = m.Series(t.Context(), "btc", signal.H1)
		return err == nil && len(s.Bars) == 400
	})
	if s.Asset != (market.Asset{Symbol: "BTC", Class: assets.Crypto, AlwaysOpen: true}) || s.Source != "stream" || s.Compression != 1 {
		t.Errorf("snapshot is %+v of %s at %v", s.Asset, s.Source, s.Compression)
	}
	if newest := s.Bars[399]; newest.OpenTime != last || s.Ticks || s.Last != (marketdata.Tick{Price: newest.Close, Time: newest.CloseTime}) {
		t.Errorf("newest bar %+v, last %+v", newest, s.Last)
	}

	// A tick becomes the entry.
	now := time.Now().UnixMilli()
	b.write(rdb, "market:ticks", "asset", "BTC/USD", "price", "103.25", "volume", "0.5", "time", now)
	markettest.Eventually(t, "tick", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && s.Ticks && s.Last == marketdata.Tick{Price: 103.25, Volume: .5, Time: now}
	})

	// A bar given again replaces the former copy, also where it is read already.
	before := s.Bars
	b.write(rdb, "market:bars", "asset", "BTC", "timeframe", "1h", "open_time", last,
		"open", 100, "high", 200, "low", 50, "close", 150, "volume", 1)
	want := marketdata.Bar{OpenTime: last, CloseTime: last + 3_600_000, Open: 100, High: 200, Low: 50, Close: 150, Volume: 1}
	markettest.Eventually(t, "replacement", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && len(s.Bars) == 400 && s.Bars[399] == want
	})
	if before[399].Close == 150 {
		t.Error("a snapshot changed")
	}

	// Another node reads the same.
	other := b.market(market.Options{Sources: "stream"})
	markettest.Eventually(t, "the other node", func() bool {
		s, err := other.Series(t.Context(), "BTC-USD", signal.H1)
		return err == nil && len(s.Bars) == 400 && s.Bars[399] == want && s.Last.Price == 103.25
	})
	if _, err := m.Series(t.Context(), "BTC", signal.D1); err != nil {
		t.Errorf("days come of given hours: %v", err)
	}
	_, err = m.Series(t.Context(), "BTC", signal.M1)
	if e := runError(t, err); e.Code != signal.InsufficientHistory {
		t.Errorf("no bars of 1m: %+v", e)
	}
	markettest.Eventually(t, "emptied input", func() bool { return rdb.XLen(t.Context(), "market:bars").Val() == 0 })
}

func TestTicksFromOutsideMakeMinutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	m := b.market(market.Options{Sources: "stream"})
	// Ten minutes that ended a minute ago, and the tick that shows it.
	begin := time.Now().Truncate(time.Minute).Add(-11 * time.Minute).UnixMilli()
	for i := range int64(20) {
		b.write(rdb, "market:ticks", "asset", "NEWCOIN", "price", fmt.Sprint(10+i%4), "volume", 2, "time", begin+i*30_000)
	}
	b.write(rdb, "market:ticks", "asset", "newcoin", "price", "10")
	b.feed(Options{Sources: "stream"}) // it finds what was written before it
	var s market.Snapshot
	markettest.Eventually(t, "minutes", func() bool {
		var err error
		s, err = m.Series(t.Context(), "NewCoin", signal.M1)
		return err == nil && len(s.Bars) == 10
	})
	for i, bar := range s.Bars {
		open := 10 + float64(2*i%4)
		want := marketdata.Bar{OpenTime: begin + int64(i)*60_000, CloseTime: begin + int64(i+1)*60_000,
			Open: open, High: open + 1, Low: open, Close: open + 1, Volume: 4}
		if d := cmp.Diff(want, bar); d != "" {
			t.Errorf("minute %d (-want +got):\n%s", i, d)
		}
	}
	if s.Asset.Symbol != "NEWCOIN" || s.Asset.TickSize != 0 || s.Asset.Class != "" {
		t.Errorf("asset is %+v", s.Asset)
	}
}

func TestNonsenseIsSkippedAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	registry := prometheus.NewRegistry()
	b.feed(Options{Sources: "stream", Metrics: NewMetrics(registry)})
	m := b.market(market.Options{Sources: "stream"})
	tick := func(fields ...any) { b.write(rdb, "market:ticks", fields...) }
	tick("asset", "X", "price", "NaN")
	tick("asset", "X", "price", "-5")
	tick("asset", "X", "price", "1e300")
	tick("asset", "X", "price", "5", "colour", "blue")
	tick("price", "5")
	tick("asset", strings.Repeat("x", 70), "price", "5")
	tick("asset", "X\x00", "price", "5")
	tick("asset", "X", "price", "5", "time", time.Now().Add(time.Hour).UnixMilli())
	b.write(rdb, "market:bars", "asset", "X", "timeframe", "1h", "open_time", "1795251600001", "open", 1, "high", 1, "low", 1, "close", 1)
	b.write(rdb, "market:bars", "asset", "X", "timeframe", "1h", "open_time", "1795248000000", "open", 1, "high", 1, "low", 2, "close", 1)
	b.write(rdb, "market:bars", "asset", "X", "timeframe", "7m", "open_time", "1795248000000", "open", 1, "high", 1, "low", 1, "close", 1)
	b.writeHours(rdb, "X", 3)
	markettest.Eventually(t, "bars behind the nonsense", func() bool {
		s, err := m.Series(t.Context(), "X", signal.H1)
		return err == nil && len(s.Bars) == 3 && !s.Ticks
	})
	markettest.Eventually(t, "counting", func() bool { return counted(t, registry, "agentsignal_market_ticks_total") == 8 })
	if got := counted(t, registry, "agentsignal_market_entries_skipped_total"); got != 11 {
		t.Errorf("%v entries skipped, want 11", got)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// counted returns the sum of a counter over its labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestBadTicksDoNotBecomeTheLastPrice(t *testing.T) {
	t.Parallel()
	b, rdb, m := newStreamBench(t)
	end := time.Now().Truncate(time.Minute).UnixMilli()
	for i := int64(30); i > 0; i-- {
		b.write(rdb, "market:bars", "asset", "X", "timeframe", "1m", "open_time", end-i*60_000, "open", 100, "high", 101, "low", 99, "close", 100)
	}
	last := func(want float64) {
		t.Helper()
		markettest.Eventually(t, fmt.Sprintf("last price %v", want), func() bool {
			s, err := m.Series(t.Context(), "X", signal.M1)
			return err == nil && s.Last.Price == want && s.Ticks
		})
	}
	markettest.Eventually(t, "bars", func() bool {
		s, err := m.Series(t.Context(), "X", signal.M1)
		return err == nil && len(s.Bars) >= 30
	})
	b.write(rdb, "market:ticks", "asset", "X", "price", "100.5")
	last(100.5)
	b.write(rdb, "market:ticks", "asset", "X", "price", "150") // a mistake
	b.write(rdb, "market:ticks", "asset", "X", "price", "100.75")
	last(100.75)
	b.write(rdb, "market:ticks", "asset", "X", "price", "150") // a crash
	b.write(rdb, "market:ticks", "asset", "X", "price", "151")
	last(151)
}

// TestForeignTicksDoNotTouchASimulatedAsset: who writes ticks of an asset that
// another source gives is told by the counter, and changes nothing.
func TestForeignTicksDoNotTouchASimulatedAsset(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	registry := prometheus.NewRegistry()
	b.feed(Options{Metrics: NewMetrics(registry)})
	m := b.market(market.Options{})
	btc := func() (market.Snapshot, bool) {
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return s, err == nil && s.Ticks
	}
	foreign := func() { b.write(rdb, "market:ticks", "asset", "BTC", "price", "1.5") }
	foreign() // before anybody watches
	markettest.Eventually(t, "a price", func() bool { _, ok := btc(); return ok })
	// Two that confirm one another pass for a move of the market.
	foreign()
	foreign()
	last, _ := btc()
	markettest.Eventually(t, "prices behind the foreign ones", func() bool {
		s, ok := btc()
		if ok && s.Last.Price < 1000 {
			t.Fatalf("the last price is %v", s.Last.Price)
		}
		return ok && s.Last.Time > last.Last.Time+500
	})
	markettest.Eventually(t, "counting", func() bool { return counted(t, registry, "agentsignal_market_entries_skipped_total") == 3 })
}

// TestAForgedSourceIsRefused: whoever may write to market:ticks must not pass for the
// service itself.
func TestAForgedSourceIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	registry := prometheus.NewRegistry()
	b.feed(Options{Metrics: NewMetrics(registry)})
	m := b.market(market.Options{})
	sol := func() (market.Snapshot, bool) {
		s, err := m.Series(t.Context(), "SOL", signal.M1)
		return s, err == nil && s.Ticks
	}
	markettest.Eventually(t, "a price", func() bool { _, ok := sol(); return ok })
	before, _ := sol()
	forged := before.Last.Price * 1.03
	const tries = 20
	for i := range tries {
		fields := []any{"asset", "SOL", "price", forged, "time", time.Now().UnixMilli(), "source", "simulated"}
		if i%2 == 1 {
			fields = append(fields, "missed", time.Now().UnixMilli()-1000)
		}
		b.write(rdb, "market:ticks", fields...)
	}
	markettest.Eventually(t, "prices behind the forged ones", func() bool {
		s, ok := sol()
		if s.Last.Price == forged {
			t.Fatalf("the last price is the forged one")
		}
		return ok && s.Last.Time > before.Last.Time+500
	})
	markettest.Eventually(t, "counting", func() bool { return counted(t, registry, "agentsignal_market_entries_skipped_total") == tries })
}

func TestStreamBeforeSimulated(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	b.writeHours(rdb, "BTC", 5)
	b.feed(Options{Sources: "stream,simulated"})
	m := b.market(market.Options{Sources: "stream,simulated"})
	for asset, source := range map[string]string{"BTC": "stream", "ETH": "simulated"} {
		markettest.Eventually(t, asset, func() bool {
			s, err := m.Series(t.Context(), asset, signal.H1)
			return err == nil && s.Source == source && (len(s.Bars) == 5) == (source == "stream")
		})
	}
}

func TestOtherSourcesBeginAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	rdb := b.server.Client()
	m := b.market(market.Options{Sources: "simulated,stream"})
	stop := b.feed(Options{})
	markettest.Eventually(t, "simulated bars", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && len(s.Bars) >= 999
	})
	stop()
	// The same installation, with prices from outside only.
	b.feed(Options{Sources: "stream"})
	outside := b.market(market.Options{Sources: "stream"})
	markettest.Eventually(t, "end of the simulation", func() bool {
		_, err := outside.Series(t.Context(), "BTC", signal.H1)
		e, ok := errors.AsType[*signal.RunError](err)
		return ok && e.Message == "no source knows BTC" && !e.Retryable
	})
	b.writeHours(rdb, "BTC", 7)
	for _, node := range []*market.Market{m, outside} {
		markettest.Eventually(t, "bars from outside", func() bool {
			s, err := node.Series(t.Context(), "BTC", signal.H1)
			return err == nil && len(s.Bars) == 7 && s.Compression == 1
		})
	}
}

func TestRedisAwayIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	m := b.market(market.Options{})
	b.server.Kill()
	asking, enough := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer enough()
	_, err := m.Series(asking, "BTC", signal.H1)
	if e := runError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
		t.Errorf("error is %+v", e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = m.News(ctx, "BTC", 0)
	if e := runError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
		t.Errorf("news: %+v", e)
	}
	// It comes back, empty, and a market begins.
	b.server.Restart()
	b.feed(Options{})
	markettest.Eventually(t, "bars after the restart", func() bool {
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		return err == nil && len(s.Bars) >= 999 && s.Ticks
	})
	markettest.Eventually(t, "news after the restart", func() bool {
		news, err := m.News(t.Context(), "btc", 0)
		return err == nil && len(news) > 300
	})
}

// TestTheFirstTickMayBeAMistake: where no tick has come yet, the newest bar says what is
// a jump.
func TestTheFirstTickMayBeAMistake(t *testing.T) {
	t.Parallel()
	b, rdb, m := newStreamBench(t)
	end := b.now().UnixMilli() / 60_000 * 60_000
	for i := int64(40); i > 0; i-- {
		b.write(rdb, "market:bars", "asset", "NEWCOIN", "timeframe", "1m", "open_time", end-i*60_000,
			"open", 100, "high", 101, "low", 99, "close", 100, "volume", 1)
	}
	markettest.Eventually(t, "bars", func() bool {
		s, err := m.Series(t.Context(), "NEWCOIN", signal.M1)
		return err == nil && len(s.Bars) == 40
	})
	now := max(b.now().UnixMilli(), end+2)
	b.write(rdb, "market:ticks", "asset", "NEWCOIN", "price", 5_000_000, "time", now-1)
	b.write(rdb, "market:ticks", "asset", "NEWCOIN", "price", 100.5, "time", now)
	// Had the first one been taken, the second would be the jump that waits.
	markettest.Eventually(t, "the right tick", func() bool {
		s, err := m.Series(t.Context(), "NEWCOIN", signal.M1)
		return err == nil && s.Ticks && s.Last.Price == 100.5
	})
}
