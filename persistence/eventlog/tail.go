package eventlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// TailOptions are the limits of a Tail.
type TailOptions struct {
	// Count is how many events of a partition one read returns; default 1000.
	Count int
	// Pause and MaxPause are the shortest and the longest time from one read to the next;
	// defaults 1 and 4 ms. It grows while reads bring few events, unless these go to many connections. An
	// event that comes after the pause is read at once, and a caller of Wait ends it.
	Pause, MaxPause time.Duration
	// Idle is how long a partition is followed after its last use; default 10 minutes.
	Idle time.Duration
	// Readers is how many reads share the partitions of a single server; default half of
	// GOMAXPROCS, 1 to 4. On a Redis Cluster each partition has its own.
	Readers int
	Log     *slog.Logger // nil: the Store's
}

// Tail follows the event logs of the partitions for which this node has a Reason, without a
// consumer group.
//
// Subscribers receive every event that is appended after its partition was attached, once, in the
// order of the partition's log, from one goroutine at a time for each partition, also when Redis
// was unavailable or restarted meanwhile. A partition is attached when there is a first reason,
// and detached when the last reason ends, which calls the functions of OnGap. If events were
// removed before they were read, the functions of OnGap are called, and delivery continues after
// the gap. If Redis has lost events that were read, or that this process has appended, the
// functions of OnRollback are called first; delivery then continues after the last common event,
// even if positions are below those of the lost ones.
//
// With Options.WaitReplicas subscribers receive an event once replicas have it. While replicas are
// missing, events are withheld unless Options.AcceptWithoutReplicas is set.
//
// Head, Wait, Attached and For are safe for concurrent use.
type Tail struct {
	subscribers *subscribers
	partitions  []*tailPartition
	readers     []*tailReader // partition p belongs to readers[p % len(readers)]
}

// NewTail returns a tail of s. Subscribe, then Run.
func NewTail(s *Store, o TailOptions) *Tail {
	o.Count, o.Idle, o.Log = cmp.Or(o.Count, 1000), cmp.Or(o.Idle, 10*time.Minute), cmp.Or(o.Log, s.Log)
	t := &Tail{subscribers: &subscribers{log: o.Log}, partitions: make([]*tailPartition, s.Partitions())}
	readers := min(s.Partitions(), cmp.Or(o.Readers, min(4, max(1, runtime.GOMAXPROCS(0)/2))))
	if _, cluster := s.Blocking.(*redis.ClusterClient); cluster {
		// One command cannot read streams of different slots.
		readers = s.Partitions()
	}
	byKey, withheld, started := map[string]int{}, &atomic.Int64{}, time.Now()
	for range readers {
		t.readers = append(t.readers, &tailReader{
			store: s, log: o.Log, count: o.Count, all: t.partitions, byKey: byKey, withheld: withheld,
			heads:   &headQuestions{store: s, log: o.Log, partitions: t.partitions},
			pacing:  newPacing(cmp.Or(o.Pause, time.Millisecond), cmp.Or(o.MaxPause, 4*time.Millisecond)),
			idle:    make(chan struct{}, 1),
			added:   make(chan struct{}, 1),
			covered: map[int]bool{},
		})
	}
	for p := range t.partitions {
		r := t.readers[p%readers]
		r.partitions = append(r.partitions, p)
		byKey[s.EventsKey(p)] = p
		f := &following{number: p, started: started, idle: o.Idle, reader: r, confirmed: &s.confirmed[p], held: withheld,
			ready: make(chan struct{})}
		t.partitions[p] = &tailPartition{number: p, store: s, subscribers: t.subscribers, log: o.Log, count: o.Count, follow: f}
	}
	return t
}

// Subscribe registers f, which is called with the events that are read. f may keep them but must not change
// them, and must not block. Subscribe must be called before Run.
func (t *Tail) Subscribe(f func(partition int, events []signal.Event)) {
	t.subscribers.events = append(t.subscribers.events, f)
}

// OnGap registers f, which is called when subscribers miss events of a partition. It must be called before
// Run.
func (t *Tail) OnGap(f func(partition int)) { t.subscribers.gaps = append(t.subscribers.gaps, f) }

// OnRollback registers f, which is called when Redis has lost acknowledged events of a
// partition, before the functions of OnGap. It must be called before Run.
func (t *Tail) OnRollback(f func(partition int)) {
	t.subscribers.rollbacks = append(t.subscribers.rollbacks, f)
}

// Attached reports whether Run follows the logs for which there is a reason, and Redis answered its
// last reads.
func (t *Tail) Attached() bool {
	for _, r := range t.readers {
		if !r.connected.Load() {
			return false
		}
	}
	return true
}

// Run follows the logs for which there is a reason, from their ends on, until ctx ends. It returns
// the error of ctx, within the second that a blocking read lasts.
func (t *Tail) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, r := range t.readers {
		wg.Go(func() {
			r.run(ctx)
			r.connected.Store(false)
		})
		wg.Go(func() { r.join(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

// For returns what follows partitions for a reason.
func (t *Tail) For(r Reason) Follower { return Follower{t, r} }

// Wait returns when subscribers have been given everything up to p, which Head or Append has
// returned, or what replicas have of it while they are missing. The partition is followed meanwhile.
// KindUnavailable: ctx ended first.
func (t *Tail) Wait(ctx context.Context, partition int, p signal.Position) error {
	return t.partitions[partition].follow.wait(ctx, p)
}

// Head returns the end of a partition's event log in Redis at some moment during the call, or of
// what replicas have of it while they are missing.
// KindUnavailable: Redis does not answer, or ctx ended.
func (t *Tail) Head(ctx context.Context, partition int) (signal.Position, error) {
	return t.partitions[partition].follow.reader.heads.end(ctx, partition)
}

// Close cancels the questions of Head that are in flight and waits for their end.
func (t *Tail) Close(ctx context.Context) error {
	var errs []error
	for _, r := range t.readers {
		errs = append(errs, r.heads.asking.Close(ctx))
	}
	return errors.Join(errs...)
}

// Followed returns the partitions whose events are read, with the names of the reasons, by number.
func (t *Tail) Followed() []cluster.Followed {
	var list []cluster.Followed
	for i, p := range t.partitions {
		if names := p.follow.reasons(); len(names) > 0 {
			list = append(list, cluster.Followed{Partition: i, Reasons: names})
		}
	}
	return list
}

// Collector returns the gauge of followed partitions.
func (t *Tail) Collector() prometheus.Collector { return newFollowCollector(t) }
