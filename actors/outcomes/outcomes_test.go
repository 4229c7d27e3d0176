package outcomes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeStore is a store in memory, with the clock of the bubble.
type fakeStore struct {
	mu      sync.Mutex
	entries map[signal.Timeframe][]entry
	newest  map[string]int64
	failing error
	appends int
	page    int // how many one read returns at most
}

type entry struct {
	marketdata.AssetOutcome
	at signal.Position
}

func newFake() *fakeStore {
	return &fakeStore{entries: map[signal.Timeframe][]entry{}, newest: map[string]int64{}, page: 100}
}

// fail makes all calls fail; nil: no more.
func (f *fakeStore) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = err
}

// lose removes all outcomes.
func (f *fakeStore) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.entries)
	clear(f.newest)
}

func (f *fakeStore) Append(_ context.Context, tf signal.Timeframe, list []marketdata.AssetOutcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.appends++; f.failing != nil {
		return f.failing
	}
	for _, o := range list {
		if key := string(tf) + o.Asset; f.newest[key] < o.Bar {
			f.newest[key] = o.Bar
			o.At = time.Now().UnixMilli()
			f.entries[tf] = append(f.entries[tf], entry{o, signal.Position{MS: o.At, Seq: int64(len(f.entries[tf]))}})
		}
	}
	return nil
}

func (f *fakeStore) Follow(ctx context.Context, after map[signal.Timeframe]signal.Position, block time.Duration) (
	map[signal.Timeframe][]marketdata.AssetOutcome, map[signal.Timeframe]signal.Position, error) {
	found, to, err := f.read(after)
	if err == nil && len(found) == 0 {
		select {
		case <-time.After(block):
		case <-ctx.Done():
		}
		found, to, err = f.read(after)
	}
	return found, to, err
}

func (f *fakeStore) read(after map[signal.Timeframe]signal.Position) (
	map[signal.Timeframe][]marketdata.AssetOutcome, map[signal.Timeframe]signal.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, to := map[signal.Timeframe][]marketdata.AssetOutcome{}, map[signal.Timeframe]signal.Position{}
	for tf, list := range f.entries {
		for _, e := range list {
			if e.at.Compare(after[tf]) > 0 && len(found[tf]) < f.page {
				found[tf], to[tf] = append(found[tf], e.AssetOutcome), e.at
			}
		}
	}
	return found, to, f.failing
}

func (f *fakeStore) Ends(context.Context) (map[signal.Timeframe]signal.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ends := map[signal.Timeframe]signal.Position{}
	for tf, list := range f.entries {
		ends[tf] = list[len(list)-1].at
	}
	return ends, f.failing
}

// stored returns the number of stored outcomes of a timeframe.
func (f *fakeStore) stored(tf signal.Timeframe) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries[tf])
}

// running starts a service and returns it with a function that ends it.
func running(t *testing.T, f *fakeStore, maxQueued int) (*Service, func()) {
	t.Helper()
	s := New(Options{Store: f, MaxQueued: maxQueued})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func pooled(t *testing.T, s *Service, tf signal.Timeframe) *strategy.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := s.Pool(ctx, tf, time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pass lets a time pass until all goroutines wait, after which the test may read their values.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func outcome(bar int64) strategy.Outcome { return strategy.Outcome{Bar: bar, Ended: bar} }

// TestOutcomesReachAllNodes checks that what one node finds is stored once and is in the
// pools of all.
func TestOutcomesReachAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		first, stopFirst := running(t, f, 0)
		second, stopSecond := running(t, f, 0)
		defer stopFirst()
		defer stopSecond()
		for bar := range int64(2*batch + 7) {
			first.Found(signal.H1, "A", outcome(bar+1))
			second.Found(signal.H1, "A", outcome(bar+1))
			first.Found(signal.M1, "B", outcome(bar+1))
		}
		pass(5 * time.Second)
		for _, s := range []*Service{first, second} {
			if p := pooled(t, s, signal.H1); p.Newest("A") != 2*batch+7 || p.Newest("B") != 0 {
				t.Errorf("the newest outcomes are of %d and %d", p.Newest("A"), p.Newest("B"))
			}
			if p := pooled(t, s, signal.M1); p.Newest("B") != 2*batch+7 {
				t.Errorf("the newest outcome of 1m is of %d", p.Newest("B"))
			}
		}
		if n := f.stored(signal.H1); n != 2*batch+7 {
			t.Errorf("%d are stored", n)
		}
		appends := f.appends
		first.Found(signal.H1, "A", outcome(5)) // as of a series that begins later
		pass(time.Second)
		if f.appends != appends || first.queued != 0 {
			t.Error("a stored outcome was queued")
		}
	})
}

// TestRunsWaitForTheFirstRead checks that a pool is given out once it is complete.
func TestRunsWaitForTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.page = 10
		var list []marketdata.AssetOutcome
		for bar := range int64(95) {
			list = append(list, marketdata.AssetOutcome{Asset: "A", Outcome: outcome(bar + 1)})
		}
		if err := f.Append(t.Context(), signal.H1, list); err != nil {
			t.Fatal(err)
		}
		f.fail(errors.New("redis is away"))
		s, stop := running(t, f, 0)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if p, err := s.Pool(ctx, signal.H1, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got pool %v, %v", p, err)
		}
		f.fail(nil)
		if p := pooled(t, s, signal.H1); p.Newest("A") != 95 {
			t.Errorf("the pool was given out with outcomes up to %d", p.Newest("A"))
		}
	})
}

// TestRunsWaitForWhatCounts checks that a node that could not read for long gives out no
// pool without the outcomes that count on other nodes.
func TestRunsWaitForWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, stop := running(t, f, 0)
		defer stop()
		pooled(t, s, signal.H1)
		f.fail(errors.New("redis is away"))
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := s.Pool(ctx, signal.H1, time.Now().UnixMilli())
			return err
		}
		pass(30 * time.Second)
		if err := ask(); err != nil {
			t.Errorf("after 30 s: %v", err)
		}
		pass(40 * time.Second)
		if err := ask(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after 70 s: %v", err)
		}
		f.fail(nil)
		pooled(t, s, signal.H1)
	})
}

// TestRunsDoNotWaitForABusyStream checks that a pool is given out while each read finds
// something new.
func TestRunsDoNotWaitForABusyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, stop := running(t, f, 0)
		defer stop()
		pooled(t, s, signal.M1)
		for bar := range int64(300) {
			list := []marketdata.AssetOutcome{{Asset: "A", Outcome: outcome(bar + 1)}}
			if err := f.Append(t.Context(), signal.M1, list); err != nil {
				t.Fatal(err)
			}
			time.Sleep(readBlock / 3)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.Pool(ctx, signal.M1, time.Now().UnixMilli()); err != nil {
			t.Errorf("a run waited: %v", err)
		}
	})
}

// TestFailedWritesAreRepeated checks that nothing is lost while the store is away, and that
// the queue is bounded.
func TestFailedWritesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		const maxQueued = 2100
		s, stop := running(t, f, maxQueued)
		defer stop()
		f.fail(errors.New("redis is away"))
		for bar := range int64(maxQueued + 1000) {
			s.Found(signal.H1, fmt.Sprint("A", bar%3), outcome(bar+1))
		}
		pass(time.Minute)
		if f.appends < 5 || f.appends > 100 {
			t.Errorf("%d writes in a minute", f.appends)
		}
		if s.queued != maxQueued {
			t.Errorf("%d outcomes wait", s.queued)
		}
		f.fail(nil)
		pass(time.Minute)
		if n := f.stored(signal.H1); n != maxQueued || s.queued != 0 {
			t.Errorf("%d are stored, %d wait", n, s.queued)
		}
	})
}

// TestLostOutcomesAreReadAgain checks that another pool follows once the store has lost
// outcomes: after an outage, and when another part reports it.
func TestLostOutcomesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, stop := running(t, f, 0)
		defer stop()
		s.Found(signal.H1, "A", outcome(1))
		pass(3 * time.Second)
		before := pooled(t, s, signal.H1)
		f.fail(errors.New("redis restarts"))
		pass(3 * time.Second)
		f.lose()
		f.fail(nil)
		pass(10 * time.Second)
		after := pooled(t, s, signal.H1)
		if before.Newest("A") != 1 || after == before || after.Newest("A") != 0 {
			t.Errorf("the pool is the same: %v, its newest outcome is of %d", after == before, after.Newest("A"))
		}
		s.Found(signal.H1, "A", outcome(1)) // found again by a new series
		pass(3 * time.Second)
		f.lose()
		s.ForgetAll()
		if last := pooled(t, s, signal.H1); last == after || last.Newest("A") != 0 {
			t.Errorf("the pool is the same: %v, its newest outcome is of %d", last == after, last.Newest("A"))
		}
	})
}

// Bars that closed before the clock went back have a pool that was read by then.
func TestPoolAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var behind time.Duration
		var mu sync.Mutex
		o := Options{Store: newFake(), Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(-behind)
		}}
		before, after := New(o), New(o)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = before.Run(ctx) })
		pass(3 * readBlock)
		closed := time.Now().UnixMilli()
		mu.Lock()
		behind = 5 * time.Minute
		mu.Unlock()
		run.Go(func() { _ = after.Run(ctx) })
		pass(3 * readBlock)
		for name, c := range map[string]struct {
			*Service
			wait time.Duration
		}{"began before": {before, 0}, "began after": {after, readBlock}} {
			waiting, end := context.WithTimeout(t.Context(), c.wait+time.Millisecond)
			if _, err := c.Pool(waiting, signal.M1, closed); err != nil {
				t.Errorf("a node that %s it: %v", name, err)
			}
			end()
		}
		cancel()
		run.Wait()
	})
}
