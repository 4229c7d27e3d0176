package partition

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// prices is a market that is controlled by the test.
type prices struct {
	mu    sync.Mutex
	refs  map[engine.Ref]struct{}
	level float64 // the price that is reached; 0: none
}

func (p *prices) Alert(_ context.Context, _ string, alerts []alerts.Alert) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range alerts {
		p.refs[a.Ref] = struct{}{}
		if p.level != 0 {
			a.Ref.Tell(reached(p.level))
		}
	}
	return nil
}

func (p *prices) Unalert(_ string, refs ...engine.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ref := range refs {
		delete(p.refs, ref)
	}
}

func (p *prices) RequestPrice(string, engine.Ref) {}

func reached(price float64) alerts.Reached {
	return alerts.Reached{Tick: marketdata.Tick{Price: price, Time: time.Now().UnixMilli()}}
}

// notify sends a message to the actors of n signals.
func (p *prices) notify(n int, m any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.refs {
		if n--; n < 0 {
			return
		}
		ref.Tell(m)
	}
}

// count returns how many signals are watched.
func (p *prices) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.refs)
}

// reachNow reports the price to the actors of all present and later signals.
func (p *prices) reachNow(price float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = price
	for ref := range p.refs {
		ref.Tell(reached(price))
	}
}

// failover is a node whose Redis is a master with a replica.
type failover struct {
	*testing.T
	master, replica *redistest.Server
	proxy           *redistest.Proxy
	store           *persistence.Store
	log             *eventlog.Log
	prices          *prices
	signals         []signal.Signal
}

func newFailover(t *testing.T, signals int) *failover {
	t.Helper()
	f := &failover{T: t, master: redistest.New(t), replica: redistest.New(t),
		prices: &prices{refs: map[engine.Ref]struct{}{}}}
	f.replica.Follow(f.master)
	f.proxy = redistest.NewProxy(t, f.master)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var err error
	if f.store, err = persistence.Open(persistence.Options{URL: f.proxy.URL(), Partitions: 4, Log: log}); err != nil {
		t.Fatal(err)
	}
	f.log = eventlog.NewLog(f.store.Logs, eventlog.LogOptions{})
	tail := eventlog.NewTail(f.store.Logs, eventlog.TailOptions{})
	sys := engine.NewSystem(engine.Options{})
	watch := lifecycle.New(f.store.Signals, f.log, f.prices, lifecycle.Options{Now: f.store.Client.Now, Log: log})
	p := New(sys, "node_a", newRedisStore(f.store), f.log, Options{
		Lease:   30 * time.Second,
		Tail:    tail.For(eventlog.Owned),
		Tenants: []ownership.Tenant{watch},
		Log:     log,
	})
	tail.Subscribe(p.Publish)
	tail.OnRollback(p.RolledBack)
	tail.OnGap(p.Gap)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tail.Run(ctx)
	}()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), generous)
		defer stop()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		cancel()
		<-ended
		f.log.Close(ctx)
		f.store.Client.Close()
	})
	await(t, "all is owned", generous, func() bool { return p.Owned() == 4 && tail.Attached() })
	for range signals {
		f.open()
	}
	await(t, "all is watched", generous, func() bool { return f.prices.count() == signals })
	return f
}

// open appends a new signal.
func (f *failover) open() {
	f.Helper()
	now := f.store.Client.Now().Truncate(time.Millisecond)
	s := signal.Signal{ID: signal.NewSignalID(), Account: signal.NewAccountID(), Agent: "trading",
		Run: signal.NewRunID(), Asset: "BTC", Strategy: "momentum", Timeframe: signal.H1,
		Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: .45, FirstConfidence: .45, Sequence: 1, Levels: &signal.Levels{Entry: 100, Stop: 90, Target: 115},
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(time.Hour)}
	_, err := f.log.Append(f.Context(), signal.Change{Account: s.Account, Signal: &s,
		Events: []signal.Event{{Type: signal.SignalCreated, Asset: s.Asset}}})
	if err != nil {
		f.Fatal(err)
	}
	f.signals = append(f.signals, s)
}

// sequences returns the stored sequences of the open signals.
func (f *failover) sequences() map[signal.SignalID]int64 {
	f.Helper()
	open := map[signal.SignalID]int64{}
	for p := range f.store.Client.Partitions() {
		err := f.store.Signals.OpenSignals(f.Context(), p, func(s signal.Signal, _ signal.Position) error {
			open[s.ID] = s.Sequence
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	return open
}

// update makes all signals be updated to a sequence.
func (f *failover) update(sequence int64, price float64) {
	f.Helper()
	f.prices.notify(len(f.signals), alerts.BarClosed{Price: price, Span: alerts.Span{Low: price, High: price}, Left: 1})
	await(f.T, fmt.Sprint("all have the sequence ", sequence), generous, func() bool {
		for _, s := range f.sequences() {
			if s != sequence {
				return false
			}
		}
		return true
	})
}

// calls returns how many scripts the server has run.
func calls(t *testing.T, s *redistest.Server) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(s.Client().Info(t.Context(), "commandstats").Val()) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			fmt.Sscanf(rest, "%d", &n)
		}
	}
	return n
}

// The replica lacks updates and closings. All signals must be closed within the lease of
// the partition.
func TestEverySignalClosesOnceAfterAFailover(t *testing.T) {
	t.Parallel()
	const signals, closed = 24, 8
	f := newFailover(t, signals)
	f.update(2, 104)
	f.replica.InStep(f.master)
	f.replica.Detach()
	f.update(3, 99)
	f.update(4, 105)
	f.update(5, 98)
	f.prices.notify(closed, reached(116))
	await(t, "some are closed", generous, func() bool { return len(f.sequences()) == signals-closed })

	f.replica.Promote()
	before := calls(t, f.replica)
	f.proxy.Switch(f.replica)
	f.prices.reachNow(116)
	took := await(t, "all are closed", generous, func() bool {
		open := 0
		for p := range f.store.Client.Partitions() {
			open += int(f.replica.Client().HLen(t.Context(), f.store.Client.OpenKey(p)).Val())
		}
		return open == 0
	})
	n := calls(t, f.replica) - before
	t.Logf("all are closed after %v and %d scripts", took, n)
	// One batch for each signal, leases, positions, and tries before the loss is noticed.
	if most := 200 + 20*signals; n > most {
		t.Errorf("%d scripts were called, want at most %d", n, most)
	}
	ends := map[signal.SignalID]int{}
	for _, s := range f.signals {
		count := func(_ signal.Position, r *signal.Signal) {
			if r.Closing != nil {
				ends[r.ID]++
			}
		}
		_, err := f.store.Signals.EachRecord(t.Context(), s.Account, signal.Position{}, count)
		if err != nil {
			t.Fatal(err)
		}
		if ends[s.ID] != 1 {
			t.Errorf("signal %s has %d closings, want 1", s.ID, ends[s.ID])
		}
	}
}

// Only the states of signals are rolled back, so that the log does not show the loss.
func TestSignalsInAnEarlierStateAreClosed(t *testing.T) {
	t.Parallel()
	const signals = 12
	f := newFailover(t, signals)
	c := f.master.Client()
	before := map[string]map[string]string{}
	for p := range f.store.Client.Partitions() {
		key := f.store.Client.OpenKey(p)
		before[key] = c.HGetAll(t.Context(), key).Val()
	}
	f.update(2, 104)
	f.update(3, 99)
	for key, fields := range before {
		for field, value := range fields {
			c.HSet(t.Context(), key, field, value)
		}
	}
	scripts := calls(t, f.master)
	f.prices.reachNow(116)
	await(t, "all are closed", generous, func() bool { return len(f.sequences()) == 0 })
	if n := calls(t, f.master) - scripts; n > 200+20*signals {
		t.Errorf("%d scripts were called", n)
	}
}
