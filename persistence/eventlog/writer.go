package eventlog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/deliveries.lua
var deliveriesSource string

//go:embed scripts/append.lua
var appendSource string

// appendScript is one script of two files: a batch may have steps about deliveries.
var appendScript = redis.NewScript(deliveriesSource + appendSource)

// Limits of a writer.
const (
	BatchOperations = 512
	batchBytes      = 1 << 20
	batchKeys       = 1 << 14 // beside the fixed ones, so that a number of two bytes names one
	// batchDeliveries are a millisecond of Redis, for which events wait.
	batchDeliveries = 100

	attemptTimeout = time.Second // of one round trip at most; less if the deadline is nearer
	probeTimeout   = 300 * time.Millisecond
	probeInterval  = 100 * time.Millisecond // between the end of a failed probe and the next
	leastBackoff   = 10 * time.Millisecond
	mostBackoff    = 250 * time.Millisecond
)

// writer appends the batches of some partitions, one batch a partition and one
// pipeline for all of them at a time.
type writer struct {
	store    *Store
	timeout  time.Duration // from enqueueing to the answer
	attempts time.Duration // of one round trip at most
	queueMax int
	replicas int
	log      *slog.Logger
	wake     chan struct{} // holds one

	mu     sync.Mutex
	queues map[int]*queue
	dirty  []*queue // those with operations
	closed bool
	// down says that the last batch failed. Until one succeeds, one operation at a
	// time is let in, to try; the others are refused at once.
	down      error
	probing   bool
	nextProbe time.Time
}

// queue holds the operations of one partition.
type queue struct {
	partition int
	keys      [8]string
	waiting   []*Operation // guarded by writer.mu
	number    int64        // of the last batch; the writer's goroutine only
}

// batch is what one call of the script is given.
type batch struct {
	queue      *queue
	operations []*Operation
	number     int64
	args       []any
	deadline   time.Time
	probe      bool
	err        error // of the last attempt
	refused    error // of the last attempt that Redis refused
	reply      string
}

func newWriter(s *Store, o LogOptions) *writer {
	return &writer{store: s, timeout: o.AppendTimeout, attempts: attemptTimeout, queueMax: o.Queue, replicas: o.WaitReplicas, log: o.Log,
		wake: make(chan struct{}, 1), queues: map[int]*queue{}}
}

func (w *writer) adopt(p int, name string) {
	w.queues[p] = &queue{partition: p, keys: fixedKeys(p, name)}
}

// enqueue hands o to the writer, which answers through o.done.
func (w *writer) enqueue(p int, o *Operation) error {
	o.enqueued = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[p]
	switch {
	case w.closed:
		return errClosed
	case w.down != nil && (w.probing || o.enqueued.Before(w.nextProbe)):
		return w.down
	case len(q.waiting) >= w.queueMax:
		return fmt.Errorf("%d operations wait in partition %d", len(q.waiting), p)
	}
	w.probing = w.down != nil
	if len(q.waiting) == 0 {
		w.dirty = append(w.dirty, q)
	}
	q.waiting = append(q.waiting, o)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes until the writer is closed and everything is answered.
func (w *writer) run() {
	for {
		batches, end := w.collect()
		if len(batches) > 0 {
			if !panics.Guard(w.log, panics.Log, func() { w.write(batches) }) {
				w.abandon(batches)
			}
			continue
		}
		if end {
			return
		}
		<-w.wake
	}
}

// abandon answers who still waits for batches whose writing panicked. It is not known
// whether they are in the log.
func (w *writer) abandon(batches []*batch) {
	w.mu.Lock()
	w.probing = false // the next operation may try
	w.mu.Unlock()
	for _, b := range batches {
		for _, o := range b.operations {
			select {
			case o.Done <- outcome{Err: fmt.Errorf("append to partition %d: %w", b.queue.partition, panics.ErrPanicked)}:
			default: // it was answered before
			}
		}
	}
}

// collect takes what waits: one batch of each partition that has something.
func (w *writer) collect() (batches []*batch, end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.dirty[:0]
	for _, q := range w.dirty {
		n, size, keys, deliveries := 0, 0, 0, 0
		for n < len(q.waiting) && n < BatchOperations && (n == 0 || size < batchBytes) {
			o := q.waiting[n]
			if n > 0 && (keys+len(o.keys) > batchKeys || o.Deliveries > 0 && deliveries+o.Deliveries > batchDeliveries) {
				break
			}
			size += o.bytes
			deliveries += o.Deliveries
			keys += len(o.keys)
			n++
		}
		b := &batch{queue: q, operations: append([]*Operation(nil), q.waiting[:n]...), probe: w.down != nil}
		b.deadline = b.operations[0].enqueued.Add(w.timeout)
		if b.probe {
			b.deadline = time.Now().Add(min(w.timeout, probeTimeout))
		}
		batches = append(batches, b)
		left := copy(q.waiting, q.waiting[n:])
		clear(q.waiting[left:])
		q.waiting = q.waiting[:left]
		if left > 0 {
			rest = append(rest, q)
		}
	}
	w.dirty = rest
	return batches, w.closed && len(batches) == 0
}

// write carries out batches, again and again where the outcome is not known, until
// each has succeeded or its deadline has passed.
func (w *writer) write(batches []*batch) {
	for _, b := range batches {
		b.queue.number++
		b.number = b.queue.number
		b.encode()
	}
	backoff := leastBackoff
	for {
		w.attempt(batches)
		var again []*batch
		reloaded := false
		now := time.Now()
		for _, b := range batches {
			if redisclient.FaultOf(b.err) != nil {
				b.refused = b.err
			}
			switch {
			case b.err == nil:
				w.recovered() // before callers know, who may come back at once
				b.succeed(w.store)
			case !retriable(b.err):
				w.recovered()
				b.fail(fmt.Errorf("append to partition %d: %w", b.queue.partition, b.err))
			case redis.HasErrorPrefix(b.err, "NOSCRIPT") && now.Before(b.deadline):
				reloaded = true
				again = append(again, b)
			case now.Add(backoff).Before(b.deadline):
				again = append(again, b)
			default:
				w.failed(b)
			}
		}
		if len(again) == 0 {
			return
		}
		batches = again
		if reloaded && w.load(batches[0]) {
			continue
		}
		w.log.Debug("batch is sent again", "partition", batches[0].queue.partition, "err", batches[0].err)
		time.Sleep(backoff)
		backoff = min(2*backoff, mostBackoff)
	}
}

// failed answers b, whose deadline has passed, and refuses what waits.
func (w *writer) failed(b *batch) {
	if b.refused != nil {
		b.err = b.refused // it says more than that the last, short attempt took too long
	}
	err := fmt.Errorf("append to partition %d: %w", b.queue.partition, b.err)
	w.mu.Lock()
	if w.down == nil {
		w.log.Warn("event log cannot be written", "partition", b.queue.partition, "err", b.err)
	}
	w.down, w.probing = err, false
	w.nextProbe = time.Now().Add(probeInterval)
	var waiting []*Operation
	for _, q := range w.dirty {
		waiting = append(waiting, q.waiting...)
		clear(q.waiting)
		q.waiting = q.waiting[:0]
	}
	w.dirty = w.dirty[:0]
	w.mu.Unlock()
	b.fail(redisclient.Unavailable(err))
	for _, o := range waiting {
		o.Done <- outcome{Err: redisclient.Unavailable(err)}
	}
}

// recovered notes that Redis has answered.
func (w *writer) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		w.log.Info("event log can be written again")
	}
	w.down, w.probing = nil, false
}

// client returns where batches are sent: the server, or the partition's master. All
// batches of one writer of a cluster are of one partition.
func (w *writer) client(ctx context.Context, b *batch, timeout time.Duration) (*redis.Client, error) {
	switch c := w.store.RDB.(type) {
	case *redis.Client:
		return c.WithTimeout(timeout), nil
	case *redis.ClusterClient:
		node, err := c.MasterForKey(ctx, b.queue.keys[0])
		if err != nil {
			return nil, err
		}
		return node.WithTimeout(timeout), nil
	}
	return nil, fmt.Errorf("a log cannot write through %T", w.store.RDB)
}

// attempt sends batches in one pipeline and notes how each of them ended.
func (w *writer) attempt(batches []*batch) {
	timeout := w.attempts
	for _, b := range batches {
		timeout = min(timeout, time.Until(b.deadline))
	}
	timeout = max(timeout, leastBackoff)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client, err := w.client(ctx, batches[0], timeout)
	if err != nil {
		for _, b := range batches {
			b.err = err
		}
		return
	}
	pipe := client.Pipeline()
	replies := make([]*redis.Cmd, len(batches))
	for i, b := range batches {
		replies[i] = pipe.Do(ctx, b.args...)
	}
	var acknowledged *redis.Cmd
	if w.replicas > 0 {
		// On the connection of the writes, which is what WAIT goes by.
		acknowledged = pipe.Do(ctx, redisclient.WaitFor(w.replicas, timeout/2)...)
	}
	start := time.Now()
	err = redisclient.Execute(ctx, pipe) // of the first command that failed; each has its own
	if m := w.store.Metrics; m != nil {
		// A client with another timeout has lost the hooks.
		m.Observe("evalsha", start, err)
	}
	var unconfirmed error
	if acknowledged != nil {
		unconfirmed = redisclient.Lagging(acknowledged, w.replicas)
	}
	for i, b := range batches {
		if b.reply, b.err = replies[i].Text(); b.err == nil {
			b.err = unconfirmed
		}
	}
	if c, ok := w.store.RDB.(*redis.ClusterClient); ok && batches[0].err != nil {
		c.ReloadState(ctx)
	}
}

// load gives the script to the server, which has lost it in a restart. It says
// whether that went well.
func (w *writer) load(b *batch) bool {
	ctx, cancel := context.WithTimeout(context.Background(), w.attempts)
	defer cancel()
	client, err := w.client(ctx, b, w.attempts)
	if err != nil {
		return false
	}
	return appendScript.Load(ctx, client).Err() == nil
}

// retriable says that err may pass by itself, so that the batch is sent again: all
// but answers that name a fault of the batch.
func retriable(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	if redisclient.FaultOf(err) != nil {
		return true
	}
	text := answer.Error()
	for _, fault := range []string{"WRONGTYPE", "CROSSSLOT", "OLDBATCH"} {
		if strings.HasPrefix(text, fault) {
			return false
		}
	}
	return !strings.HasPrefix(text, "ERR ") || strings.Contains(text, "max number of clients")
}

// encode makes the arguments of the script.
func (b *batch) encode() {
	size, values, keys := 0, 0, 0
	for _, o := range b.operations {
		size += 9 + len(o.guards) + len(o.steps)
		values += len(o.values) + len(o.args)
		keys += len(o.keys)
	}
	fixed := &b.queue.keys
	b.args = make([]any, 0, 5+len(fixed)+keys+values)
	b.args = append(b.args, "EVALSHA", appendScript.Hash(), len(fixed)+keys)
	// Pointers, since a string in an interface is one more piece of memory.
	for i := range fixed {
		b.args = append(b.args, &fixed[i])
	}
	program := make([]byte, 0, size)
	base := len(fixed) + 1
	for _, o := range b.operations {
		program = o.appendProgram(program, base)
		base += len(o.keys)
		for i := range o.keys {
			b.args = append(b.args, &o.keys[i])
		}
	}
	b.args = append(b.args, b.number, program)
	for _, o := range b.operations {
		for i := range o.values {
			b.args = append(b.args, &o.values[i])
		}
		for i := range o.args {
			b.args = append(b.args, &o.args[i])
		}
	}
}

// succeed answers the operations by the script's reply.
func (b *batch) succeed(s *Store) {
	first, stamp, refused, err := parseBatchReply(b.reply)
	if err != nil {
		b.fail(fmt.Errorf("append to partition %d: %w", b.queue.partition, err))
		return
	}
	left := parseLeft(b.reply)
	if !first.IsZero() {
		events := 0
		for i, o := range b.operations {
			if _, no := refused[i]; !no {
				events += o.events
			}
		}
		s.appended[b.queue.partition].note(first.Plus(events - 1))
	}
	at, next := stamp, first
	for i, o := range b.operations {
		if r, no := refused[i]; no {
			o.Done <- outcome{Err: r.of(o, b.queue.partition)}
			continue
		}
		if o.events == 0 {
			o.Done <- outcome{position: at, Left: left[i]}
			continue
		}
		o.Done <- outcome{position: next, Left: left[i]}
		at = next.Plus(o.events - 1)
		next = next.Plus(o.events)
	}
}

func (b *batch) fail(err error) {
	for _, o := range b.operations {
		o.Done <- outcome{Err: err}
	}
}

// refusal says which guard has refused an operation.
type refusal struct {
	guard    int
	sequence int64 // that is stored; of guardSequence only
}

// of returns the outcome for the caller of o.
func (r refusal) of(o *Operation, partition int) error {
	if r.guard >= len(o.refusals) {
		return fmt.Errorf("append to partition %d: guard %d is not known", partition, r.guard)
	}
	err := o.refusals[r.guard]
	if errors.Is(err, errChanged) {
		return signal.Changed(r.sequence)
	}
	return err
}

// parseBatchReply reads what scripts/append.lua returns. refused is by operation.
func parseBatchReply(reply string) (first, stamp signal.Position, refused map[int]refusal, err error) {
	words := strings.Split(reply, " ")
	if len(words) < 2 {
		return first, stamp, nil, fmt.Errorf("reply %q of the script is not valid", reply)
	}
	for i, p := range []*signal.Position{&first, &stamp} {
		var ok bool
		if *p, ok = signal.ParsePosition(words[i]); !ok && words[i] != "-" {
			return first, stamp, nil, fmt.Errorf("reply %q of the script is not valid", reply)
		}
	}
	for _, word := range words[2:] {
		if strings.Contains(word, ".") { // see parseLeft
			continue
		}
		operation, guard, ok := strings.Cut(word, ":")
		guard, stored, more := strings.Cut(guard, "=")
		o, err := strconv.Atoi(operation)
		g, err2 := strconv.Atoi(guard)
		sequence, ok2 := int64(0), true
		if more {
			sequence, ok2 = codec.ParseDigits([]byte(stored))
		}
		if !ok || !ok2 || err != nil || err2 != nil {
			return first, stamp, nil, fmt.Errorf("reply %q of the script is not valid", reply)
		}
		if refused == nil {
			refused = map[int]refusal{}
		}
		refused[o] = refusal{g, sequence}
	}
	return first, stamp, refused, nil
}

// parseLeft reads the deliveries that a batch has left out of the script's reply: by
// operation, their numbers in it.
func parseLeft(reply string) map[int][]int {
	var left map[int][]int
	if !strings.Contains(reply, ".") {
		return left // nearly always
	}
	for word := range strings.FieldsSeq(reply) {
		operation, item, ok := strings.Cut(word, ".")
		o, err := strconv.Atoi(operation)
		i, err2 := strconv.Atoi(item)
		if !ok || err != nil || err2 != nil {
			continue
		}
		if left == nil {
			left = map[int][]int{}
		}
		left[o] = append(left[o], i)
	}
	return left
}

// Together carries out operations of partition p as one batch, as a writer would make it:
// for tests of the steps that records need.
func Together(ctx context.Context, rdb redis.UniversalClient, p int, operations ...*Operation) error {
	b := &batch{queue: &queue{partition: p, keys: fixedKeys(p, "test"), number: 1}, number: 1, operations: operations}
	b.encode()
	if err := appendScript.Load(ctx, rdb).Err(); err != nil {
		return err
	}
	var err error
	if b.reply, err = rdb.Do(ctx, b.args...).Text(); err != nil {
		return err
	}
	b.succeed(&Store{appended: make([]newest, p+1)})
	return nil
}
