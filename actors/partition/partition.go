package partition

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// taken is the result of an attempt to take the lease.
type taken struct {
	begun time.Time
	epoch int64 // 0 if owner holds the lease
	owner string
	err   error
}

// renewed is the result of a renewal.
type renewed struct {
	begun time.Time
	err   error
}

// Messages of a partition actor to itself.
type (
	takeDue   struct{}
	renewDue  struct{}
	leaseOver struct{}
)

// Leases grants partitions to nodes. eventlog.Store implements it.
type Leases interface {
	TakeLease(ctx context.Context, partition int, node string, ttl time.Duration) (epoch int64, owner string, err error)
	RenewLease(ctx context.Context, partition int, node string, epoch int64, ttl time.Duration) error
	ReleaseLease(ctx context.Context, partition int, node string, epoch int64) error
}

// partition is the actor of one wanted partition. It first takes the lease; from
// then on it owns the partition until it stops. It never becomes owner twice.
type partition struct {
	p      *Partitions
	number int
	log    *slog.Logger

	epoch int64     // 0 while it is not owner
	until time.Time // when the lease expires, at the earliest
	over  engine.Timer
	gone  bool // the ownership was lost: there is no lease to release
	// granted is the epoch of the lease, for an actor that stops before it receives taken.
	granted atomic.Int64

	feed *feed // nil while it is not owner
}

// Receive implements engine.Actor.
func (a *partition) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, takeDue:
		a.take(c)
	case taken:
		a.onTaken(c, m)
	case renewDue:
		a.renew(c)
	case renewed:
		a.onRenewed(c, m)
	case leaseOver:
		a.onLeaseOver(c)
	case dutyDue:
		a.work(c, m.duty)
	case dutyDone:
		a.onDutyDone(c, m)
	case ownership.Lost:
		a.drop(c, m.Err)
	case engine.Stopping, engine.Restarting:
		a.end(c)
	case loadDue:
		a.feed.load(c)
	case positionLoaded:
		a.feed.onLoaded(c, m)
	case attachDue:
		a.feed.attach(c)
	case inboxFilled:
		a.feed.onInboxFilled(c)
	case readDue:
		a.feed.onReadDue(c)
	case logRead:
		a.feed.onRead(c, m)
	case effectDue:
		a.feed.apply(c)
	case effectsStored:
		a.feed.onEffectsStored(c, m)
	case storeDue:
		a.feed.onStoreDue(c)
	case positionStored:
		a.feed.onPositionStored(c, m)
	case checkDue:
		a.feed.check(c)
	}
}

// take tries to become owner. A lease that is granted while the actor stops is released:
// here if the actor's context has ended, else by end.
func (a *partition) take(c engine.Context) {
	p, number, granted := a.p, a.number, &a.granted
	p.track(c, func(ctx context.Context) any {
		m := taken{begun: time.Now()}
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.renewEvery)
		defer cancel()
		m.epoch, m.owner, m.err = p.store.TakeLease(detached, number, p.node, p.options.Lease)
		granted.Store(m.epoch)
		if ctx.Err() != nil && m.epoch != 0 {
			p.release(ctx, number, m.epoch)
		}
		return m
	})
}

// release gives a lease back, if Redis answers within leaveTimeout.
func (p *Partitions) release(ctx context.Context, number int, epoch int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := p.store.ReleaseLease(ctx, number, p.node, epoch); err != nil {
		p.slog.Warn("lease is not released", "partition", number, "err", err)
	}
}

func (a *partition) onTaken(c engine.Context, m taken) {
	if m.err != nil || m.epoch == 0 {
		a.log.Debug("lease is not available", "owner", m.owner, "err", m.err)
		c.After(a.p.pollEvery, takeDue{})
		return
	}
	a.epoch = m.epoch
	self := c.Self()
	a.p.owners[a.number].Store(&self)
	a.p.owned.Add(1)
	a.log.Debug("partition is owned", "epoch", m.epoch)
	a.hold(c, m.begun)
	c.After(time.Until(m.begun.Add(a.p.renewEvery)), renewDue{})
	list, dueAfter := a.duties()
	a.feed = a.newFeed(a.startTenants(c), dueAfter)
	a.feed.start(c)
	for _, d := range list {
		a.work(c, d)
	}
}

// startTenants starts the tenants of the partition.
func (a *partition) startTenants(c engine.Context) []ownership.Follower {
	owned := ownership.Owned{Partition: a.number, Epoch: a.epoch, Owner: c.Self()}
	followers := make([]ownership.Follower, len(a.p.options.Tenants))
	for i, t := range a.p.options.Tenants {
		followers[i] = t.Start(c, owned)
	}
	return followers
}

// newFeed returns the feed of the partition that has just become owned.
func (a *partition) newFeed(followers []ownership.Follower, dueAfter map[signal.EventType]*duty) *feed {
	p, number, epoch := a.p, a.number, a.epoch
	return newFeed(feedOptions{
		partition:  number,
		epoch:      epoch,
		store:      p.store,
		tail:       p.options.Tail,
		attachPoll: min(p.pollEvery, 50*time.Millisecond),
		publish:    p.inboxes[number].Store,
		followers:  followers,
		effects: map[signal.EventType]effect{
			signal.AccountDeleted: func(ctx context.Context, e *signal.Event) error {
				return p.store.BeginErase(ctx, number, epoch, e.Account, e.Time())
			},
		},
		followUp: func(c engine.Context, e *signal.Event) {
			if d := dueAfter[e.Type]; d != nil {
				a.work(c, d)
			}
		},
		lost: a.drop,
		log:  a.log,
	})
}

// hold extends the lease, counted from begun. Redis counts from a later time, at which it
// received the request.
func (a *partition) hold(c engine.Context, begun time.Time) {
	a.until = begun.Add(a.p.options.Lease)
	a.over.Stop()
	a.over = c.After(time.Until(a.until), leaseOver{})
}

func (a *partition) renew(c engine.Context) {
	p, number, epoch := a.p, a.number, a.epoch
	c.Go(func(ctx context.Context) any {
		m := renewed{begun: time.Now()}
		ctx, cancel := context.WithTimeout(ctx, p.renewEvery)
		defer cancel()
		m.err = p.store.RenewLease(ctx, number, p.node, epoch, p.options.Lease)
		return m
	})
}

func (a *partition) onRenewed(c engine.Context, m renewed) {
	switch {
	case m.err == nil:
		a.hold(c, m.begun)
		c.After(time.Until(m.begun.Add(a.p.renewEvery)), renewDue{})
	case signal.KindOf(m.err) == signal.KindConflict:
		a.drop(c, m.err)
	default:
		a.log.Debug("lease is not renewed", "err", m.err)
		c.After(a.p.pollEvery, renewDue{})
	}
}

func (a *partition) onLeaseOver(c engine.Context) {
	if !time.Now().Before(a.until) {
		a.drop(c, context.DeadlineExceeded)
	}
}

// drop ends the ownership because of err: the lease is lost, or Redis has lost writes of
// this epoch. The actor stops with all its children and timers; the supervisor starts a new
// one, which may take the lease again under a new epoch.
func (a *partition) drop(c engine.Context, err error) {
	if a.gone {
		return
	}
	a.gone = true
	a.log.Warn("partition is lost", "epoch", a.epoch, "err", err)
	c.Stop(c.Self())
}

// end releases the partition, unless it is lost. Late writes of the actor's goroutines are
// stored before the next owner has its epoch, or refused.
func (a *partition) end(c engine.Context) {
	p, number, epoch := a.p, a.number, a.epoch
	if epoch == 0 {
		if epoch = a.granted.Load(); epoch != 0 {
			p.track(c, func(ctx context.Context) any {
				p.release(ctx, number, epoch)
				return nil
			})
		}
		return
	}
	p.owned.Add(-1)
	p.inboxes[number].Store(nil)
	p.owners[number].Store(nil)
	a.feed.release()
	if a.gone {
		return
	}
	settled, stored := a.feed.settled(), a.feed.stored
	p.track(c, func(ctx context.Context) any {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if settled != stored {
			// Without it the next owner only handles some events again.
			if err := p.store.StoreOwnerPosition(detached, number, epoch, settled); err != nil {
				p.slog.Debug("last position is not stored", "partition", number, "err", err)
			}
		}
		p.release(ctx, number, epoch)
		return nil
	})
}
