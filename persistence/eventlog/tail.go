package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
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
	store   *Store
	count   int
	idle    time.Duration
	started time.Time
	log     *slog.Logger

	subscribers []func(partition int, events []signal.Event)
	gaps        []func(partition int)
	rollbacks   []func(partition int)

	partitions []tailPartition
	readers    []*tailReader // partition p belongs to readers[p % len(readers)]
	byKey      map[string]int
	withheld   atomic.Int64 // partitions of which events are withheld
}

// tailReader reads some partitions, by one read at a time. While it waits for events, a second
// goroutine reads the partitions that were attached since: see join.
type tailReader struct {
	partitions []int
	connected  atomic.Bool
	pacing     pacing
	idle       chan struct{} // holds a value when a partition was added, for a reader without any
	added      chan struct{} // the same for join
	shown      atomic.Int64  // since the last read: see Follower.Shown

	mu      sync.Mutex
	covered map[int]bool // partitions of the present or the last read
}

// cover records the partitions of the next read.
func (r *tailReader) cover(partitions []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.covered)
	for _, p := range partitions {
		r.covered[p] = true
	}
}

func (r *tailReader) covers(p int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.covered[p]
}

// tailPartition is how far a partition has been read.
type tailPartition struct {
	reading sync.Mutex // held while subscribers are called; guards the next fields
	cursor  signal.Position
	suspect bool      // entries may have been removed unread since the last inspection
	readAt  time.Time // of the last read, by the wall clock, which goes on while the machine is suspended
	recent  recent

	mu sync.Mutex // guards the rest; after reading
	following
	passed   signal.Position
	withheld bool // events are, until replicas have them
	waiters  []waiter
	head     headQuestions
}

// NewTail returns a tail of s. Subscribe, then Run.
func NewTail(s *Store, o TailOptions) *Tail {
	t := &Tail{store: s, count: cmp.Or(o.Count, 1000), idle: cmp.Or(o.Idle, 10*time.Minute), started: time.Now(),
		log: cmp.Or(o.Log, s.Log), partitions: make([]tailPartition, s.Partitions()), byKey: map[string]int{}}
	readers := min(s.Partitions(), cmp.Or(o.Readers, min(4, max(1, runtime.GOMAXPROCS(0)/2))))
	if _, cluster := s.Blocking.(*redis.ClusterClient); cluster {
		// One command cannot read streams of different slots.
		readers = s.Partitions()
	}
	for range readers {
		t.readers = append(t.readers, &tailReader{
			pacing:  newPacing(cmp.Or(o.Pause, time.Millisecond), cmp.Or(o.MaxPause, 4*time.Millisecond)),
			idle:    make(chan struct{}, 1),
			added:   make(chan struct{}, 1),
			covered: map[int]bool{},
		})
	}
	for p := range t.partitions {
		t.partitions[p].ready = make(chan struct{})
		t.byKey[s.EventsKey(p)] = p
		r := t.readers[p%readers]
		r.partitions = append(r.partitions, p)
	}
	return t
}

// Subscribe registers f, which is called with the events that are read. f may keep them but must not change
// them, and must not block. Subscribe must be called before Run.
func (t *Tail) Subscribe(f func(partition int, events []signal.Event)) {
	t.subscribers = append(t.subscribers, f)
}

// OnGap registers f, which is called when subscribers miss events of a partition. It must be called before
// Run.
func (t *Tail) OnGap(f func(partition int)) { t.gaps = append(t.gaps, f) }

// OnRollback registers f, which is called when Redis has lost acknowledged events of a
// partition, before the functions of OnGap. It must be called before Run.
func (t *Tail) OnRollback(f func(partition int)) { t.rollbacks = append(t.rollbacks, f) }

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
			t.follow(ctx, r)
			r.connected.Store(false)
		})
		wg.Go(func() { t.join(ctx, r) })
	}
	wg.Wait()
	return ctx.Err()
}

// guarded calls f and returns its error, also if it panics.
func (t *Tail) guarded(f func() error) error {
	err := panics.ErrPanicked
	panics.Guard(t.log, panics.Tail, func() { err = f() })
	return err
}

// follow reads the partitions of r until ctx ends.
func (t *Tail) follow(ctx context.Context, r *tailReader) {
	begun, failure, retries := false, "", backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	var buffer redisclient.Buffer
	for ctx.Err() == nil {
		start, events := time.Now(), 0
		var followed []int
		err := t.guarded(func() (err error) {
			// The first round only attaches, so that the tail is attached before an event comes.
			if followed, err = t.update(ctx, r); err == nil && len(followed) > 0 && begun {
				events, err = t.read(ctx, followed, redisclient.BlockTimeout, &buffer)
			}
			return err
		})
		if err == nil {
			if !r.connected.Swap(true) {
				t.log.Info("event logs are followed", "component", "tail")
			}
			failure = ""
			retries.Reset()
			if !begun {
				begun = true
				continue
			}
			if len(followed) == 0 {
				select {
				case <-r.idle:
				case <-ctx.Done():
				}
				continue
			}
			r.pacing.adapt(events, int(r.shown.Swap(0)), time.Since(start))
			r.pacing.wait(ctx, start)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.connected.Store(false)
		if text := err.Error(); text != failure {
			failure = text
			t.log.Warn("event logs cannot be read", "component", "tail", "err", err)
		}
		t.suspect(r.partitions)
		if c, ok := t.store.Blocking.(*redis.ClusterClient); ok {
			c.ReloadState(ctx)
		}
		retries.Wait(ctx)
	}
}

// suspect records that entries of partitions may be removed before they are read.
func (t *Tail) suspect(partitions []int) {
	for _, p := range partitions {
		part := &t.partitions[p]
		part.reading.Lock()
		part.suspect = true
		part.reading.Unlock()
	}
}

// attach sets the cursor of a partition that is not attached yet to the end of its log.
func (t *Tail) attach(ctx context.Context, p int) error {
	part := &t.partitions[p]
	part.reading.Lock()
	defer part.reading.Unlock()
	if part.attached {
		return nil
	}
	end, err := t.store.LastEvent(ctx, p)
	if err != nil {
		return err
	}
	if end.IsZero() { // perhaps it had entries before
		info, err := t.store.ReadInfo(ctx, t.store.EventsKey(p))
		if err != nil {
			return err
		}
		if info.Length == 0 {
			end = info.Generated
		}
	}
	part.cursor, part.suspect, part.readAt = end, false, time.Now().Round(0)
	part.recent = recent{base: end}
	part.mu.Lock()
	part.attached = true
	close(part.ready)
	part.mu.Unlock()
	part.pass(end)
	return nil
}

// maxKeptReply is the size of a reply, in bytes, whose memory is used for the next one.
const maxKeptReply = 1 << 20

// read waits for events of attached partitions, for at most block, and hands them on. It returns
// how many came. The buffer takes the reply: events are decoded from it into memory of their own.
func (t *Tail) read(ctx context.Context, partitions []int, block time.Duration, buffer *redisclient.Buffer) (
	events int, err error) {
	n := len(partitions)
	after := make([]signal.Position, n)
	args := make([]any, 6+2*n)
	copy(args, []any{"XREAD", "COUNT", t.count, "BLOCK", block.Milliseconds(), "STREAMS"})
	for i, p := range partitions {
		part := &t.partitions[p]
		part.reading.Lock()
		after[i] = part.cursor
		part.reading.Unlock()
		args[6+i] = t.store.EventsKey(p)
		args[6+n+i] = after[i].String()
	}
	reply, err := t.store.Raw(ctx, t.store.Blocking, buffer, args...)
	if err != nil {
		return 0, fmt.Errorf("read event logs: %w", err)
	}
	if len(reply) > maxKeptReply {
		*buffer = redisclient.Buffer{}
	}
	found, err := t.parse(reply)
	if err != nil {
		return 0, fmt.Errorf("read event logs: %w", err)
	}
	missing, err := t.confirm(ctx, found)
	if err != nil {
		return 0, fmt.Errorf("wait for replicas of events: %w", err)
	}
	for i, p := range partitions {
		if err := t.take(ctx, p, after[i], found[p], len(found) == 0); err != nil {
			return events, err
		}
		events += len(found[p])
	}
	if missing || t.withheld.Load() > 0 {
		t.hold(partitions, missing)
	}
	if missing {
		t.awaitReplicas(ctx, partitions)
	}
	return events, nil
}

// pausedAfter is how long after the last read the process is taken to have been paused: its log may have been
// trimmed meanwhile, and the next read need not fail.
const pausedAfter = 5 * time.Second

// take hands on the entries of a partition that were read after a position, unless another read
// has moved the cursor since: then they are read again. silent is true if the read brought
// nothing of any partition.
func (t *Tail) take(ctx context.Context, p int, after signal.Position, entries []redisclient.Entry, silent bool) error {
	part := &t.partitions[p]
	part.reading.Lock()
	defer part.reading.Unlock()
	if !part.attached || part.cursor != after {
		return nil
	}
	now := time.Now().Round(0)
	part.suspect, part.readAt = part.suspect || now.Sub(part.readAt) > pausedAfter, now
	if part.suspect || silent && part.awaited() {
		rolledBack, err := t.inspect(ctx, p, len(entries) > 0)
		if err != nil {
			return err
		}
		if rolledBack {
			return nil // they are read again, after those that may stand before them
		}
	}
	if len(entries) > 0 {
		t.hand(p, entries)
		// Trimming may overtake a reader that lags, but not one at the log's end, since
		// the newest entries are never trimmed.
		part.suspect = len(entries) >= t.count
	}
	return nil
}

// parse reads the reply of XREAD: a map, or in the older protocol a list of pairs.
func (t *Tail) parse(reply []byte) (map[int][]redisclient.Entry, error) {
	r := redisclient.NewReplyReader(reply)
	isMap := len(reply) > 0 && reply[0] == '%'
	n := r.Array()
	if isMap {
		n /= 2
	}
	found := make(map[int][]redisclient.Entry, min(n, len(t.byKey)))
	for ; n > 0 && r.Err == nil; n-- {
		if !isMap && r.Array() != 2 {
			r.Fail()
		}
		p, ok := t.byKey[string(r.Text())]
		entries, err := r.Entries(nil)
		if err != nil || !ok {
			return nil, redisclient.ErrReply
		}
		found[p] = entries
	}
	return found, r.Err
}

// hand gives the events of a partition to the subscribers.
func (t *Tail) hand(p int, entries []redisclient.Entry) {
	part := &t.partitions[p]
	events := make([]signal.Event, 0, len(entries))
	panics.GuardEach(t.log, panics.Tail, len(entries), func(i int) {
		if e, ok := t.store.event(p, &entries[i]); ok {
			events = append(events, e)
		}
	}, func(i int) []any { return []any{"partition", p, "at", entries[i].Position.String()} })
	if len(events) > 0 && !t.deliver(p, events) {
		t.notify(p, t.gaps) // a subscriber that panicked may have handled some events
	}
	part.cursor = entries[len(entries)-1].Position
	part.recent.add(entries)
	part.pass(part.cursor)
}

// deliver calls the subscribers and reports whether all of them returned.
func (t *Tail) deliver(p int, events []signal.Event) (ok bool) {
	ok = true
	where := func() []any {
		first, last := events[0].Position, events[len(events)-1].Position
		return []any{"partition", p, "from", first.String(), "to", last.String()}
	}
	for _, f := range t.subscribers {
		ok = panics.GuardAt(t.log, panics.Tail, func() { f(p, events) }, where) && ok
	}
	return ok
}

// notify calls the functions of OnGap or OnRollback.
func (t *Tail) notify(p int, functions []func(partition int)) {
	for _, f := range functions {
		panics.Guard(t.log, panics.Tail, func() { f(p) }, "partition", p)
	}
}
