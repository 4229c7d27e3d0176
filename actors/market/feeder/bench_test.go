package feeder

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// bench is a store with its market, and what a test runs on it.
type bench struct {
	t      *testing.T
	server *redistest.Server
	store  *marketstore.Store
	now    func() time.Time
	all    bool // simulate all assets, not three of them
}

func newBench(t *testing.T, now func() time.Time) *bench {
	t.Helper()
	server := redistest.New(t)
	return &bench{t: t, server: server, store: openMarket(t, server), now: now}
}

func openMarket(t *testing.T, server *redistest.Server) *marketstore.Store {
	t.Helper()
	s, err := persistence.Open(persistence.Options{URL: server.URL(), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return marketstore.New(s.Client)
}

// feed runs a feeder until the function it returns is called.
func (b *bench) feed(o Options) (stop func()) {
	b.t.Helper()
	if o.Node == "" {
		o.Node = "node"
	}
	if o.Sources != "" {
		// The lease is renewed by the clock of the test, which may stand, and ends by Redis'.
		o.Lease = cmp.Or(o.Lease, time.Minute)
	}
	o.Now = b.now
	o.Log = slog.New(slog.NewTextHandler(testWriter{b.t}, nil))
	f, err := New(b.store, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.all {
		f.known = specsOf("BTC", "ETH", "SOL")
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
func (b *bench) market(o market.Options) *market.Market {
	b.t.Helper()
	sys := engine.NewSystem(engine.Options{})
	b.t.Cleanup(func() { sys.Shutdown(context.Background()) })
	o.Store, o.Now = b.store, b.now
	o.TakeUp = time.Minute // on a busy machine it takes longer than a client should wait
	m := market.New(sys, o)
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
	m := b.market(market.Options{})
	begun := time.Now()
	b.feed(Options{})
	for _, k := range assets.Known {
		for _, tf := range signal.Timeframes {
			var s market.Snapshot
			markettest.Eventually(t, k.Symbol, func() bool {
				var err error
				s, err = m.Series(t.Context(), k.Symbol, tf)
				return err == nil
			})
			if len(s.Bars) < simulated.HistoryBars-1 || s.Compression != 60 || s.Source != "simulated" || !s.Ticks {
				t.Errorf("%s %s: %d bars, compression %v, source %s, ticks %v", k.Symbol, tf, len(s.Bars), s.Compression, s.Source, s.Ticks)
			}
		}
	}
	t.Logf("all assets and timeframes after %s", time.Since(begun))
}

// specsOf returns the known assets with those symbols.
func specsOf(symbols ...string) []*assets.Spec {
	var specs []*assets.Spec
	for _, symbol := range symbols {
		specs = append(specs, assets.Find(symbol))
	}
	return specs
}
