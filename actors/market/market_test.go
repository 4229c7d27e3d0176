package market

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeStore holds one asset. Its zero values are an asset without prices.
type fakeStore struct {
	mu      sync.Mutex
	asset   marketdata.Asset
	live    marketdata.Live
	bars    []marketdata.AssetBar
	count   int64
	onBars  func()           // called once while bars are read
	onFrame signal.Timeframe // the timeframe of these bars; empty: any
	err     error            // of Asset
}

func (f *fakeStore) Asset(_ context.Context, key string) (marketdata.Asset, marketdata.Live, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return marketdata.Asset{}, marketdata.Live{}, f.err
	}
	if key != assets.Fold(f.asset.Symbol) {
		return marketdata.Asset{}, marketdata.Live{}, signal.NotFound("asset")
	}
	return f.asset, f.live, nil
}

func (f *fakeStore) State(context.Context) (marketdata.State, error) {
	return marketdata.State{Assets: []marketdata.Asset{f.asset}, Live: []marketdata.Live{f.live}}, nil
}

func (f *fakeStore) Bars(_ context.Context, _ string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error) {
	f.mu.Lock()
	var bars []marketdata.AssetBar
	for _, b := range f.bars {
		if b.Timeframe == tf {
			bars = append(bars, b)
		}
	}
	count, then := f.count, f.onBars
	if f.onFrame != "" && f.onFrame != tf {
		then = nil
	} else {
		f.onBars = nil
	}
	f.mu.Unlock()
	if then != nil {
		then()
	}
	return bars, count, nil
}

func (f *fakeStore) TicksEnd(context.Context, marketdata.TickStream) (signal.Position, error) {
	return signal.Position{}, nil
}
func (f *fakeStore) Want(context.Context, signal.AccountID, string) (string, error) {
	return "unknown", nil
}
func (f *fakeStore) Listings(context.Context, []string) (map[string][]string, error) {
	return nil, nil
}
func (f *fakeStore) NoteUse(context.Context, []string, time.Time) error { return nil }

func (f *fakeStore) TicksKept(context.Context, marketdata.TickStream, signal.Position) (bool, error) {
	return true, nil
}
func (f *fakeStore) ReadTicks(ctx context.Context, _ marketdata.TickStream, _ signal.Position, _ time.Duration) (
	[]marketdata.Entry, bool, error) {
	<-ctx.Done()
	return nil, false, ctx.Err()
}
func (f *fakeStore) FollowEnd(context.Context) (closed, news signal.Position, count int64, err error) {
	return signal.Position{}, signal.Position{}, 0, nil
}
func (f *fakeStore) Follow(ctx context.Context, c, n signal.Position, _ time.Duration) (
	[]marketdata.ClosedBar, []marketdata.NewsItem, signal.Position, signal.Position, bool, error) {
	<-ctx.Done()
	return nil, nil, c, n, false, ctx.Err()
}

// newFake returns a market over a store and a clock, with working streams.
func newFake(tb testing.TB, store *fakeStore, c *markettest.Clock) *Market {
	tb.Helper()
	sys := engine.NewSystem(engine.Options{})
	tb.Cleanup(func() { sys.Shutdown(context.Background()) })
	m := New(sys, Options{Store: store, Now: c.Now, Sources: "stream"})
	given, own := m.ticks[marketdata.GivenTicks], m.ticks[marketdata.OwnTicks]
	for _, r := range []*reading{&given.reading, &own.reading, &m.bars.reading} {
		r.begun.Store(time.Now().Add(time.Hour).UnixNano()) // however slow the test is
	}
	return m
}

// hours returns n bars of 1h that end at a time.
func hours(n int, end int64, speed int64) []marketdata.AssetBar {
	length := 3_600_000 / speed
	var bars []marketdata.AssetBar
	for i := range n {
		open := end - int64(n-i)*length
		bars = append(bars, marketdata.AssetBar{Asset: "X", Timeframe: signal.H1,
			Bar: marketdata.Bar{OpenTime: open, CloseTime: open + length, Open: 1, High: 2, Low: 1, Close: 2}})
	}
	return bars
}

// minutes is hours for bars of 1m. A read of other timeframes also reads those of 1m.
func minutes(n int, end int64) []marketdata.AssetBar {
	bars := hours(n, end, 60)
	for i := range bars {
		bars[i].Timeframe = signal.M1
	}
	return bars
}

func TestOldPricesAreRefused(t *testing.T) {
	t.Parallel()
	now := markettest.NewClock().Now().UnixMilli()
	seconds := func(n int64) int64 { return n * 1000 }
	for _, c := range []struct {
		name     string
		class    string
		speed    int64
		barAge   int64 // ms since the newest bar ended
		tickAge  int64 // ms; 0: there are no ticks
		stale    bool
		hasTicks bool
	}{
		{"bars within two timeframes and 30 s", assets.Crypto, 1, seconds(7230), 0, false, false},
		{"bars older than that", assets.Crypto, 1, seconds(7231), 0, true, false},
		{"a crypto tick of 30 s", assets.Crypto, 1, 0, seconds(30), false, true},
		{"a crypto tick of 31 s", assets.Crypto, 1, 0, seconds(31), true, false},
		{"a stock tick of 5 min", assets.Stock, 1, 0, seconds(300), false, true},
		{"a stock tick of 301 s", assets.Stock, 1, 0, seconds(301), true, false},
		{"ticks that ended a day ago", assets.Crypto, 1, 0, seconds(86_401), false, false},
		{"compressed bars", assets.Crypto, 60, 120_500, 1, false, true},
		{"compressed bars that are older", assets.Crypto, 60, 120_501, 1, true, false},
		{"compressed ticks, not below 10 s", assets.Crypto, 60, 0, seconds(10), false, true},
		{"compressed ticks above 10 s", assets.Stock, 60, 0, 10_001, true, false},
		{"very compressed bars, not below 10 s", assets.Crypto, 3600, seconds(10), 1, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Class: c.class, Speed: c.speed, Source: "stream"},
				bars: hours(5, now-c.barAge, c.speed)}
			if c.tickAge > 0 {
				store.live.Last = marketdata.Tick{Price: 7, Time: now - c.tickAge}
			}
			s, err := newFake(t, store, markettest.NewClock()).Series(t.Context(), "x", signal.H1)
			if c.stale {
				if e := markettest.RunError(t, err); e.Code != signal.StaleData || !e.Retryable || e.Passing {
					t.Errorf("error is %+v", e)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := marketdata.Tick{Price: 2, Time: now - c.barAge}
			if c.hasTicks {
				want = marketdata.Tick{Price: 7, Time: now - c.tickAge}
			}
			if s.Ticks != c.hasTicks || s.Last != want {
				t.Errorf("last is %+v, a tick: %v", s.Last, s.Ticks)
			}
		})
	}
}

func TestOldPricesOfAnUnreachableStoreAreUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, checkUnreachableStore)
}

func checkUnreachableStore(t *testing.T) {
	c := markettest.NewClock()
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: hours(5, c.Now().UnixMilli(), 1)}
	m := newFake(t, store, c)
	if _, err := m.Series(t.Context(), "X", signal.H1); err != nil {
		t.Fatal(err)
	}
	c.Add(24 * time.Hour)
	_, err := m.Series(t.Context(), "X", signal.H1)
	if e := markettest.RunError(t, err); e.Code != signal.StaleData {
		t.Errorf("while the store answers: %+v", e)
	}
	m.bars.reading.failed()
	_, err = m.Series(t.Context(), "X", signal.H1)
	if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable || !e.Passing {
		t.Errorf("while it does not: %+v", e)
	}
	// A process that was halted reads again a moment later.
	asked := time.Now()
	time.AfterFunc(time.Second, func() {
		c.Add(-24 * time.Hour)
		m.bars.reading.ended(time.Now())
	})
	if _, err := m.Series(t.Context(), "X", signal.H1); err != nil || time.Since(asked) < time.Second {
		t.Errorf("prices that are read again after a second: %v, %s later", err, time.Since(asked))
	}
}

// A question about the simulated market waits for it to begin until its context ends.
func TestSeriesWaitsForTheMarketToBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := markettest.NewClock()
		store := &fakeStore{}
		m := newFake(t, store, c)
		m.loader.names.simulates = true
		var begun time.Time
		for name, want := range map[string]struct {
			retryable bool
			after     time.Duration
		}{"BTC": {true, 5 * time.Second}, "btc-usd": {true, 5 * time.Second}, "NOSUCH": {}} {
			begun = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := m.Series(ctx, name, signal.H1)
			cancel()
			e, took := markettest.RunError(t, err), time.Since(begun)
			if e.Code != signal.DataUnavailable || e.Retryable != want.retryable || e.Passing != want.retryable ||
				took != want.after {
				t.Errorf("%s: %+v after %s", name, e, took)
			}
		}
		if n := len(*m.loader.watches.all.Load()); n != 0 {
			t.Errorf("%d actors of unknown assets", n)
		}
		begun = time.Now()
		time.AfterFunc(2*time.Second, func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.asset, store.bars = marketdata.Asset{Symbol: "BTC", Speed: 1}, hours(5, c.Now().UnixMilli(), 1)
		})
		s, err := m.Series(t.Context(), "BTC", signal.H1)
		if took := time.Since(begun); err != nil || s.Asset.Symbol != "BTC" || took < 2*time.Second {
			t.Errorf("%s: %v after %s", s.Asset.Symbol, err, took)
		}
	})
}

// TestBarsThatCloseDuringAReadCount closes bars while the records are being read.
func TestBarsThatCloseDuringAReadCount(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	end := c.Now().UnixMilli()
	all := hours(12, end, 1)
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: all[:10], count: 10}
	m := newFake(t, store, c)
	closeBar := func(n int64, b marketdata.AssetBar) { m.bars.deliver(&marketdata.ClosedBar{Count: n, Bar: b}) }
	store.onFrame = signal.H1 // bars of 1m are read, too
	store.onBars = func() {
		old := all[9]
		old.Close = 99
		closeBar(9, old)      // the records have a newer copy
		closeBar(11, all[10]) // the records do not have it
	}
	s, err := m.Series(t.Context(), "X", signal.H1)
	if err != nil {
		t.Fatal(err)
	}
	replaced := all[3]
	replaced.High = 50
	closeBar(12, replaced)
	closeBar(13, all[11])
	want := slices.Clone(all)
	want[3] = replaced
	before := slices.Clone(s.Bars)
	var now Snapshot
	markettest.Eventually(t, "bars", func() bool {
		now, _ = m.Series(t.Context(), "X", signal.H1)
		return len(now.Bars) == 12
	})
	for i := range want {
		if d := cmp.Diff(want[i].Bar, now.Bars[i]); d != "" {
			t.Errorf("bar %d (-want +got):\n%s", i, d)
		}
	}
	if d := cmp.Diff(before, s.Bars); d != "" {
		t.Errorf("a snapshot changed:\n%s", d)
	}
}

// A question that waits for an actor that panics fails at once, and the next one succeeds.
func TestQuestionsSurviveAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := markettest.NewClock()
		store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: minutes(12, c.Now().UnixMilli())}
		m := newFake(t, store, c)
		store.onBars = func() { panic("broken") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := m.loader.watched(ctx, "X", signal.M1)
		e, ok := errors.AsType[*signal.RunError](err)
		if !ok || e.Code != signal.DataUnavailable || !e.Retryable || !e.Passing || ctx.Err() != nil {
			t.Errorf("got %v (context: %v), want DATA_UNAVAILABLE, retryable, at once", err, ctx.Err())
		}
		if s, err := m.Series(ctx, "X", signal.M1); err != nil || len(s.Bars) != 12 {
			t.Errorf("afterwards: %d bars, %v", len(s.Bars), err)
		}
	})
}

// The first question about an asset gets the newest tick, even if the records do not have it yet.
func TestFirstQuestionGetsTheNewestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := markettest.NewClock()
		now := c.Now().UnixMilli()
		m := newFake(t, &fakeStore{
			asset: marketdata.Asset{Symbol: "X", Source: source.Stream, Speed: 1},
			live:  marketdata.Live{Asset: "X", Last: marketdata.Tick{Price: 1.5, Time: now - 2000}},
			bars:  hours(12, now, 1),
		}, c)
		at := signal.Position{MS: now - 1000}
		m.ticks[marketdata.GivenTicks].deliver([]marketdata.Entry{
			{Position: at, Fields: map[string]string{"asset": "x", "price": "1.75"}},
			{Position: at, Fields: map[string]string{"asset": "x", "price": "9", "source": simulated.Name}},
		})
		s, err := m.Series(t.Context(), "X", signal.H1)
		if want := (marketdata.Tick{Price: 1.75, Time: at.MS}); err != nil || s.Last != want {
			t.Errorf("last is %+v, %v, want %+v", s.Last, err, want)
		}
	})
}

func TestMissedBarsAreReadAgain(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	all := hours(12, c.Now().UnixMilli(), 1)
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: all[:10], count: 10}
	m := newFake(t, store, c)
	if _, err := m.Series(t.Context(), "X", signal.H1); err != nil {
		t.Fatal(err)
	}
	store.mu.Lock()
	store.bars, store.count = all, 12
	store.mu.Unlock()
	m.loader.watches.tell(barsMissed{})
	markettest.Eventually(t, "bars", func() bool {
		s, _ := m.Series(t.Context(), "X", signal.H1)
		return len(s.Bars) == 12
	})
}

// Bars that are missed while the records are being read may not be in them yet.
func TestBarsMissedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := markettest.NewClock()
		all := minutes(12, c.Now().UnixMilli())
		store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: all[:10], count: 10}
		m := newFake(t, store, c)
		store.onBars = func() {
			m.loader.watches.tell(barsMissed{})
			synctest.Wait() // until the actor has the message
			store.mu.Lock()
			store.bars, store.count = all, 12
			store.mu.Unlock()
		}
		if _, err := m.Series(t.Context(), "X", signal.M1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s, err := m.Series(t.Context(), "X", signal.M1); err != nil || len(s.Bars) != 12 {
			t.Errorf("%d bars, %v, want 12", len(s.Bars), err)
		}
	})
}

func TestASeriesKeepsFifteenHundredBars(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	all := hours(2500, c.Now().UnixMilli(), 1)
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Speed: 1}, bars: all[:1500], count: 1}
	m := newFake(t, store, c)
	m.loader.load(t.Context(), "X", prices.H1)
	for i, b := range all[1500:] {
		m.bars.deliver(&marketdata.ClosedBar{Count: int64(2 + i), Bar: b})
	}
	markettest.Eventually(t, "bars", func() bool {
		s, err := m.Series(t.Context(), "X", signal.H1)
		return err == nil && len(s.Bars) == 1500 && s.Bars[1499] == all[2499].Bar && s.Bars[0] == all[1000].Bar
	})
}

func TestGaps(t *testing.T) {
	t.Parallel()
	series := func(n int, missing ...int) []marketdata.Bar {
		var bars []marketdata.Bar
		for i, b := range hours(n, 1_795_251_600_000, 1) {
			if !slices.Contains(missing, i) {
				bars = append(bars, b.Bar)
			}
		}
		return bars
	}
	for _, c := range []struct {
		name   string
		bars   []marketdata.Bar
		closed bool // it has closed sessions
		want   int  // bars; 0: refused
		flat   int
	}{
		{"none", series(1500), false, 1500, 0},
		{"no bars", nil, false, 0, 0},
		{"three in a row", series(1400, 1000, 1001, 1002), false, 1400, 3},
		{"four in a row", series(1400, 1000, 1001, 1002, 1003), false, 0, 0},
		{"long and long ago", series(1500, 100, 101, 102, 103), false, 1396, 0},
		{"short ones, now and long ago", series(1500, 100, 1400), false, 1399, 1},
		{"sessions", series(1400, 1000, 1001, 1002, 1003), true, 1396, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := usable(c.bars, &marketdata.Asset{Source: source.Stream, AlwaysOpen: !c.closed}, prices.H1)
			if c.want == 0 && c.bars != nil {
				if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
					t.Errorf("error is %+v", e)
				}
				return
			}
			flat := 0
			for i, b := range got {
				if b.Flat {
					flat++
				}
				if i > 0 && !c.closed && got[i-1].CloseTime != b.OpenTime {
					t.Fatalf("a gap is left before bar %d", i)
				}
			}
			if err != nil || len(got) != c.want || flat != c.flat {
				t.Errorf("%d bars, %d flat, %v; want %d and %d", len(got), flat, err, c.want, c.flat)
			}
		})
	}
}

func TestNewsAreIndexedByAssetAndTime(t *testing.T) {
	t.Parallel()
	b := newNewsIndex(60)
	item := func(id string, at int64, headline string, symbols ...string) marketdata.NewsItem {
		source := simulated.Name
		return marketdata.NewsItem{ID: id, At: at, Headline: headline, Source: source, Weight: 1, Symbols: symbols}
	}
	wrap := item("2", 300, "Market wrap", "BTCUSDT", "ETH")
	b.add([]marketdata.NewsItem{item("1", 100, "Bitcoin surges", "BTC"), wrap})
	held := b.since("BTC", 0)
	wrap.Symbols = []string{"BTC"}
	b.add([]marketdata.NewsItem{item("3", 200, "Late", "BTC"), wrap, item("4", 300, "BTC falls", "BTC")})
	ids := func(items []strategy.NewsItem) string {
		var s []string
		for _, n := range items {
			s = append(s, n.ID)
		}
		return strings.Join(s, " ")
	}
	for since, want := range map[int64]string{0: "1 3 2 4", 100: "1 3 2 4", 101: "3 2 4", 300: "2 4", 301: ""} {
		if got := ids(b.since("BTC", since)); got != want {
			t.Errorf("since %d: %q, want %q", since, got, want)
		}
	}
	if got := ids(held); got != "1 2" {
		t.Errorf("the items read before became %q", got)
	}
	if items := b.since("BTC", 0); items[0].Relevance != 1 || items[2].Relevance != .5 {
		t.Errorf("relevance is %v and %v", items[0].Relevance, items[2].Relevance)
	}
	if got := ids(b.since("ETH", 0)); got != "2" {
		t.Errorf("ETH has %q", got)
	}
	b.add([]marketdata.NewsItem{item("b", 1, "Brent falls", "oil"), item("c", 2, "EUR/USD is flat", "EURUSD")})
	for _, symbol := range []string{"oil", "EURUSD"} {
		if items := b.since(assets.Fold(symbol), 0); len(items) != 1 || items[0].Relevance != 1 {
			t.Errorf("%s has %+v", symbol, items)
		}
	}
	b.add([]marketdata.NewsItem{item("5", 250+simulated.NewsFor/60, "New", "BTC")})
	if got := ids(b.since("BTC", 0)); got != "2 4 5" {
		t.Errorf("after a week: %q", got)
	}
}

func BenchmarkSeries(b *testing.B) {
	c := markettest.NewClock()
	store := &fakeStore{asset: marketdata.Asset{Symbol: "BTC", Speed: 1}, bars: hours(1500, c.Now().UnixMilli(), 1)}
	for i := range store.bars {
		store.bars[i].Asset = "BTC"
	}
	m := newFake(b, store, c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Series(b.Context(), "BTC", signal.H1); err != nil {
			b.Fatal(err)
		}
	}
}
