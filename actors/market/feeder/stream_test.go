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

// newStreamBench returns a bench with a feeder and a market of prices from outside.
func newStreamBench(t *testing.T) (b *bench, m *market.Market) {
	t.Helper()
	b = newBench(t, time.Now)
	b.feed(Options{Sources: "stream"})
	return b, b.market(market.Options{Sources: "stream"})
}

func (b *bench) write(stream string, fields ...any) {
	b.t.Helper()
	must(b.t, b.server.Client().XAdd(b.t.Context(), &redis.XAddArgs{Stream: stream, Values: fields}).Err())
}

// writeHours writes n bars of 1h that end with the last full hour.
func (b *bench) writeHours(asset string, n int) (last int64) {
	b.t.Helper()
	end := b.now().UnixMilli()
	end -= end % 3_600_000
	for i := n; i > 0; i-- {
		price := 100 + float64(i%17)
		b.write("market:bars", "asset", asset, "timeframe", "1h", "open_time", end-int64(i)*3_600_000,
			"open", price, "high", price+2, "low", price-2, "close", price+1, "volume", 3)
	}
	return end - 3_600_000
}

// writeMinutes writes n bars of 1m around 100 that end with the last full minute.
func (b *bench) writeMinutes(asset string, n int64) (end int64) {
	b.t.Helper()
	end = b.now().Truncate(time.Minute).UnixMilli()
	for open := end - n*60_000; open < end; open += 60_000 {
		b.write("market:bars", "asset", asset, "timeframe", "1m", "open_time", open,
			"open", 100, "high", 101, "low", 99, "close", 100)
	}
	return end
}

func TestPricesFromOutsideReachSnapshots(t *testing.T) {
	t.Parallel()
	b, m := newStreamBench(t)
	_, err := m.Series(t.Context(), "NOSUCH", signal.H1)
	e := markettest.RunError(t, err)
	if e.Code != signal.DataUnavailable || e.Retryable || e.Message != "no source knows NOSUCH" {
		t.Errorf("an unknown asset: %+v", e)
	}

	last := b.writeHours("BTCUSDT", 400)
	s := b.await(m, "bars", "btc", signal.H1, func(s market.Snapshot) bool { return len(s.Bars) == 400 })
	btc := market.Asset{Symbol: "BTC", Class: assets.Crypto, AlwaysOpen: true}
	if s.Asset != btc || s.Source != "stream" || s.Compression != 1 {
		t.Errorf("snapshot is %+v of %s at %v", s.Asset, s.Source, s.Compression)
	}
	newest := s.Bars[399]
	if newest.OpenTime != last || s.Ticks || s.Last != (marketdata.Tick{Price: newest.Close, Time: newest.CloseTime}) {
		t.Errorf("newest bar %+v, last %+v", newest, s.Last)
	}

	// A tick becomes the last price.
	now := time.Now().UnixMilli()
	b.write("market:ticks", "asset", "BTC/USD", "price", "103.25", "volume", "0.5", "time", now)
	b.await(m, "tick", "BTC", signal.H1, func(s market.Snapshot) bool {
		return s.Ticks && s.Last == marketdata.Tick{Price: 103.25, Volume: .5, Time: now}
	})

	// A bar that is given again replaces its former copy, even after it has been read.
	before := s.Bars
	b.write("market:bars", "asset", "BTC", "timeframe", "1h", "open_time", last,
		"open", 100, "high", 200, "low", 50, "close", 150, "volume", 1)
	want := marketdata.Bar{OpenTime: last, CloseTime: last + 3_600_000,
		Open: 100, High: 200, Low: 50, Close: 150, Volume: 1}
	b.await(m, "replacement", "BTC", signal.H1, func(s market.Snapshot) bool {
		return len(s.Bars) == 400 && s.Bars[399] == want
	})
	if before[399].Close == 150 {
		t.Error("a snapshot changed")
	}

	// Another node reads the same.
	other := b.market(market.Options{Sources: "stream"})
	b.await(other, "the other node", "BTC-USD", signal.H1, func(s market.Snapshot) bool {
		return len(s.Bars) == 400 && s.Bars[399] == want && s.Last.Price == 103.25
	})
	if _, err := m.Series(t.Context(), "BTC", signal.D1); err != nil {
		t.Errorf("days are built from given hours: %v", err)
	}
	_, err = m.Series(t.Context(), "BTC", signal.M1)
	if e := markettest.RunError(t, err); e.Code != signal.InsufficientHistory {
		t.Errorf("no bars of 1m: %+v", e)
	}
	markettest.Eventually(t, "emptied input", func() bool {
		return b.server.Client().XLen(t.Context(), "market:bars").Val() == 0
	})
}

func TestTicksFromOutsideMakeMinutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	m := b.market(market.Options{Sources: "stream"})
	// Ten minutes that ended a minute ago, and a later tick.
	begin := time.Now().Truncate(time.Minute).Add(-11 * time.Minute).UnixMilli()
	for i := range int64(20) {
		b.write("market:ticks", "asset", "NEWCOIN", "price", fmt.Sprint(10+i%4), "volume", 2, "time", begin+i*30_000)
	}
	b.write("market:ticks", "asset", "newcoin", "price", "10")
	b.feed(Options{Sources: "stream"}) // it reads the entries written before
	s := b.await(m, "minutes", "NewCoin", signal.M1, func(s market.Snapshot) bool { return len(s.Bars) == 10 })
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

func TestInvalidEntriesAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	registry := prometheus.NewRegistry()
	b.feed(Options{Sources: "stream", Metrics: NewMetrics(registry)})
	m := b.market(market.Options{Sources: "stream"})
	tick := func(fields ...any) { b.write("market:ticks", fields...) }
	tick("asset", "X", "price", "NaN")
	tick("asset", "X", "price", "-5")
	tick("asset", "X", "price", "1e300")
	tick("asset", "X", "price", "5", "colour", "blue")
	tick("price", "5")
	tick("asset", strings.Repeat("x", 70), "price", "5")
	tick("asset", "X\x00", "price", "5")
	tick("asset", "X", "price", "5", "time", time.Now().Add(time.Hour).UnixMilli())
	bar := func(tf, openTime string, low int) {
		b.write("market:bars", "asset", "X", "timeframe", tf, "open_time", openTime,
			"open", 1, "high", 1, "low", low, "close", 1)
	}
	bar("1h", "1795251600001", 1)
	bar("1h", "1795248000000", 2)
	bar("7m", "1795248000000", 1)
	b.writeHours("X", 3)
	b.await(m, "bars after the invalid ones", "X", signal.H1, func(s market.Snapshot) bool {
		return len(s.Bars) == 3 && !s.Ticks
	})
	awaitCount(t, registry, "agentsignal_market_ticks_total", 8)
	awaitCount(t, registry, skippedTotal, 11)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStreamsThatBeginAgainAreRead deletes the streams of prices and writes to them again with smaller ids, as a writer
// with ids of its own does, or Redis after its clock went back.
func TestStreamsThatBeginAgainAreRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	registry := prometheus.NewRegistry()
	b.feed(Options{Sources: "stream", Metrics: NewMetrics(registry)})
	m := b.market(market.Options{Sources: "stream"})
	rdb, end := b.server.Client(), b.now().Truncate(time.Minute).UnixMilli()
	for i, price := range []int{100, 101, 102} {
		// Ids of the next hour, then of the next half hour, then of now.
		at := b.now().Add(time.Hour * time.Duration(2-i) / 2).UnixMilli()
		for stream, fields := range map[string][]any{
			"market:ticks": {"asset", "X", "price", price, "time", b.now().UnixMilli()},
			"market:bars": {"asset", "Y", "timeframe", "1m", "open_time", end - int64(3-i)*60_000,
				"open", price, "high", price, "low", price, "close", price},
		} {
			must(t, rdb.Del(t.Context(), stream).Err())
			must(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: fmt.Sprintf("%d-1", at), Values: fields}).Err())
		}
		if i == 0 {
			b.writeHours("X", 3) // so that X has a series
		}
		b.await(m, fmt.Sprintf("tick %d", i), "X", signal.H1, func(s market.Snapshot) bool {
			return s.Ticks && s.Last.Price == float64(price)
		})
		markettest.Eventually(t, fmt.Sprintf("bar %d", i), func() bool {
			bars, _, err := b.store.Bars(t.Context(), "Y", signal.M1)
			return err == nil && len(bars) == i+1 && bars[i].Close == float64(price)
		})
		awaitCount(t, registry, "agentsignal_market_stream_restarts_total", float64(2*i))
	}
	awaitCount(t, registry, skippedTotal, 0)
}

// TestOwnStreamsThatBeginAgainAreRead does the same with the streams of the feeder, which a node reads.
func TestOwnStreamsThatBeginAgainAreRead(t *testing.T) {
	t.Parallel()
	b, _, btc := simulatedBench(t, "BTC")
	rdb := b.server.Client()
	advance := func(when string) {
		t.Helper()
		var first market.Snapshot
		markettest.Eventually(t, "a price "+when, func() (ok bool) { first, ok = btc(); return ok })
		markettest.Eventually(t, "later prices and bars "+when, func() bool {
			s, ok := btc()
			return ok && s.Last.Time > first.Last.Time && s.Bars[len(s.Bars)-1].OpenTime > first.Bars[len(first.Bars)-1].OpenTime
		})
	}
	advance("at first")
	var streams []string
	for _, name := range []string{"ticks", "closed"} {
		keys, err := rdb.Keys(t.Context(), "{market*}:"+name).Result()
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		streams = append(streams, keys[0])
		must(t, rdb.Do(t.Context(), "XSETID", keys[0], fmt.Sprintf("%d-0", b.now().Add(time.Hour).UnixMilli())).Err())
	}
	advance("with later ids")
	must(t, rdb.Del(t.Context(), streams...).Err())
	advance("with smaller ids")
}

const skippedTotal = "agentsignal_market_entries_skipped_total"

// awaitCount waits until the sum of a counter over its labels is want.
func awaitCount(t *testing.T, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	markettest.Eventually(t, fmt.Sprintf("%s of %v", name, want), func() bool {
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
		return sum == want
	})
}

func TestBadTicksDoNotBecomeTheLastPrice(t *testing.T) {
	t.Parallel()
	b, m := newStreamBench(t)
	b.writeMinutes("X", 30)
	last := func(want float64) {
		t.Helper()
		b.await(m, fmt.Sprintf("last price %v", want), "X", signal.M1, func(s market.Snapshot) bool {
			return s.Last.Price == want && s.Ticks
		})
	}
	tick := func(price string) { b.write("market:ticks", "asset", "X", "price", price) }
	b.await(m, "bars", "X", signal.M1, func(s market.Snapshot) bool { return len(s.Bars) >= 30 })
	tick("100.5")
	last(100.5)
	tick("150") // a bad tick
	tick("100.75")
	last(100.75)
	tick("150") // a crash
	tick("151")
	last(151)
}

// simulatedBench returns a bench with a simulated market, the registry of its metrics, and a
// function that returns a snapshot of an asset and whether it has ticks.
func simulatedBench(t *testing.T, asset string) (
	b *bench, registry *prometheus.Registry, snapshot func() (market.Snapshot, bool)) {
	t.Helper()
	b = newBench(t, time.Now)
	registry = prometheus.NewRegistry()
	b.feed(Options{Metrics: NewMetrics(registry)})
	m := b.market(market.Options{})
	return b, registry, func() (market.Snapshot, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), markettest.WaitLimit)
		defer cancel()
		s, err := m.Series(ctx, asset, signal.M1)
		return s, err == nil && s.Ticks
	}
}

// Ticks from outside of an asset that another source gives are counted and change nothing.
func TestForeignTicksDoNotTouchASimulatedAsset(t *testing.T) {
	t.Parallel()
	b, registry, btc := simulatedBench(t, "BTC")
	foreign := func() { b.write("market:ticks", "asset", "BTC", "price", "1.5") }
	foreign() // before the first question
	markettest.Eventually(t, "a price", func() bool { _, ok := btc(); return ok })
	// Two that confirm one another look like a move of the market.
	foreign()
	foreign()
	last, _ := btc()
	markettest.Eventually(t, "prices after the foreign ones", func() bool {
		s, ok := btc()
		if ok && s.Last.Price < 1000 {
			t.Fatalf("the last price is %v", s.Last.Price)
		}
		return ok && s.Last.Time > last.Last.Time+500
	})
	awaitCount(t, registry, skippedTotal, 3)
}

// A writer of market:ticks must not pass for the service itself.
func TestForgedSourceIsRefused(t *testing.T) {
	t.Parallel()
	b, registry, sol := simulatedBench(t, "SOL")
	markettest.Eventually(t, "a price", func() bool { _, ok := sol(); return ok })
	before, _ := sol()
	forged := before.Last.Price * 1.03
	const tries = 20
	for i := range tries {
		fields := []any{"asset", "SOL", "price", forged, "time", time.Now().UnixMilli(), "source", "simulated"}
		if i%2 == 1 {
			fields = append(fields, "missed", time.Now().UnixMilli()-1000)
		}
		b.write("market:ticks", fields...)
	}
	markettest.Eventually(t, "prices after the forged ones", func() bool {
		s, ok := sol()
		if s.Last.Price == forged {
			t.Fatalf("the last price is the forged one")
		}
		return ok && s.Last.Time > before.Last.Time+500
	})
	awaitCount(t, registry, skippedTotal, tries)
}

func TestStreamBeforeSimulated(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	b.writeHours("BTC", 5)
	b.feed(Options{Sources: "stream,simulated"})
	m := b.market(market.Options{Sources: "stream,simulated"})
	for asset, source := range map[string]string{"BTC": "stream", "ETH": "simulated"} {
		b.await(m, asset, asset, signal.H1, func(s market.Snapshot) bool {
			return s.Source == source && (len(s.Bars) == 5) == (source == "stream")
		})
	}
}

func TestOtherSourcesBeginAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	m := b.market(market.Options{Sources: "simulated,stream"})
	stop := b.feed(Options{})
	b.await(m, "simulated bars", "BTC", signal.H1, func(s market.Snapshot) bool { return len(s.Bars) >= 999 })
	stop()
	// The same installation, with prices from outside only.
	b.feed(Options{Sources: "stream"})
	outside := b.market(market.Options{Sources: "stream"})
	markettest.Eventually(t, "end of the simulation", func() bool {
		_, err := outside.Series(t.Context(), "BTC", signal.H1)
		e, ok := errors.AsType[*signal.RunError](err)
		return ok && e.Message == "no source knows BTC" && !e.Retryable
	})
	b.writeHours("BTC", 7)
	for _, node := range []*market.Market{m, outside} {
		b.await(node, "bars from outside", "BTC", signal.H1, func(s market.Snapshot) bool {
			return len(s.Bars) == 7 && s.Compression == 1
		})
	}
}

func TestRedisAwayIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	m := b.market(market.Options{})
	b.server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := m.Series(ctx, "BTC", signal.H1)
	if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
		t.Errorf("error is %+v", e)
	}
	_, err = m.News(ctx, "BTC", 0)
	if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
		t.Errorf("news: %+v", e)
	}
	// Redis comes back empty, and a market begins.
	b.server.Restart()
	b.feed(Options{})
	b.await(m, "bars after the restart", "BTC", signal.H1, func(s market.Snapshot) bool {
		return len(s.Bars) >= 999 && s.Ticks
	})
	markettest.Eventually(t, "news after the restart", func() bool {
		news, err := m.News(t.Context(), "btc", 0)
		return err == nil && len(news) > 300
	})
}

// The first tick is compared with the newest bar.
func TestFirstTickMayBeBad(t *testing.T) {
	t.Parallel()
	b, m := newStreamBench(t)
	end := b.writeMinutes("NEWCOIN", 40)
	b.await(m, "bars", "NEWCOIN", signal.M1, func(s market.Snapshot) bool { return len(s.Bars) == 40 })
	now := max(b.now().UnixMilli(), end+2)
	b.write("market:ticks", "asset", "NEWCOIN", "price", 5_000_000, "time", now-1)
	b.write("market:ticks", "asset", "NEWCOIN", "price", 100.5, "time", now)
	// If the first one were accepted the second would be held as a jump.
	b.await(m, "the right tick", "NEWCOIN", signal.M1, func(s market.Snapshot) bool {
		return s.Ticks && s.Last.Price == 100.5
	})
}
