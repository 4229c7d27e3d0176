package market

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// patience bounds every wait of a test for a condition.
const patience = time.Minute

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock returns a clock that stands at the beginning of a minute.
func newClock() *clock { return &clock{now: time.UnixMilli(1_795_253_400_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not happen within %s", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// bench is a store with its market, and what a test runs on it.
type bench struct {
	t      *testing.T
	server *redistest.Server
	store  *persistence.Market
	now    func() time.Time
	all    bool // simulate all assets, not three of them
}

func newBench(t *testing.T, now func() time.Time) *bench {
	t.Helper()
	server := redistest.New(t)
	return &bench{t: t, server: server, store: openMarket(t, server), now: now}
}

func openMarket(t *testing.T, server *redistest.Server) *persistence.Market {
	t.Helper()
	s, err := persistence.Open(persistence.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return persistence.NewMarket(s)
}

// feed runs a feeder until the function it returns is called.
func (b *bench) feed(o FeederOptions) (stop func()) {
	b.t.Helper()
	if o.Node == "" {
		o.Node = "node"
	}
	o.Now = b.now
	o.Log = slog.New(slog.NewTextHandler(testWriter{b.t}, nil))
	f, err := NewFeeder(b.store, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.all {
		f.known = someAssets("BTC", "ETH", "SOL")
	}
	return b.background(f.Run)
}

// background runs run until the function it returns is called, or the test ends.
func (b *bench) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(stop)
	return stop
}

// market starts a Market with its reader.
func (b *bench) market(o Options) *Market {
	b.t.Helper()
	sys := engine.NewSystem(engine.Options{})
	b.t.Cleanup(func() { sys.Shutdown(context.Background()) })
	o.Store, o.Now = b.store, b.now
	o.TakeUp = time.Minute // on a busy machine it takes longer than a client should wait
	m := New(sys, o)
	b.background(m.Run)
	return m
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p[:len(p)-1]))
	return len(p), nil
}

func TestSimulatedMarketIsReadyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	b.all = true
	m := b.market(Options{})
	begun := time.Now()
	b.feed(FeederOptions{})
	for _, k := range knownAssets {
		for _, tf := range signal.Timeframes {
			var s Snapshot
			eventually(t, k.symbol, func() bool {
				var err error
				s, err = m.Series(t.Context(), k.symbol, tf)
				return err == nil
			})
			if len(s.Bars) < historyBars-1 || s.Compression != 60 || s.Source != "simulated" || !s.Ticks {
				t.Errorf("%s %s: %d bars, compression %v, source %s, ticks %v", k.symbol, tf, len(s.Bars), s.Compression, s.Source, s.Ticks)
			}
		}
	}
	t.Logf("all assets and timeframes after %s", time.Since(begun))
}
