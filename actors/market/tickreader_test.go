package market

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

type trimmedStore struct {
	*fakeStore
	at int64
}

func (f *trimmedStore) TicksKept(context.Context, marketdata.TickStream, signal.Position) (bool, error) {
	return false, nil
}

// until2026 is the time from the begin of a bubble to one in which ticks are valid.
const until2026 = 26 * 365 * 24 * time.Hour

func (f *trimmedStore) ReadTicks(context.Context, marketdata.TickStream, signal.Position, time.Duration) (
	[]marketdata.Entry, bool, error) {
	f.at++
	fields := map[string]string{"asset": "X", "price": "1"}
	return []marketdata.Entry{{Position: signal.Position{MS: 1_795_253_400_000 + f.at}, Fields: fields}}, false, nil
}

// No read fails while a process is halted, but ticks are trimmed.
func TestReaderNoticesTicksMissedInAHalt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTickReader(marketdata.GivenTicks, &trimmedStore{fakeStore: &fakeStore{}})
		for _, c := range []struct {
			pause time.Duration
			ticks int
		}{{0, 1}, {time.Second, 2}, {readPause, 3}, {readPause + time.Second, 1}, {0, 2}} {
			time.Sleep(c.pause)
			if _, err := r.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(r.recent.upTo(tickKey{"X", source.Stream}, math.MaxInt64)); got != c.ticks {
				t.Errorf("after a pause of %v %d ticks are kept, want %d", c.pause, got, c.ticks)
			}
		}
	})
}

func newTickReader(stream marketdata.TickStream, store Store) *tickReader {
	return &tickReader{stream: stream, store: store, watches: newWatches(), recent: newRecentTicks(),
		log: slog.New(slog.DiscardHandler)}
}

// lostStore is a store whose Redis has lost what came after a position, as after a restore from an older file.
type lostStore struct {
	*fakeStore
	end signal.Position // of all streams
	err error           // of the next read

	closed int // bars that were read
}

func (f *lostStore) TicksEnd(context.Context, marketdata.TickStream) (signal.Position, error) {
	return f.end, nil
}
func (f *lostStore) TicksKept(_ context.Context, _ marketdata.TickStream, after signal.Position) (bool, error) {
	return after.Compare(f.end) <= 0, nil
}

func (f *lostStore) ReadTicks(_ context.Context, _ marketdata.TickStream, after signal.Position, _ time.Duration) (
	entries []marketdata.Entry, more bool, err error) {
	if err, f.err = f.err, nil; err == nil && after.Compare(f.end) < 0 {
		entries = []marketdata.Entry{{Position: f.end, Fields: map[string]string{"asset": "X", "price": "1"}}}
	}
	return entries, false, err
}

func (f *lostStore) FollowEnd(context.Context) (closed, news signal.Position, count int64, err error) {
	return f.end, f.end, f.end.MS, nil
}

func (f *lostStore) Follow(_ context.Context, closedAfter, newsAfter signal.Position, _ time.Duration) (
	closed []marketdata.ClosedBar, news []marketdata.NewsItem, closedTo, newsTo signal.Position, more bool, err error) {
	closedTo, newsTo = closedAfter, newsAfter
	if err, f.err = f.err, nil; err != nil {
		return nil, nil, closedTo, newsTo, false, err
	}
	if closedAfter.Compare(f.end) < 0 {
		f.closed++
		closed, closedTo = []marketdata.ClosedBar{{Count: f.end.MS}}, f.end
	}
	if newsAfter.Compare(f.end) < 0 {
		news, newsTo = []marketdata.NewsItem{{ID: f.end.String(), At: f.end.MS, Symbols: []string{"X"}}}, f.end
	}
	return closed, news, closedTo, newsTo, false, nil
}

// Where Redis has lost entries, those that come after it may lie before the position that was read.
func TestReadersGoOnAfterALoss(t *testing.T) {
	t.Parallel()
	const begin = 1_795_253_400_000
	store := &lostStore{fakeStore: &fakeStore{}, end: signal.Position{MS: begin + 9000}}
	ticks := newTickReader(marketdata.GivenTicks, store)
	bars := &barReader{store: store, watches: newWatches(), news: newNewsIndex(60)}
	reads := []func(context.Context) (bool, error){ticks.read, bars.read}
	read := func(when string, want ...int) {
		t.Helper()
		for _, r := range reads {
			if _, err := r(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got := []int{len(ticks.recent.upTo(tickKey{"X", source.Stream}, math.MaxInt64)), len(bars.news.items["X"]), store.closed}
		if !slices.Equal(got, want) {
			t.Errorf("%s there are %d ticks, news and closed bars, want %d", when, got, want)
		}
	}
	read("at first", 1, 1, 0) // bars that closed before are read with their series
	for _, r := range reads {
		store.err = errors.New("redis is down")
		if _, err := r(t.Context()); err == nil {
			t.Error("a read does not fail")
		}
	}
	store.end.MS = begin + 3000
	read("after the loss", 0, 1, 0)
	store.end.MS = begin + 6000
	read("with new entries", 1, 2, 1)
}

// haltedStore has a tick of X in its first read. In a halt no read ends, and those under way end with it
// and return what was there before. The newest tick is found some time later.
type haltedStore struct {
	*fakeStore
	read int // ticks; only one goroutine reads them

	mu           sync.Mutex
	until, fresh time.Time // the end of the halt, and when the newest tick is found; zero: never
}

func (f *haltedStore) halt(until, fresh time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until, f.fresh = until, fresh
}

func (f *haltedStore) halted() (until, fresh time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until, f.fresh
}

func (f *haltedStore) wait(block time.Duration) {
	time.Sleep(block)
	until, _ := f.halted()
	time.Sleep(time.Until(until))
}

func (f *haltedStore) ReadTicks(_ context.Context, stream marketdata.TickStream, _ signal.Position, block time.Duration) (
	[]marketdata.Entry, bool, error) {
	if stream == marketdata.GivenTicks {
		now := time.Now()
		if _, fresh := f.halted(); f.read == 0 || f.read == 1 && !fresh.IsZero() && !now.Before(fresh) {
			f.read++
			return []marketdata.Entry{{Position: signal.Position{MS: now.UnixMilli()},
				Fields: map[string]string{"asset": "X", "price": strconv.Itoa(f.read)}}}, false, nil
		}
	}
	f.wait(block)
	return nil, false, nil
}

func (f *haltedStore) Follow(_ context.Context, c, n signal.Position, block time.Duration) (
	[]marketdata.ClosedBar, []marketdata.NewsItem, signal.Position, signal.Position, bool, error) {
	f.wait(block)
	return nil, nil, c, n, false, nil
}

// After a halt in which prices have become too old, they count as not read until reads that began after it
// have ended. Only then are they too old.
func TestPricesAfterAHaltAreNotReadUntilTheyAre(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"at once": 0, "after a second": time.Second, "never": -1,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(until2026)
				sys := engine.NewSystem(engine.Options{})
				defer sys.Shutdown(context.Background())
				store := &haltedStore{fakeStore: &fakeStore{
					asset: marketdata.Asset{Symbol: "X", Speed: 1, Class: assets.Crypto, Source: source.Stream},
					bars:  hours(5, time.Now().UnixMilli(), 1)}}
				m := New(sys, Options{Store: store, Sources: source.Stream})
				ctx, cancel := context.WithCancel(t.Context())
				var run sync.WaitGroup
				run.Go(func() { _ = m.Run(ctx) })
				defer func() { cancel(); run.Wait() }()
				time.Sleep(10 * time.Second)
				w, frame, err := m.loader.watched(t.Context(), "X", signal.H1)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if s, err := m.snapshot(w, frame); err != nil || !s.Ticks {
					t.Fatalf("before the halt: %+v, %v", s.Last, err)
				}
				until, fresh := time.Now().Add(time.Hour/2), time.Time{}
				if after >= 0 {
					fresh = until.Add(after)
				}
				store.halt(until, fresh)
				time.Sleep(time.Until(until))
				codes := map[signal.ErrorCode]bool{}
				for range 300 {
					s, err := m.snapshot(w, frame)
					if err == nil {
						codes["read"] = true
						if s.Last.Price != 2 {
							t.Errorf("the price is %v", s.Last.Price)
						}
					} else {
						e := markettest.RunError(t, err)
						codes[e.Code] = true
						if e.Code == signal.DataUnavailable && (!e.Passing || e.RetryAfter == 0) {
							t.Errorf("not for a moment: %+v", e)
						}
					}
					time.Sleep(10 * time.Millisecond)
				}
				last := signal.ErrorCode("read")
				if after < 0 {
					last = signal.StaleData
				}
				want := map[signal.ErrorCode]bool{signal.DataUnavailable: true, last: true}
				if after == 0 { // the first look and the read come at the same time
					delete(want, signal.DataUnavailable)
					delete(codes, signal.DataUnavailable)
				}
				if diff := cmp.Diff(want, codes); diff != "" {
					t.Errorf("answers after the halt (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// roundStore has a round of ticks every half second, more than a read of single ticks has.
type roundStore struct{ *fakeStore }

func (roundStore) ReadTicks(_ context.Context, stream marketdata.TickStream, _ signal.Position, block time.Duration) (
	[]marketdata.Entry, bool, error) {
	time.Sleep(block / 2)
	if stream == marketdata.GivenTicks {
		return nil, false, nil
	}
	now := time.Now().UnixMilli()
	ticks := make([]marketdata.Entry, 3000)
	for i := range ticks {
		ticks[i] = marketdata.Entry{Position: signal.Position{MS: now},
			Tick: &marketdata.AssetTick{Asset: "A" + strconv.Itoa(i), Source: simulated.Name,
				Tick: marketdata.Tick{Price: 1, Time: now}}}
	}
	return ticks, false, nil
}

// A stream is read to its end however many ticks its last round has: prices would else count as not read.
func TestLargeRoundsAreTheEndOfTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(until2026)
		m := newFake(t, &fakeStore{}, markettest.NewClock())
		r := m.ticks[marketdata.OwnTicks]
		r.store = roundStore{&fakeStore{}}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = m.Run(ctx) })
		defer func() { cancel(); run.Wait() }()
		r.reading.failed()
		time.Sleep(2 * readHalt)
		synctest.Wait()
		if !r.reading.current() {
			t.Error("the stream is not read to its end")
		}
		if n := len(m.recent.upTo(tickKey{"A2999", simulated.Name}, math.MaxInt64)); n == 0 {
			t.Error("the last asset of a round has no ticks")
		}
	})
}

// Only the assets whose ticks are in a stream are notified that some were missed.
func TestMissedTicksAreReportedToTheirAssets(t *testing.T) {
	t.Parallel()
	for _, stream := range []marketdata.TickStream{marketdata.GivenTicks, marketdata.OwnTicks} {
		synctest.Test(t, func(t *testing.T) {
			sys := engine.NewSystem(engine.Options{})
			defer sys.Shutdown(context.Background())
			r := newTickReader(stream, &trimmedStore{fakeStore: &fakeStore{}})
			missed := make(map[string]int)
			for _, source := range []string{source.Stream, simulated.Name} {
				w := &watch{key: source}
				w.record.Store(&marketdata.Asset{Symbol: source, Source: source})
				counter := missedCounter{missed, source}
				w.ref = sys.Spawn(engine.Asset, source, func() engine.Actor { return counter }, engine.Supervision{})
				r.watches.change(func(all map[string]*watch) { all[source] = w })
			}
			for range 2 {
				if _, err := r.read(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(readPause + time.Second)
			}
			synctest.Wait()
			name := simulated.Name
			if stream == marketdata.GivenTicks {
				name = source.Stream
			}
			if diff := cmp.Diff(map[string]int{name: 1}, missed); diff != "" {
				t.Errorf("stream %d (-want +got):\n%s", stream, diff)
			}
		})
	}
}

// missedCounter counts by source the notices that ticks were missed.
type missedCounter struct {
	missed map[string]int
	source string
}

func (c missedCounter) Receive(ctx engine.Context) {
	if _, ok := ctx.Message().(ticksMissed); ok {
		c.missed[c.source]++
	}
}
