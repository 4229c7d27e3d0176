package partition

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// taken is the result of an attempt to take the lease.
type taken struct {
	begun time.Time
	epoch int64 // 0 if owner holds the lease
	owner string
	err   error
}

// renewed is the result of a renewal by the supervisor, of the lease under an epoch.
type renewed struct {
	epoch int64
	begun time.Time
	err   error
}

// resign asks a partition actor to stop acting as owner, because the supervisor gives its lease
// back; resigned is its answer. It is also sent when the actor ends by itself.
type (
	resign   struct{}
	resigned struct {
		partition engine.Ref
		lease     cluster.Lease // to give back; none if its epoch is 0
	}
)

// Messages of a partition actor to itself.
type (
	takeDue   struct{}
	leaseOver struct{}
)

// partition is the actor of one wanted partition. It first takes the lease; from
// then on it owns the partition until it stops. It never becomes owner twice.
type partition struct {
	p          *Partitions
	supervisor engine.Ref
	number     int
	log        *slog.Logger

	epoch int64     // 0 while it is not owner
	until time.Time // when the lease expires, at the earliest
	over  engine.Timer
	gone  bool // the ownership is lost, or the supervisor releases the lease
	// granted is the epoch of the lease, for an actor that stops before it receives taken.
	granted atomic.Int64

	feed  *feed   // nil while it is not owner
	tasks []*duty // of the owner
}

// Receive implements engine.Actor.
func (a *partition) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, takeDue:
		a.take(c)
	case taken:
		a.onTaken(c, m)
	case renewed:
		a.onRenewed(c, m)
	case leaseOver:
		a.onLeaseOver(c)
	case dutyDue:
		a.work(c, m.duty)
	case dutyDone:
		a.onDutyDone(c, m)
	case ownership.Lost:
		if m.Epoch == a.epoch { // else it is for the actor before its restart
			a.drop(c, m.Err)
		}
	case resign:
		a.resign(c)
	case engine.Stopping:
		a.supervisor.Tell(resigned{partition: c.Self()})
		a.end(c)
	case engine.Restarting:
		a.end(c)
	case loadDue:
		a.feed.load(c)
	case positionLoaded:
		a.feed.onLoaded(c, m)
	case attachDue:
		a.feed.attach(c)
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
	case inboxFilled, checkDue, unhandled:
		if a.feed != nil { // else it is for the actor before its restart
			a.feed.onOutside(c, m)
		}
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
			p.announcer.release(ctx, cluster.Lease{Partition: number, Epoch: m.epoch})
		}
		return m
	})
}

func (a *partition) onTaken(c engine.Context, m taken) {
	if m.err != nil || m.epoch == 0 {
		a.log.Debug("lease is not available", "owner", m.owner, "err", m.err)
		c.After(a.p.pollEvery, takeDue{})
		return
	}
	a.epoch = m.epoch
	a.p.owners[a.number].Store(&owner{c.Self(), m.epoch, a.p.store.Now()})
	a.p.owned.Add(1)
	a.log.Debug("partition is owned", "epoch", m.epoch)
	a.hold(c, m.begun)
	list, dueAfter := a.duties()
	a.tasks = list
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
		advanced: a.wake,
		silent:   a.reportSilence,
		lost:     a.drop,
		log:      a.log,
	})
}

func (a *partition) reportSilence(c engine.Context) {
	a.supervisor.Tell(silent{a.number, c.Self(), a.feed.handled})
}

// hold extends the lease, counted from begun. Redis counts from a later time, at which it
// received the request.
func (a *partition) hold(c engine.Context, begun time.Time) {
	a.until = begun.Add(a.p.options.Lease)
	a.over.Stop()
	a.over = c.After(time.Until(a.until), leaseOver{})
}

func (a *partition) onRenewed(c engine.Context, m renewed) {
	switch {
	case m.epoch != a.epoch: // of the actor before its restart
	case m.err == nil:
		a.hold(c, m.begun)
	case signal.KindOf(m.err) == signal.KindConflict:
		a.drop(c, m.err)
	default:
		a.log.Debug("lease is not renewed", "err", m.err)
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

// resign ends the ownership for the supervisor, which gives the lease back and then ends the actor.
func (a *partition) resign(c engine.Context) {
	answer := resigned{partition: c.Self()}
	switch {
	case a.epoch == 0:
		c.Stop(c.Self()) // it may still be granted a lease, see end
	case !a.gone:
		answer.lease = a.lease()
		a.gone = true
		a.stepDown()
	}
	a.supervisor.Tell(answer)
}

// lease returns the lease as it is given back.
func (a *partition) lease() cluster.Lease {
	l := cluster.Lease{Partition: a.number, Epoch: a.epoch}
	if settled := a.feed.settled(); settled != a.feed.stored {
		l.Position = settled
	}
	return l
}

// stepDown makes the node no longer count as owner.
func (a *partition) stepDown() {
	if a.p.owners[a.number].Swap(nil) != nil {
		a.p.owned.Add(-1)
	}
	a.p.inboxes[a.number].Store(nil)
}

// end releases the partition, unless that is done or it is lost.
//
// The lease is released while goroutines of the actor and its children may still write under its
// epoch. Redis handles such a write either before it gives the lease to the next owner, which
// reads the partition's state only after that, or refuses it, because the script that gives the
// lease has stored a newer epoch.
func (a *partition) end(c engine.Context) {
	p, lease := a.p, cluster.Lease{Partition: a.number, Epoch: a.granted.Load()}
	if a.epoch != 0 {
		a.feed.release()
		a.stepDown()
		lease = a.lease()
	}
	if a.gone || lease.Epoch == 0 {
		return
	}
	p.track(c, func(ctx context.Context) any {
		p.announcer.release(ctx, lease)
		return nil
	})
}
