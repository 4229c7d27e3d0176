package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	// Pause is the shortest time from one read to the next; default 1 ms. A read costs Redis
	// as much as some ten events, so under load they are read together. An event that comes
	// after the pause is read at once.
	Pause time.Duration
	Log   *slog.Logger // nil: the Store's
}

// Tail follows the event logs of all partitions, without a consumer group: every
// node reads everything.
//
// Subscribers receive every event that is appended after Run has attached, once, in the order
// of its partition's log, from one goroutine at a time, also when Redis was unavailable or
// restarted meanwhile. If events were removed before they were read, the functions of OnGap
// are called, and delivery continues after the gap. If Redis has lost events that were read, or
// that this process has appended, the functions of OnRollback are called first; delivery then
// continues after the last common event, even if positions are below those of the lost ones.
//
// With Options.WaitReplicas subscribers receive an event once replicas have it. While replicas are
// missing, events are withheld unless Options.AcceptWithoutReplicas is set.
//
// Head, Wait and Attached are safe for concurrent use.
type Tail struct {
	store *Store
	count int
	pause time.Duration
	log   *slog.Logger

	subscribers []func(partition int, events []signal.Event)
	gaps        []func(partition int)
	rollbacks   []func(partition int)
	delivering  sync.Mutex // held while subscribers are called

	partitions []tailPartition
	connected  []atomic.Bool // by reading goroutine
	byKey      map[string]int
}

// tailPartition is how far a partition has been read.
type tailPartition struct {
	// The reading goroutine's own.
	cursor  signal.Position
	suspect bool // entries may have been removed unread since the last inspection
	recent  recent

	holding bool // the last read withheld events

	mu       sync.Mutex // guards the rest
	passed   signal.Position
	withheld bool // events are, until replicas have them
	waiters  []waiter
	head     headQuestions
}

// waiter is a caller of Wait.
type waiter struct {
	position signal.Position
	passed   chan struct{} // closed when position has been passed
}

// NewTail returns a tail of s. Subscribe, then Run.
func NewTail(s *Store, o TailOptions) *Tail {
	t := &Tail{store: s, count: cmp.Or(o.Count, 1000), pause: cmp.Or(o.Pause, time.Millisecond),
		log: cmp.Or(o.Log, s.Log), partitions: make([]tailPartition, s.Partitions()), byKey: map[string]int{}}
	for p := range t.partitions {
		t.byKey[redisclient.EventsKey(p)] = p
	}
	readers := 1
	if _, cluster := s.Blocking.(*redis.ClusterClient); cluster {
		// One command cannot read streams of different slots.
		readers = s.Partitions()
	}
	t.connected = make([]atomic.Bool, readers)
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

// Attached reports whether Run follows the logs and Redis answered its last reads.
func (t *Tail) Attached() bool {
	for i := range t.connected {
		if !t.connected[i].Load() {
			return false
		}
	}
	return true
}

// Run attaches to the ends of the logs and follows them until ctx ends. It returns the error
// of ctx, within the second that a blocking read lasts.
func (t *Tail) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i := range t.connected {
		var partitions []int
		for p := i; p < len(t.partitions); p += len(t.connected) {
			partitions = append(partitions, p)
		}
		wg.Go(func() {
			t.follow(ctx, partitions, &t.connected[i])
			t.connected[i].Store(false)
		})
	}
	wg.Wait()
	return ctx.Err()
}

// follow reads partitions until ctx ends.
func (t *Tail) follow(ctx context.Context, partitions []int, connected *atomic.Bool) {
	step, failure, retries := t.attach, "", backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	for ctx.Err() == nil {
		start := time.Now()
		var err error
		if !panics.Guard(t.log, panics.Tail, func() { err = step(ctx, partitions) }) {
			err = panics.ErrPanicked
		}
		if err == nil {
			if !connected.Swap(true) {
				t.log.Info("event logs are followed", "component", "tail")
			}
			step, failure = t.read, ""
			retries.Reset()
			backoff.Sleep(ctx, t.pause-time.Since(start))
			continue
		}
		if ctx.Err() != nil {
			return
		}
		connected.Store(false)
		if text := err.Error(); text != failure {
			failure = text
			t.log.Warn("event logs cannot be read", "component", "tail", "err", err)
		}
		for _, p := range partitions {
			t.partitions[p].suspect = true
		}
		if c, ok := t.store.Blocking.(*redis.ClusterClient); ok {
			c.ReloadState(ctx)
		}
		retries.Wait(ctx)
	}
}

// attach sets the cursors to the ends of the logs.
func (t *Tail) attach(ctx context.Context, partitions []int) error {
	for _, p := range partitions {
		end, err := t.store.LastEvent(ctx, p)
		if err != nil {
			return err
		}
		if end.IsZero() { // perhaps it had entries before
			info, err := t.store.ReadInfo(ctx, redisclient.EventsKey(p))
			if err != nil {
				return err
			}
			if info.Length == 0 {
				end = info.Generated
			}
		}
		part := &t.partitions[p]
		part.cursor, part.suspect = end, false
		part.recent = recent{base: end}
		part.pass(end)
	}
	return nil
}

// read waits for events, for at most BlockTimeout, and hands them on.
func (t *Tail) read(ctx context.Context, partitions []int) error {
	n := len(partitions)
	args := make([]any, 6+2*n)
	copy(args, []any{"XREAD", "COUNT", t.count, "BLOCK", redisclient.BlockTimeout.Milliseconds(), "STREAMS"})
	for i, p := range partitions {
		args[6+i] = redisclient.EventsKey(p)
		args[6+n+i] = t.partitions[p].cursor.String()
	}
	reply, err := t.store.Raw(ctx, t.store.Blocking, nil, args...)
	if err != nil {
		return fmt.Errorf("read event logs: %w", err)
	}
	found, err := t.parse(reply)
	if err != nil {
		return fmt.Errorf("read event logs: %w", err)
	}
	missing, err := t.confirm(ctx, found)
	if err != nil {
		return fmt.Errorf("wait for replicas of events: %w", err)
	}
	for _, p := range partitions {
		part := &t.partitions[p]
		if part.suspect || len(found) == 0 && part.awaited() {
			rolledBack, err := t.inspect(ctx, p, len(found[p]) > 0)
			if err != nil {
				return err
			}
			if rolledBack {
				continue // they are read again, after those that may stand before them
			}
		}
		if entries := found[p]; len(entries) > 0 {
			t.hand(p, entries)
			// Trimming may overtake a reader that lags, but not one at the log's end, since
			// the newest entries are never trimmed.
			part.suspect = len(entries) >= t.count
		}
	}
	if first := &t.partitions[partitions[0]]; missing || first.holding {
		first.holding = missing
		t.hold(partitions, missing)
	}
	if missing {
		t.awaitReplicas(ctx, partitions)
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
	t.delivering.Lock()
	defer t.delivering.Unlock()
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

// inspect finds out whether entries after the cursor were removed before they were read, and
// notifies the subscribers. found is true if there are entries to hand on, rolledBack if they
// must be read again.
func (t *Tail) inspect(ctx context.Context, p int, found bool) (rolledBack bool, err error) {
	part := &t.partitions[p]
	appended := t.store.appended[p].position() // first, so that Retains sees it
	retained, info, err := t.store.Retains(ctx, p, part.cursor)
	if err != nil {
		return false, err
	}
	lost := !retained && wentBack(info, part.cursor)
	if !lost && part.cursor.Compare(appended) < 0 {
		if lost, err = t.store.lost(ctx, p, appended); err != nil {
			return false, err
		}
	}
	if lost {
		return true, t.rollBack(ctx, p, info)
	}
	if !retained {
		t.log.Warn("events were removed before they were read", "component", "tail", "partition", p,
			"after", part.cursor.String())
		t.notify(p, t.gaps)
	}
	switch {
	case !info.Exists:
		part.cursor = signal.Position{}
	case info.Complete && !found && info.Last.Compare(part.cursor) <= 0:
		// Everything after the cursor was removed: no caller may wait for it.
		part.cursor = info.Generated
	}
	part.suspect = false
	if !found {
		part.pass(part.cursor)
	}
	return false, nil
}

// rollBack goes back to the last event that both the tail and the log have, and notifies the
// subscribers of the loss of the others.
func (t *Tail) rollBack(ctx context.Context, p int, info redisclient.StreamInfo) error {
	part := &t.partitions[p]
	common := signal.Position{}
	if info.Exists {
		var err error
		if common, err = t.common(ctx, p, info); err != nil {
			return err
		}
	}
	t.log.Warn("Redis has lost events that it had acknowledged", "component", "tail", "partition", p,
		"read", part.cursor.String(), "left", common.String())
	t.store.appended[p].reset()
	t.store.confirmed[p].reset()
	part.cursor, part.suspect = common, false
	part.recent.cut(common)
	t.notify(p, t.rollbacks)
	t.notify(p, t.gaps)
	part.pass(common)
	return nil
}

// common returns the position of the last event of the log that was read together with all
// before it.
func (t *Tail) common(ctx context.Context, p int, info redisclient.StreamInfo) (signal.Position, error) {
	part := &t.partitions[p]
	known := part.recent
	after, limit := "("+known.base.String(), len(known.positions)+1
	entries, err := t.store.ReadRange(ctx, redisclient.EventsKey(p), after, part.cursor.String(), limit)
	if err != nil {
		return signal.Position{}, redisclient.Unavailable(err)
	}
	at := known.base
	for i := range entries {
		if !known.has(entries[i].Position) {
			break
		}
		at = entries[i].Position
	}
	if info.Complete && info.Generated.Compare(at) < 0 {
		return info.Generated, nil // before everything that the tail remembers
	}
	return at, nil
}

// notify calls the functions of OnGap or OnRollback.
func (t *Tail) notify(p int, functions []func(partition int)) {
	t.delivering.Lock()
	defer t.delivering.Unlock()
	for _, f := range functions {
		panics.Guard(t.log, panics.Tail, func() { f(p) }, "partition", p)
	}
}

// passed returns the position up to which subscribers have been given the events of a
// partition.
func (t *Tail) passed(partition int) signal.Position {
	part := &t.partitions[partition]
	part.mu.Lock()
	defer part.mu.Unlock()
	return part.passed
}

// pass records that subscribers have been given everything up to p.
func (part *tailPartition) pass(p signal.Position) {
	part.mu.Lock()
	defer part.mu.Unlock()
	part.passed = p
	if len(part.waiters) == 0 {
		return
	}
	rest := part.waiters[:0]
	for _, w := range part.waiters {
		if w.position.Compare(p) <= 0 {
			close(w.passed)
		} else {
			rest = append(rest, w)
		}
	}
	clear(part.waiters[len(rest):])
	part.waiters = rest
}

// awaited reports whether a caller waits for an event.
func (part *tailPartition) awaited() bool {
	part.mu.Lock()
	defer part.mu.Unlock()
	return len(part.waiters) > 0
}

// Wait returns when subscribers have been given everything up to p, which Head or Append has
// returned, or what replicas have of it while they are missing. KindUnavailable: ctx ended first.
func (t *Tail) Wait(ctx context.Context, partition int, p signal.Position) error {
	part := &t.partitions[partition]
	part.mu.Lock()
	if p.Compare(part.passed) <= 0 || t.unreachable(partition, p) {
		part.mu.Unlock()
		return nil
	}
	w := waiter{p, make(chan struct{})}
	part.waiters = append(part.waiters, w)
	part.mu.Unlock()
	select {
	case <-w.passed:
		return nil
	case <-ctx.Done():
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	for i := range part.waiters {
		if part.waiters[i].passed == w.passed {
			part.waiters = append(part.waiters[:i], part.waiters[i+1:]...)
			break
		}
	}
	return redisclient.Unavailable(fmt.Errorf("wait for event %v of partition %d: %w", p, partition, ctx.Err()))
}
