package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store is what the package asks of Redis: each part stands with its caller.
type Store interface {
	Partitions() int
	Now() time.Time // by the clock of Redis
	Nodes
	Leases
	Feed
	DueRuns
	Eraser
}

// Log appends events. The log of persistence does.
type Log interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Tail is the node's reader of all event logs, whose subscriber Publish is.
type Tail interface {
	// Attached reports whether from now on every event comes by Publish, or is announced
	// as missed by Gap.
	Attached() bool
}

// Options are what Partitions may be given beyond what they need. The zero value
// works.
type Options struct {
	// Lease is how long an owner that does not renew its leases keeps its partitions;
	// default 5 s.
	Lease time.Duration
	// SingleNode refuses a second node on the same Redis.
	SingleNode bool
	// SweepEvery is the time between two searches for overdue runs; default 5 s.
	SweepEvery time.Duration
	// TrimEvery is the time between two trims of a partition's logs; default 10 s.
	TrimEvery time.Duration
	Tail      Tail    // nil: the tail is attached already
	Trimmer   Trimmer // nil: logs are not trimmed
	// Tenants work in each owned partition. They are started, and given each event, in
	// this order.
	Tenants  []ownership.Tenant
	Webhooks Webhooks     // nil: there is nothing of webhooks to erase
	Log      *slog.Logger // nil: none
}

// Partitions are the partitions of this node. All methods are safe for concurrent
// use.
type Partitions struct {
	node    string
	store   Store
	log     Log
	options Options
	slog    *slog.Logger
	// pollEvery is the time between two announcements, and between two tries to take
	// a lease that another node holds. Both must happen within the second in which a
	// node that leaves hands over.
	pollEvery  time.Duration
	renewEvery time.Duration

	system     *engine.System
	supervisor engine.Ref

	inboxes []atomic.Pointer[inbox]      // by partition; nil where this node is not owner
	owners  []atomic.Pointer[engine.Ref] // by partition, from the lease on; nil where this node is not owner
	owned   atomic.Int64
	wanted  atomic.Int64

	joinOnce sync.Once
	joinErr  error
	joined   chan struct{} // closed when joinErr is set

	// holding counts the goroutines that may hold a lease or an announcement which they
	// give back themselves.
	holding sync.WaitGroup
}

// New starts the actors of the partitions for the node of the given id. They end
// with the system, which gives the leases back.
func New(sys *engine.System, node string, store Store, log Log, o Options) *Partitions {
	o.Lease = cmp.Or(o.Lease, 5*time.Second)
	o.SweepEvery = cmp.Or(o.SweepEvery, 5*time.Second)
	o.TrimEvery = cmp.Or(o.TrimEvery, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Partitions{
		node:       node,
		store:      store,
		log:        log,
		options:    o,
		slog:       o.Log.With("component", "partition"),
		pollEvery:  min(o.Lease/10, 300*time.Millisecond),
		renewEvery: o.Lease / 3,
		system:     sys,
		inboxes:    make([]atomic.Pointer[inbox], store.Partitions()),
		owners:     make([]atomic.Pointer[engine.Ref], store.Partitions()),
		joined:     make(chan struct{}),
	}
	produce := func() engine.Actor { return newSupervisor(p) }
	p.supervisor = sys.Spawn(engine.Supervisor, "partitions", produce, partitionFailures)
	return p
}

// Leave withdraws the node, ends the actors of its partitions and waits until their leases
// are given back. The partitions are of no use after it.
func (p *Partitions) Leave(ctx context.Context) error {
	if err := p.system.End(ctx, p.supervisor); err != nil {
		return err
	}
	released := make(chan struct{})
	go func() {
		p.holding.Wait()
		close(released)
	}()
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("give partitions back: %w", ctx.Err())
	}
}

// track runs f as c.Go does; Leave waits for it.
func (p *Partitions) track(c engine.Context, f func(ctx context.Context) any) {
	p.holding.Add(1)
	c.Go(func(ctx context.Context) any {
		defer p.holding.Done()
		return f(ctx)
	})
}

// Join waits until the node was announced for the first time. KindConflict: other
// nodes live on the same Redis and may not; the process should end. It waits for
// Redis as long as ctx lets it.
func (p *Partitions) Join(ctx context.Context) error {
	select {
	case <-p.joined:
		return p.joinErr
	case <-ctx.Done():
		return signal.Unavailable(errors.Join(errors.New("wait for the node to be announced"), ctx.Err()))
	}
}

// join ends Join with err.
func (p *Partitions) join(err error) {
	p.joinOnce.Do(func() {
		p.joinErr = err
		close(p.joined)
	})
}

// Publish hands over what the tail has read of a partition, in the order of the log.
// It does not wait. events must not be changed afterwards.
func (p *Partitions) Publish(partition int, events []signal.Event) {
	if b := p.inboxes[partition].Load(); b != nil && len(events) > 0 {
		b.put(events)
	}
}

// Gap notes that the tail has missed events of a partition: its owner reads them from
// the log.
func (p *Partitions) Gap(partition int) {
	if b := p.inboxes[partition].Load(); b != nil {
		b.gap()
	}
}

// Owned returns how many partitions this node owns.
func (p *Partitions) Owned() int { return int(p.owned.Load()) }

// Wanted returns how many partitions this node should own, as far as it knows.
func (p *Partitions) Wanted() int { return int(p.wanted.Load()) }

// RolledBack reports that Redis has lost events of a partition that it had acknowledged.
// Its owner gives it up and takes it again, under a new epoch, so that nothing in memory
// is ahead of what is stored.
func (p *Partitions) RolledBack(partition int) {
	if owner := p.owners[partition].Load(); owner != nil {
		owner.Tell(ownership.Lost{Err: signal.ErrRolledBack})
	}
}

// lost reports whether err means that the owner must give the partition up: a write under
// its epoch was refused, or Redis has lost writes.
func lost(err error) bool {
	code := signal.CodeOf(err)
	return code == signal.CodeNotOwner || code == signal.CodeRolledBack
}
