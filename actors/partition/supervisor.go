package partition

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// announced is the result of an announcement of the node.
type announced struct {
	members cluster.Members
	err     error
}

// assigned is the result of storing an assignment.
type assigned struct {
	assignment cluster.Assignment
	stored     bool
}

// allRenewed is the result of renewing the leases of owners.
type allRenewed struct {
	begun  time.Time
	owners []*owner
	errs   []error // of each
}

// silent reports that the tail has published no events of a partition for a while.
type silent struct {
	number    int
	partition engine.Ref
	handled   signal.Position
}

// continued is the result of looking at the logs of silent partitions: the owners of those that go on.
type continued struct{ owners []engine.Ref }

// handOver asks the supervisor to give all partitions back; handedOver is the result.
type (
	handOver   struct{ reply chan<- struct{} }
	handedOver struct{}
)

// announceDue asks the supervisor to announce the node again, renewDue to renew the leases,
// startDue to start actors again that have ended.
type (
	announceDue struct{}
	renewDue    struct{}
	startDue    struct{}
)

// partitionFailures restarts a partition actor that panicked; it takes its lease again
// at once, under a new epoch. An actor that panics too often stops, and the supervisor
// starts a new one a little later, so that no partition is abandoned while the node is
// alive.
var partitionFailures = engine.Supervision{Restarts: 5, Within: time.Minute}

// refusedFor is how long, in addition to a lease, a node that another one refuses waits for that node
// to leave: a killed node seems alive until its announcement expires.
const refusedFor = 2 * time.Second

// supervisor is the parent of the partition actors.
type supervisor struct {
	p        *Partitions
	members  cluster.Members
	children map[int]engine.Ref
	numbers  map[engine.Ref]int

	// failingSince is when announcements began to fail; zero if the last one succeeded.
	failingSince time.Time
	refused      bool      // because of another node
	graceUntil   time.Time // until then, nodes that are missing count as alive

	announcing bool // an announcement is in flight
	// outdated is set if the announcement in flight was sent before the assignment in members was stored.
	outdated bool

	asked  bool     // owners have been asked whether they are silent
	silent []silent // those that are

	resigned   map[engine.Ref]struct{} // children that have stopped to act as owners
	leaving    bool                    // the node takes no partitions any more
	unresigned map[engine.Ref]struct{} // children that have yet to resign then
	returned   []cluster.Lease         // of those that have
	left       bool                    // leases are returned, and the node is withdrawn
	waiting    []chan<- struct{}       // for left
}

// Receive implements engine.Actor.
func (s *supervisor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		s.announce(c)
		c.After(s.p.renewEvery, renewDue{})
		c.After(checkEvery/2, checkDue{})
	case announceDue:
		s.announce(c)
	case announced:
		s.onAnnounced(c, m)
	case assigned:
		s.onAssigned(c, m)
	case renewDue:
		s.renew(c)
	case allRenewed:
		s.onAllRenewed(c, m)
	case checkDue:
		s.check(c)
	case silent:
		s.silent = append(s.silent, m)
	case continued:
		for _, owner := range m.owners {
			owner.Tell(unhandled{})
		}
	case engine.Terminated:
		s.onTerminated(c, m)
	case startDue:
		s.apply(c)
	case handOver:
		s.handOver(c, m)
	case resigned:
		s.onResigned(c, m)
	case handedOver:
		s.left = true
		s.answer()
	case engine.Stopping:
		s.leave(c)
	}
}

// announce announces the node. If the announcement may have reached Redis after the node
// was withdrawn, it withdraws the node again: others would wait for it otherwise.
func (s *supervisor) announce(c engine.Context) {
	if s.leaving {
		return
	}
	p := s.p
	s.announcing = true
	p.track(c, func(ctx context.Context) any {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.announcer.timeout())
		defer cancel()
		members, err := p.announcer.announce(detached)
		if ctx.Err() != nil {
			p.announcer.withdraw(ctx)
		}
		return announced{members, err}
	})
}

func (s *supervisor) onAnnounced(c engine.Context, m announced) {
	outdated := s.outdated && m.members.Assignment.Version < s.members.Assignment.Version
	s.announcing, s.outdated = false, false
	if s.leaving {
		s.returnAll(c)
		return
	}
	c.After(s.p.pollEvery, announceDue{})
	if m.err != nil {
		s.onAnnounceFailed(c, m.err)
		return
	}
	s.p.join(nil)
	if !s.failingSince.IsZero() {
		s.onAnnouncedAgain()
	}
	live := m.members.Live
	missing := func(n string) bool { return !slices.Contains(live, n) }
	if time.Now().Before(s.graceUntil) && slices.ContainsFunc(s.members.Live, missing) {
		return
	}
	if !slices.Equal(s.members.Live, live) {
		s.p.slog.Info("live nodes", "nodes", len(live))
	}
	if outdated {
		m.members.Assignment = s.members.Assignment
	}
	s.members = m.members
	if !s.fits() {
		s.assign(c)
	}
	s.apply(c)
}

// fits reports whether the stored assignment is for the live nodes and all partitions.
func (s *supervisor) fits() bool {
	a := s.members.Assignment
	return slices.Equal(a.Nodes, s.members.Live) && len(a.Owners) == len(s.p.inboxes)
}

// assign stores an assignment to the live nodes. Until one is stored, each node keeps to the former.
func (s *supervisor) assign(c engine.Context) {
	p, next := s.p, assign(s.members.Assignment, s.members.Live, len(s.p.inboxes))
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, p.announcer.timeout())
		defer cancel()
		stored, err := p.store.AssignPartitions(ctx, next)
		if err != nil && ctx.Err() == nil {
			p.slog.Warn("partitions cannot be assigned", "err", err)
		}
		return assigned{next, stored}
	})
}

// onAssigned takes over what this node has stored. What another one has stored comes with the next
// announcement. One in flight may have been answered before, and must not bring the former assignment
// back. A later one may: Redis has then lost this one.
func (s *supervisor) onAssigned(c engine.Context, m assigned) {
	if m.stored && m.assignment.Version > s.members.Assignment.Version {
		s.members.Assignment, s.outdated = m.assignment, s.announcing
		s.apply(c)
	}
}

// wants reports whether this node should own partition number.
func (s *supervisor) wants(number int) bool {
	m := &s.members
	// An owner that has left no longer counts, and a node that was refused wants nothing.
	return number < len(m.Assignment.Owners) && m.Assignment.Owners[number] == s.p.node &&
		slices.Contains(m.Live, s.p.node)
}

// onAnnouncedAgain handles the first announcement that succeeds after failed ones. After
// a long outage other nodes may be missing only because they could not announce
// themselves either: they get time for it before their partitions are taken.
func (s *supervisor) onAnnouncedAgain() {
	out := time.Since(s.failingSince)
	s.p.slog.Info("node is announced again", "after", out)
	if !s.refused && out >= s.p.announcer.timeout() {
		s.graceUntil = time.Now().Add(s.p.announcer.timeout() + 2*s.p.pollEvery)
	}
	s.failingSince, s.refused = time.Time{}, false
}

// onAnnounceFailed handles an announcement that failed. During an outage of Redis the
// list of live nodes is kept, because the leases determine the owners.
func (s *supervisor) onAnnounceFailed(c engine.Context, err error) {
	refused := signal.KindOf(err) == signal.KindConflict
	if s.failingSince.IsZero() || refused != s.refused {
		s.failingSince, s.refused = time.Now(), refused
		s.p.slog.Warn("node cannot be announced", "err", err)
	}
	if refused {
		s.members = cluster.Members{}
		s.apply(c)
		if !cluster.MayPass(signal.CodeOf(err)) || time.Since(s.failingSince) > s.p.options.Lease+refusedFor {
			s.p.expel(err)
		}
	}
}

// apply starts the partition actors that are missing and stops those that are not
// wanted. It starts no actor while the former one of the partition is stopping: the two
// would take the lease from each other.
func (s *supervisor) apply(c engine.Context) {
	if s.leaving {
		return
	}
	wanted, self := 0, c.Self()
	for number := range s.p.inboxes {
		child, exists := s.children[number]
		if !s.wants(number) {
			if exists {
				c.Stop(child)
			}
			continue
		}
		wanted++
		if !exists {
			produce := func() engine.Actor {
				return &partition{p: s.p, supervisor: self, number: number, log: s.p.slog.With("partition", number)}
			}
			child = c.Spawn(engine.Partition, strconv.Itoa(number), produce, engine.Supervision{})
			s.children[number] = child
			s.numbers[child] = number
		}
	}
	s.p.wanted.Store(int64(wanted))
	s.p.live.Store(int64(len(s.members.Live)))
}

// renew renews the leases of all partitions together, so that many cost little more than a few.
func (s *supervisor) renew(c engine.Context) {
	if s.leaving {
		return
	}
	p, leases, m := s.p, []cluster.Lease(nil), allRenewed{begun: time.Now()}
	for number := range p.owners {
		if o := p.owners[number].Load(); o != nil {
			leases = append(leases, cluster.Lease{Partition: number, Epoch: o.epoch})
			m.owners = append(m.owners, o)
		}
	}
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, p.renewEvery)
		defer cancel()
		if len(leases) > 0 {
			m.errs = p.store.RenewLeases(ctx, p.node, leases, p.options.Lease)
		}
		return m
	})
}

func (s *supervisor) onAllRenewed(c engine.Context, m allRenewed) {
	next := time.Until(m.begun.Add(s.p.renewEvery))
	for i, owner := range m.owners {
		owner.ref.Tell(renewed{owner.epoch, m.begun, m.errs[i]})
		if m.errs[i] != nil && signal.KindOf(m.errs[i]) != signal.KindConflict {
			next = s.p.pollEvery
		}
	}
	c.After(next, renewDue{})
}

// check asks the owners whether they are silent, and looks at the logs of all silent ones together half
// of checkEvery later, so that many partitions without events cost one command.
func (s *supervisor) check(c engine.Context) {
	c.After(checkEvery/2, checkDue{})
	if s.asked = !s.asked; s.asked {
		s.silent = nil
		for number := range s.p.owners {
			if o := s.p.owners[number].Load(); o != nil {
				o.ref.Tell(checkDue{})
			}
		}
		return
	}
	p, owners, after := s.p, map[int]engine.Ref{}, map[int]signal.Position{}
	for _, m := range s.silent {
		owners[m.number], after[m.number] = m.partition, m.handled
	}
	if len(after) == 0 {
		return
	}
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, checkEvery)
		defer cancel()
		numbers, err := p.store.ContinuedLogs(ctx, after)
		if err != nil && ctx.Err() == nil {
			p.slog.Debug("event logs are not readable", "err", err)
		}
		m := continued{}
		for _, number := range numbers {
			m.owners = append(m.owners, owners[number])
		}
		return m
	})
}

func (s *supervisor) onTerminated(c engine.Context, m engine.Terminated) {
	delete(s.children, s.numbers[m.Ref])
	delete(s.numbers, m.Ref)
	s.onResigned(c, resigned{partition: m.Ref}) // if it failed before
	delete(s.resigned, m.Ref)
	c.After(s.p.pollEvery, startDue{})
}

// handOver has all owners resign, so that their leases are given back together. That comes before
// any of them ends, which takes long with many signals.
func (s *supervisor) handOver(c engine.Context, m handOver) {
	s.waiting = append(s.waiting, m.reply)
	if s.leaving {
		s.answer()
		return
	}
	s.leaving, s.unresigned = true, map[engine.Ref]struct{}{}
	for _, child := range s.children {
		if _, done := s.resigned[child]; !done {
			s.unresigned[child] = struct{}{}
			child.Tell(resign{})
		}
	}
	if len(s.unresigned) == 0 {
		s.returnAll(c)
	}
}

// answer answers those who wait for the node to have left, if it has.
func (s *supervisor) answer() {
	for s.left && len(s.waiting) > 0 {
		s.waiting[0] <- struct{}{}
		s.waiting = s.waiting[1:]
	}
}

func (s *supervisor) onResigned(c engine.Context, m resigned) {
	s.resigned[m.partition] = struct{}{}
	if _, awaited := s.unresigned[m.partition]; !awaited {
		return
	}
	delete(s.unresigned, m.partition)
	if m.lease.Epoch != 0 {
		s.returned = append(s.returned, m.lease)
	}
	s.returnAll(c)
}

// returnAll gives the leases back and withdraws the node, once all owners have resigned and no
// announcement is in flight, after which others would count the node as alive again.
func (s *supervisor) returnAll(c engine.Context) {
	if s.announcing || len(s.unresigned) > 0 {
		return
	}
	p, leases := s.p, s.returned
	p.track(c, func(ctx context.Context) any {
		if len(leases) > 0 {
			p.announcer.release(ctx, leases...)
		}
		p.announcer.withdraw(ctx)
		return handedOver{}
	})
}

// leave withdraws the node, so that others take its partitions as soon as its children,
// which are stopping, release them.
func (s *supervisor) leave(c engine.Context) {
	s.p.track(c, func(ctx context.Context) any {
		s.p.announcer.withdraw(ctx)
		return nil
	})
}
