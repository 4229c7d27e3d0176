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

// announceDue asks the supervisor to announce the node again, startDue to start actors
// again that have ended.
type (
	announceDue struct{}
	startDue    struct{}
)

// Nodes announces nodes. eventlog.Store implements it.
type Nodes interface {
	AnnounceNode(ctx context.Context, node string, ttl time.Duration, singleNode bool) (cluster.Members, error)
	AssignPartitions(ctx context.Context, a cluster.Assignment) (stored bool, err error)
	LeaveNode(ctx context.Context, node string) error
}

// partitionFailures restarts a partition actor that panicked; it takes its lease again
// at once, under a new epoch. An actor that panics too often stops, and the supervisor
// starts a new one a little later, so that no partition is abandoned while the node is
// alive.
var partitionFailures = engine.Supervision{Restarts: 5, Within: time.Minute}

// refusedFor is how long, in addition to a lease, a node that must be the only one waits
// for another node to leave: a killed node seems alive until its announcement expires.
const refusedFor = 2 * time.Second

// leaveTimeout bounds the Redis commands of an actor that stops.
const leaveTimeout = time.Second

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
}

// Receive implements engine.Actor.
func (s *supervisor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, announceDue:
		s.announce(c)
	case announced:
		s.onAnnounced(c, m)
	case assigned:
		s.onAssigned(c, m)
	case engine.Terminated:
		s.onTerminated(c, m)
	case startDue:
		s.apply(c)
	case engine.Stopping:
		s.leave(c)
	}
}

// announce announces the node. If the announcement may have reached Redis after the node
// was withdrawn, it withdraws the node again: others would wait for it otherwise.
func (s *supervisor) announce(c engine.Context) {
	p := s.p
	p.track(c, func(ctx context.Context) any {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.announceTimeout())
		defer cancel()
		members, err := p.store.AnnounceNode(detached, p.node, p.options.Lease, p.options.SingleNode)
		if ctx.Err() != nil {
			p.leave(ctx)
		}
		return announced{members, err}
	})
}

func (s *supervisor) onAnnounced(c engine.Context, m announced) {
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
	s.members = m.members
	if !m.members.ByHash && !s.fits() {
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
		ctx, cancel := context.WithTimeout(ctx, p.announceTimeout())
		defer cancel()
		stored, err := p.store.AssignPartitions(ctx, next)
		if err != nil && ctx.Err() == nil {
			p.slog.Warn("partitions cannot be assigned", "err", err)
		}
		return assigned{next, stored}
	})
}

// onAssigned takes over what this node has stored. What another one has stored comes with the next
// announcement.
func (s *supervisor) onAssigned(c engine.Context, m assigned) {
	if m.stored && m.assignment.Version > s.members.Assignment.Version {
		s.members.Assignment = m.assignment
		s.apply(c)
	}
}

// wants reports whether this node should own partition number.
func (s *supervisor) wants(number int) bool {
	m := &s.members
	if m.ByHash {
		return wantedOwner(m.Live, number) == s.p.node
	}
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
	if !s.refused && out >= s.p.announceTimeout() {
		s.graceUntil = time.Now().Add(s.p.announceTimeout() + 2*s.p.pollEvery)
	}
	s.failingSince, s.refused = time.Time{}, false
}

// announceTimeout bounds an announcement.
func (p *Partitions) announceTimeout() time.Duration { return p.options.Lease / 2 }

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
		// Waiting does not help a node whose id another process has.
		if signal.CodeOf(err) == cluster.CodeOtherProcess || time.Since(s.failingSince) > s.p.options.Lease+refusedFor {
			s.p.expel(err)
		}
	}
}

// apply starts the partition actors that are missing and stops those that are not
// wanted. It starts no actor while the former one of the partition is stopping: the two
// would take the lease from each other.
func (s *supervisor) apply(c engine.Context) {
	wanted := 0
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
				return &partition{p: s.p, number: number, log: s.p.slog.With("partition", number)}
			}
			child = c.Spawn(engine.Partition, strconv.Itoa(number), produce, engine.Supervision{})
			s.children[number] = child
			s.numbers[child] = number
		}
	}
	s.p.wanted.Store(int64(wanted))
	s.p.live.Store(int64(len(s.members.Live)))
}

func (s *supervisor) onTerminated(c engine.Context, m engine.Terminated) {
	delete(s.children, s.numbers[m.Ref])
	delete(s.numbers, m.Ref)
	c.After(s.p.pollEvery, startDue{})
}

// leave withdraws the node, so that others take its partitions as soon as its children,
// which are stopping, release them.
func (s *supervisor) leave(c engine.Context) {
	s.p.track(c, func(ctx context.Context) any {
		s.p.leave(ctx)
		return nil
	})
}

// leave withdraws the node, if Redis answers within leaveTimeout.
func (p *Partitions) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := p.store.LeaveNode(ctx, p.node); err != nil {
		p.slog.Warn("node is not withdrawn", "err", err)
	}
}
