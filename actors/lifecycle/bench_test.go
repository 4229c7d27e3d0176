package lifecycle

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// silentMarket records alerts and sends nothing.
type silentMarket struct {
	mu     sync.Mutex
	alerts []alerts.Alert
}

func (m *silentMarket) Alert(_ context.Context, _ string, alerts []alerts.Alert) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alerts = append(m.alerts, alerts...)
	return nil
}

func (m *silentMarket) Unalert(string, ...engine.Ref) {}

func (m *silentMarket) RequestPrice(string, engine.Ref) {}

// partitionsOwner starts the signals of all partitions.
type partitionsOwner struct {
	node  *Node
	store *eventlog.Store
	tb    testing.TB
}

func (o *partitionsOwner) Receive(c engine.Context) {
	if _, ok := c.Message().(engine.Started); !ok {
		return
	}
	for p := range o.store.Partitions() {
		epoch, _, err := o.store.Leases.TakeLease(context.Background(), p, "bench", time.Hour)
		if err != nil {
			o.tb.Error(err)
			return
		}
		o.node.Start(c, ownership.Owned{Partition: p, Epoch: epoch, Owner: c.Self()})
	}
}

// BenchmarkClosings closes b.N signals at once. It measures the time of one signal, from the
// price to the log.
func BenchmarkClosings(b *testing.B) {
	server := redistest.New(b)
	store, err := persistence.Open(persistence.Options{URL: server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Client.Close() })
	log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
	b.Cleanup(func() { log.Close(context.Background()) })
	accounts := make([]signal.AccountID, 64)
	for i := range accounts {
		accounts[i] = signal.NewAccountID()
	}
	var opening sync.WaitGroup
	for w := range 256 {
		opening.Go(func() {
			for i := w; i < b.N; i += 256 {
				s := openSignal("1")
				s.ID, s.Run, s.Account = signal.NewSignalID(), signal.NewRunID(), accounts[i%len(accounts)]
				listing := s.Listing()
				e := signal.Event{Type: signal.SignalCreated, Asset: s.Asset, Listing: &listing, Data: []byte(`{}`)}
				c := signal.Change{Account: s.Account, Signal: &s, Events: []signal.Event{e}}
				if _, err := log.Append(b.Context(), c); err != nil {
					b.Error(err)
				}
			}
		})
	}
	opening.Wait()
	sys := engine.NewSystem(engine.Options{})
	b.Cleanup(func() { sys.Shutdown(context.Background()) })
	prices := &silentMarket{}
	closed := make(chan struct{}, b.N)
	node := New(store.Signals, countingLog{log, closed}, prices, Options{Now: store.Client.Now})
	produce := func() engine.Actor { return &partitionsOwner{node, store.Logs, b} }
	sys.Spawn(engine.Partition, "all", produce, engine.Supervision{})
	for watched := 0; watched < b.N; time.Sleep(time.Millisecond) {
		prices.mu.Lock()
		watched = len(prices.alerts)
		prices.mu.Unlock()
	}
	b.ReportAllocs()
	b.ResetTimer()
	reached := alerts.Reached{Tick: tickAt(0, 80), Span: alerts.Span{Low: 80, High: 100}}
	for i := range prices.alerts {
		prices.alerts[i].Ref.Tell(reached)
	}
	for range b.N {
		<-closed
	}
	b.StopTimer()
}

// countingLog reports each stored change.
type countingLog struct {
	Log
	stored chan<- struct{}
}

func (l countingLog) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	p, err := l.Log.Append(ctx, c)
	if err == nil {
		l.stored <- struct{}{}
	}
	return p, err
}
