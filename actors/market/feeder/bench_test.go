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
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// bench is a store of the market, on which a test runs feeders and markets.
type bench struct {
	t      *testing.T
	server *redistest.Server
	store  *marketstore.Store
	now    func() time.Time
	all    bool // simulate all assets, not three of them
}

// keys are the names of keys in the store of a bench.
var keys = redisclient.NewKeys(redisclient.NewPartitions)

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
	t.Cleanup(func() { s.Client.Close() })
	return marketstore.New(s.Client)
}

// feed runs a feeder until stop is called.
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
	f := newFeeder(b.t, b.store, o)
	if !b.all {
		f.known = specsOf("BTC", "ETH", "SOL")
	}
	return b.background(f.Run)
}

func newFeeder(t *testing.T, store Records, o Options) *Feeder {
	t.Helper()
	f, err := New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// await waits until the series of an asset fulfils ok, and returns it.
func (b *bench) await(m *market.Market, what, asset string, tf signal.Timeframe, ok func(s market.Snapshot) bool) (
	s market.Snapshot) {
	b.t.Helper()
	markettest.Eventually(b.t, what, func() bool {
		var err error
		s, err = m.Series(b.t.Context(), asset, tf)
		return err == nil && ok(s)
	})
	return s
}

// background runs run until stop is called or the test ends.
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
	o.TakeUp = time.Minute // for a busy machine
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
			s := b.await(m, k.Symbol, k.Symbol, tf, func(market.Snapshot) bool { return true })
			if len(s.Bars) < simulated.HistoryBars-1 || s.Compression != 60 || s.Source != "simulated" || !s.Ticks {
				s.Bars = s.Bars[:0]
				t.Errorf("%s %s: %+v", k.Symbol, tf, s)
			}
		}
	}
	t.Logf("all assets and timeframes after %s", time.Since(begun))
}

func specsOf(symbols ...string) []*assets.Spec {
	var specs []*assets.Spec
	for _, symbol := range symbols {
		specs = append(specs, assets.Find(symbol))
	}
	return specs
}
