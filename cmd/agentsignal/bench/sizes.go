package bench

import (
	"context"
	"runtime"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	sizeSignals = 1_000_000
	sizeIdle    = 5000 // connections
)

// sizes measures the cost of one more signal, connection or run.
func (b *bench) sizes(ctx context.Context) error {
	if err := b.listedSignal(ctx); err != nil {
		return err
	}
	if err := b.idleConnection(ctx); err != nil {
		return err
	}
	return b.oneRun(ctx)
}

// emptyLog is an empty event log.
type emptyLog struct{}

func (emptyLog) Head(context.Context, int) (signal.Position, error)                  { return signal.Position{}, nil }
func (emptyLog) Wait(context.Context, int, signal.Position) error                    { return nil }
func (emptyLog) Partition(signal.AccountID) int                                      { return 0 }
func (emptyLog) ScanSignals(context.Context, int, func(signal.LogEntry) error) error { return nil }
func (emptyLog) CountOpen(context.Context, int) (int, error)                         { return 0, nil }

// listedSignal measures a signal in the catalogue, without the text of its ID, which the
// catalogue does not keep.
func (b *bench) listedSignal(ctx context.Context) error {
	c := catalogue.New(emptyLog{}, emptyLog{}, 1, catalogue.Options{})
	account := signal.NewAccountID()
	if _, _, err := c.List(ctx, catalogue.Query{Account: account, Limit: 1}); err != nil {
		return err
	}
	before := heap()
	price := 64250.125
	start := time.Now()
	for i := range sizeSignals {
		listing := &signal.Listing{
			ID:         signal.NewSignalID(),
			Agent:      "trading",
			Asset:      listAsset(uint64(i % listAssets)),
			Strategy:   "momentum",
			Direction:  signal.Long,
			Confidence: float64(i%10_000) / 10_000,
			Entry:      &price,
		}
		at := signal.Position{MS: start.UnixMilli() + int64(i)}
		c.Publish(0, []signal.Event{{Position: at, Account: account, Type: signal.SignalCreated, Listing: listing}})
	}
	took := time.Since(start)
	b.row("a signal in the catalogue", "%d bytes, %d ns to add", (heap()-before)/sizeSignals,
		took.Nanoseconds()/sizeSignals)
	runtime.KeepAlive(c)
	return nil
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// idleConnection measures the memory and, beyond that of an idle service, the processor time
// of a connection that only gets heartbeats.
func (b *bench) idleConnection(ctx context.Context) (err error) {
	r, s, err := newService(ctx, 1, withTicks, "AGENTSIGNAL_DASHBOARD_HEARTBEAT=1s")
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	idle, err := b.cpuOver(s)
	if err != nil {
		return err
	}
	load, err := newStreamLoad(s.addr, "/ws/dashboard?api_key="+r.keys[0], sizeIdle)
	if err != nil {
		return err
	}
	defer load.close()
	var busy time.Duration
	bytes, err := during(s.resident, func() error {
		if _, err := load.connect(ctx); err != nil {
			return err
		}
		go load.read(ctx)
		busy, err = b.cpuOver(s)
		return err
	})
	if err != nil {
		return err
	}
	heartbeats := b.window.Seconds() * sizeIdle
	b.row("an idle connection", "%d bytes resident, %d ns of CPU a heartbeat", bytes/sizeIdle,
		int64(float64(busy-idle)/heartbeats))
	return nil
}

// cpuOver returns the processor time that a server uses in a window.
func (b *bench) cpuOver(s *server) (time.Duration, error) {
	return during(s.cpu, func() error {
		time.Sleep(b.window)
		return nil
	})
}

// oneRun measures a run by a single client.
func (b *bench) oneRun(ctx context.Context) (err error) {
	r, s, err := newService(ctx, 1)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	l := &load{addr: s.addr, request: func(_, n int) []byte {
		return httpRequest("POST", "/v1/agents/trading/run", r.keys[0], runKinds[n%len(runKinds)])
	}}
	if err := b.warm(ctx, l); err != nil {
		return err
	}
	var rate float64
	var taken []time.Duration
	memory := func() (int64, error) { return r.store.Client.MemoryUsed(ctx) }
	bytes, err := during(memory, func() (err error) {
		rate, taken, err = l.run(ctx, 1, b.window, 0)
		return err
	})
	if err != nil {
		return err
	}
	b.row("a run, one client", "%.0f/s, %s, %d bytes of Redis", rate, latencies(taken), bytes/int64(len(taken)))
	return nil
}
