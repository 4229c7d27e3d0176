package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Limits of a writer.
const (
	attemptTimeout = time.Second            // of the first round trip; each retry doubles it
	probeTimeout   = 300 * time.Millisecond // of the first probe; each that is not answered doubles it
	probeInterval  = 100 * time.Millisecond // between the end of a failed probe and the next
	minBackoff     = 10 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

// writer appends the operations of some partitions: one batch of each and one pipeline for
// all of them at a time.
type writer struct {
	store    *Store
	timeout  time.Duration // from enqueueing to the answer
	attempts time.Duration // of the first round trip at most
	queueMax int
	log      *slog.Logger
	wake     chan struct{} // holds one

	mu     sync.Mutex
	queues map[int]*queue
	dirty  []*queue // those with operations
	closed bool
	// down is why the last batch failed. Until one succeeds, one operation at a time is
	// accepted as a probe, and the others are refused at once.
	down      error
	probing   bool
	nextProbe time.Time
	probe     time.Duration // how long the next one may take
}

func newWriter(s *Store, o LogOptions) *writer {
	return &writer{store: s, timeout: o.AppendTimeout, attempts: attemptTimeout, queueMax: o.Queue,
		log: o.Log, wake: make(chan struct{}, 1), queues: map[int]*queue{}, probe: probeTimeout}
}

func (w *writer) adopt(k redisclient.Keys, p int, name string) {
	w.queues[p] = &queue{partition: p, keys: fixedKeys(k, p, name), confirm: k.ConfirmKey(p)}
}

// enqueue hands o to the writer, which answers through o.Done.
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
	w.wakeUp()
	return nil
}

// wakeUp lets run collect again.
func (w *writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wakeUp()
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

// abandon answers the operations of batches whose writing panicked, unless they were
// answered before. It is not known whether they are in the log.
func (w *writer) abandon(batches []*batch) {
	w.probeAgain()
	for _, b := range batches {
		for _, o := range b.operations {
			select {
			case o.Done <- outcome{Err: b.failure(panics.ErrPanicked)}:
			default:
			}
		}
	}
}

// probeAgain lets the next operation be a probe, after one that has found nothing out.
func (w *writer) probeAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probing = false
}

// collect makes a batch of what waits in each partition. end reports whether the writer is
// closed and has answered everything.
func (w *writer) collect() (batches []*batch, end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.dirty[:0]
	for _, q := range w.dirty {
		b := &batch{queue: q, operations: q.take(q.next()), probe: w.down != nil}
		b.deadline = b.operations[0].enqueued.Add(w.timeout)
		if b.probe {
			b.deadline = time.Now().Add(min(w.timeout, w.probe))
		}
		batches = append(batches, b)
		if len(q.waiting) > 0 {
			rest = append(rest, q)
		}
	}
	w.dirty = rest
	return batches, w.closed && len(batches) == 0
}

// write sends batches, again while the outcome is not known, until each has succeeded,
// has been refused or has passed its deadline.
func (w *writer) write(batches []*batch) {
	confirm := batches[0].queue.confirm // on a cluster all are of one partition
	if _, err := w.store.Replicas.Waits(confirm); err != nil {
		w.probeAgain()
		for _, b := range batches {
			b.fail(redisclient.Unavailable(b.failure(err)))
		}
		return
	}
	for _, b := range batches {
		b.queue.number++
		b.number = b.queue.number
		b.encode()
	}
	retries := backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	pause := retries.Next()
	for timeout := w.attempts; ; timeout *= 2 { // a slow server must not fail every attempt
		w.attempt(batches, timeout)
		var again []*batch
		reloaded := false
		now := time.Now()
		for _, b := range batches {
			if redisclient.FaultOf(b.err) != nil {
				b.refused = b.err
			}
			switch {
			case b.err == nil:
				w.recovered() // first: a caller may append again as soon as it is answered
				b.succeed(w.store)
			case !retriable(b.err):
				w.recovered()
				b.fail(b.failure(b.err))
			case redis.HasErrorPrefix(b.err, "NOSCRIPT") && now.Before(b.deadline):
				reloaded = true
				again = append(again, b)
			case now.Add(pause).Before(b.deadline):
				again = append(again, b)
			default:
				w.failed(b)
			}
		}
		if len(again) == 0 {
			return
		}
		batches = again
		if reloaded && w.load(batches[0], timeout) {
			continue
		}
		w.log.Debug("batch is sent again", "partition", batches[0].queue.partition, "err", batches[0].err)
		time.Sleep(pause)
		pause = retries.Next()
	}
}

// failed answers b, whose deadline has passed, and everything that waits.
func (w *writer) failed(b *batch) {
	if b.refused != nil {
		b.err = b.refused // a better reason than that the last, short attempt timed out
	}
	err := b.failure(b.err)
	missing := errors.Is(w.store.Replicas.Unconfirmed(b.queue.confirm, b.err), redisclient.ErrReplicas)
	w.mu.Lock()
	if !missing { // for replicas the client probes
		if w.down == nil {
			w.log.Warn("event log cannot be written", "partition", b.queue.partition, "err", b.err)
		}
		w.down = err
	}
	if b.probe && timedOut(b.err) { // a slow server must not fail every probe
		w.probe = min(2*w.probe, w.timeout)
	}
	w.probing, w.nextProbe = false, time.Now().Add(probeInterval)
	var waiting []*Operation
	for _, q := range w.dirty {
		waiting = append(waiting, q.take(len(q.waiting))...)
	}
	w.dirty = w.dirty[:0]
	w.mu.Unlock()
	b.fail(redisclient.Unavailable(err))
	for _, o := range waiting {
		o.Done <- outcome{Err: redisclient.Unavailable(err)}
	}
}

// recovered records that Redis has answered.
func (w *writer) recovered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		w.log.Info("event log can be written again")
	}
	w.down, w.probing, w.probe = nil, false, probeTimeout
}

// timedOut reports whether Redis has not answered in time.
func timedOut(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// client returns the connection for batches like b: to the server, or to the partition's
// master. On a cluster all batches of a writer are of one partition.
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
	return nil, fmt.Errorf("log cannot write through %T", w.store.RDB)
}

// attempt sends batches in one pipeline and records the reply or the error of each.
func (w *writer) attempt(batches []*batch, timeout time.Duration) {
	for _, b := range batches {
		timeout = min(timeout, time.Until(b.deadline))
	}
	timeout = max(timeout, minBackoff)
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
	// A batch that was sent before must be confirmed, even while replicas are missing.
	waits, err := w.store.Replicas.Waits(batches[0].queue.confirm)
	waits = waits || err != nil
	var acknowledged *redis.Cmd
	if waits { // WAIT is about the writes of its own connection
		acknowledged = pipe.Do(ctx, redisclient.WaitFor(w.store.Replicas.Want, timeout/2)...)
	}
	start := time.Now()
	err = redisclient.Execute(ctx, pipe) // the first error; each command has its own
	if m := w.store.Metrics; m != nil {  // a client with a timeout of its own has no hooks
		m.Observe("evalsha", start, err)
	}
	var unconfirmed error
	if waits {
		unconfirmed = redisclient.Lagging(acknowledged, w.store.Replicas.Want)
	}
	for i, b := range batches {
		if b.reply, b.err = replies[i].Text(); b.err == nil {
			b.confirmed, b.err = waits, unconfirmed
		}
		w.accept(b)
	}
	if c, ok := w.store.RDB.(*redis.ClusterClient); ok && batches[0].err != nil {
		c.ReloadState(ctx)
	}
}

// accept lets b succeed without replicas if that is configured.
func (w *writer) accept(b *batch) {
	if w.store.Replicas.Optional() && errors.Is(b.err, redisclient.ErrReplicas) {
		b.confirmed, b.err = false, w.store.Replicas.Unconfirmed(b.queue.confirm, b.err)
	}
	if b.err == nil && !b.confirmed && w.store.Replicas.Want > 0 {
		w.store.Replicas.CountUnconfirmed(len(b.operations))
	}
}

// load gives the scripts to a server that has lost them in a restart, and reports whether
// that succeeded.
func (w *writer) load(b *batch, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client, err := w.client(ctx, b, timeout)
	if err != nil {
		return false
	}
	return loadScripts(ctx, client) == nil
}

// retriable reports whether the batch is sent again after err: always, unless Redis has
// found a fault in the batch itself.
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
