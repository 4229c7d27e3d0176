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

// Store is what the package needs from Redis. Each part is declared where it is used.
type Store interface {
	Partitions() int
	Now() time.Time // by the clock of Redis
	Nodes
	Leases
	Feed
	DueRuns
	Eraser
}

// Log appends events. The log of persistence implements it.
type Log interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Tail is the node's reader of event logs. It calls Publish and Gap.
type Tail interface {
	// Follow has the events of a partition read until release is called. It does not wait.
	Follow(partition int) (release func())
	// Attached reports whether from now on Publish is called with every event of a partition
	// that is followed, or Gap if the tail has missed some.
	Attached(partition int) bool
}

// Options are the optional settings of Partitions. The zero value works.
type Options struct {
	// Lease is how long a lease lasts without renewal; default 5 s.
	Lease time.Duration
	// SingleNode refuses a second node on the same Redis.
	SingleNode bool
	// SweepEvery is the time between two searches for overdue runs; default 5 s.
	SweepEvery time.Duration
	// TrimEvery is the time between two trims of a partition's logs, and between two searches for blocks
	// to make; default 10 s.
	TrimEvery time.Duration
	Tail      Tail      // nil if events arrive from the start on
	Trimmer   Trimmer   // nil to trim no logs
	Compactor Compactor // nil to make no blocks
	// Tenants work in each owned partition. They are started, and receive each event, in
	// this order.
	Tenants  []ownership.Tenant
	Webhooks Webhooks     // nil to erase no data of webhooks
	Log      *slog.Logger // nil to discard
}

// owner is the actor of an owned partition, its epoch, and since when it owns.
type owner struct {
	ref   engine.Ref
	epoch int64
	since time.Time
}

// Partitions are the partitions of this node. All methods are safe for concurrent use.
type Partitions struct {
	node    string
	store   Store
	log     Log
	options Options
	slog    *slog.Logger
	// pollEvery is the time between two announcements, and between two attempts to take
	// a lease that another node holds. Both must fit into the second within which a leaving
	// node hands over.
	pollEvery  time.Duration
	renewEvery time.Duration

	announcer  announcer
	system     *engine.System
	supervisor engine.Ref

	// By partition, nil where this node is not owner.
	inboxes []atomic.Pointer[inbox]
	owners  []atomic.Pointer[owner]
	owned   atomic.Int64
	wanted  atomic.Int64
	live    atomic.Int64

	joinOnce sync.Once
	joinErr  error
	joined   chan struct{} // closed when joinErr is set
	expelled chan error    // holds one: why the node may not run any longer

	// holding counts the goroutines that may hold a lease or an announcement, which they
	// withdraw themselves.
	holding sync.WaitGroup
}

// New starts the actors of the partitions for a node. They end with the system, and then
// release their leases.
func New(sys *engine.System, node string, store Store, log Log, o Options) *Partitions {
	o.Lease = cmp.Or(o.Lease, 5*time.Second)
	o.SweepEvery = cmp.Or(o.SweepEvery, 5*time.Second)
	o.TrimEvery = cmp.Or(o.TrimEvery, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
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
		owners:     make([]atomic.Pointer[owner], store.Partitions()),
		joined:     make(chan struct{}),
		expelled:   make(chan error, 1),
	}
	p.announcer = announcer{node: node, store: store, lease: o.Lease, single: o.SingleNode, log: p.slog}
	produce := func() engine.Actor {
		return &supervisor{p: p, children: map[int]engine.Ref{}, numbers: map[engine.Ref]int{},
			resigned: map[engine.Ref]struct{}{}}
	}
	p.supervisor = sys.Spawn(engine.Supervisor, "partitions", produce, partitionFailures)
	return p
}

// HandOver gives the leases of all partitions back and withdraws the node, so that other nodes take
// the partitions. It takes a few commands to Redis, however many signals are open: the actors still
// exist, but their writes are refused as soon as another node owns the partition. This node takes no
// partition again. HandOver may be called more than once; it returns ctx's error.
func (p *Partitions) HandOver(ctx context.Context) error {
	_, err := engine.Ask(ctx, p.supervisor, func(reply chan<- struct{}) any { return handOver{reply} })
	if err != nil && !errors.Is(err, engine.ErrStopped) {
		return fmt.Errorf("hand partitions over: %w", err)
	}
	return nil
}

// Leave hands all partitions over, ends their actors and waits until their leases are released.
// The partitions cannot be used afterwards.
func (p *Partitions) Leave(ctx context.Context) error {
	if err := p.HandOver(ctx); err != nil {
		return err
	}
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

// track runs f like c.Go. Leave waits for it.
func (p *Partitions) track(c engine.Context, f func(ctx context.Context) any) {
	p.holding.Add(1)
	c.Go(func(ctx context.Context) any {
		defer p.holding.Done()
		return f(ctx)
	})
}

// Join waits until the node was announced for the first time or ctx is done. It returns
// KindConflict if other nodes use the same Redis and must not; the process should end then.
func (p *Partitions) Join(ctx context.Context) error {
	select {
	case <-p.joined:
		return p.joinErr
	case <-ctx.Done():
		return signal.Unavailable(errors.Join(errors.New("wait for the node to be announced"), ctx.Err()))
	}
}

// Stay waits until ctx is done, and then returns nil. Before that it returns KindConflict if the node
// was announced and may not run any longer because of another one; the process should end then.
func (p *Partitions) Stay(ctx context.Context) error {
	select {
	case err := <-p.expelled:
		return err
	case <-ctx.Done():
		return nil
	}
}

// expel makes Join and Stay return err.
func (p *Partitions) expel(err error) {
	p.join(err)
	select {
	case p.expelled <- err:
	default:
	}
}

// join makes Join return err.
func (p *Partitions) join(err error) {
	p.joinOnce.Do(func() {
		p.joinErr = err
		close(p.joined)
	})
}

// Publish passes events that the tail has read to the owner of their partition, in the
// order of the log. It does not wait. The caller must not change events afterwards.
func (p *Partitions) Publish(partition int, events []signal.Event) {
	if b := p.inboxes[partition].Load(); b != nil && len(events) > 0 {
		b.put(events)
	}
}

// Gap records that the tail has missed events of a partition. Its owner reads them from the
// log.
func (p *Partitions) Gap(partition int) {
	if b := p.inboxes[partition].Load(); b != nil {
		b.gap()
	}
}

// Holding is a partition that this node owns.
type Holding struct {
	Partition int
	Epoch     int64
	Since     time.Time // when this node became owner
}

// Holdings returns the partitions that this node owns, by number.
func (p *Partitions) Holdings() []Holding {
	var list []Holding
	for n := range p.owners {
		if o := p.owners[n].Load(); o != nil {
			list = append(list, Holding{Partition: n, Epoch: o.epoch, Since: o.since})
		}
	}
	return list
}

// Live returns how many nodes are live, with this one, as far as it knows.
func (p *Partitions) Live() int { return int(p.live.Load()) }

// Owned returns how many partitions this node owns.
func (p *Partitions) Owned() int { return int(p.owned.Load()) }

// Wanted returns how many partitions this node should own, as far as it knows.
func (p *Partitions) Wanted() int { return int(p.wanted.Load()) }

// RolledBack notifies the owner of a partition that Redis has lost acknowledged events of
// it. The owner gives it up and takes it again under a new epoch, so that nothing in memory
// is ahead of Redis.
func (p *Partitions) RolledBack(partition int) {
	if owner := p.owners[partition].Load(); owner != nil {
		owner.ref.Tell(ownership.Lost{Epoch: owner.epoch, Err: signal.ErrRolledBack})
	}
}

// lost reports whether the owner must give the partition up because of err: a write under
// its epoch was refused, or Redis has lost writes.
func lost(err error) bool {
	code := signal.CodeOf(err)
	return code == signal.CodeNotOwner || code == signal.CodeRolledBack
}
