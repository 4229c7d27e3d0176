package engine

import (
	"sync"
	"sync/atomic"
)

const (
	// countEvery is the number of messages after which a busy actor updates its counters.
	countEvery = 64
	// maxBuffer is the maximum length of a buffer of messages that is reused.
	maxBuffer = 1024
)

// mailbox holds the messages of an actor. Unlike the library's it hands messages over in batches, needs no
// memory while it is empty, and counts messages. It does not run the actor: who makes it busy must.
type mailbox struct {
	stats *kindStats

	mu         sync.Mutex
	messages   *messages     // nil while the actor is idle
	done       chan struct{} // created by ended, closed at the actor's end
	systemLeft atomic.Int32  // length of messages.system
	busy       bool          // a goroutine handles messages
	closed     bool          // the actor has ended

	suspended bool // no messages but the library's; used by the actor's own goroutine only
}

// messages are the messages of an actor and the state of the goroutine that handles them. They are
// pooled: an actor has them only while it is not idle.
type messages struct {
	// Guarded by the mailbox's mutex.
	user   []any
	system []any
	first  [2]any // the array of system, unless there are more

	// Used by the actor's own goroutine only.
	batch   []any // taken from user; handled up to next
	next    int
	handled int // messages since the last update of the counters
	current any // being handled
}

var messagePool = sync.Pool{New: func() any { return &messages{} }}

// open returns the messages; an idle actor takes them from the pool. The caller holds b.mu.
func (b *mailbox) open() *messages {
	if b.messages == nil {
		b.messages = messagePool.Get().(*messages)
	}
	return b.messages
}

// put adds a message of an actor. Unless it was accepted, the actor has ended. idle means that the caller must
// run the actor.
func (b *mailbox) put(m any) (accepted, idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false, false
	}
	// It is counted before it can be handled, so that the gauge never falls below 0.
	b.stats.mailbox.Add(1)
	box := b.open()
	box.user = append(box.user, m)
	return true, b.begin()
}

// putSystem adds a message of the library, unless the actor has ended. idle is as for put.
func (b *mailbox) putSystem(m any) (idle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	box := b.open()
	box.system = append(box.system, m)
	b.systemLeft.Store(int32(len(box.system)))
	return b.begin()
}

// begin makes the mailbox busy, and reports whether it was not. The caller holds b.mu.
func (b *mailbox) begin() bool {
	idle := !b.busy
	b.busy = true
	return idle
}

// len returns the number of messages of actors that wait.
func (b *mailbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.messages == nil {
		return 0
	}
	return len(b.messages.user)
}

// nextSystem removes the oldest message of the library. There must be one.
func (b *mailbox) nextSystem() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	box := b.messages
	m := box.system[0]
	box.system[0] = nil
	if box.system = box.system[1:]; len(box.system) == 0 {
		box.system = box.first[:0] // drops the array of a burst
	}
	b.systemLeft.Store(int32(len(box.system)))
	return m
}

// next removes the oldest message of the batch, or returns false if that is empty.
func (b *mailbox) next() (any, bool) {
	box := b.messages
	if box.next == len(box.batch) || b.suspended {
		return nil, false
	}
	if box.handled >= countEvery {
		b.count()
	}
	m := box.batch[box.next]
	box.batch[box.next] = nil
	box.next++
	box.handled++
	return m, true
}

// refill takes the messages that were put meanwhile. It returns false if there is nothing to do; then the
// goroutine must end.
func (b *mailbox) refill() bool {
	b.count()
	b.mu.Lock()
	defer b.mu.Unlock()
	box := b.messages
	if len(box.system) > 0 {
		return true
	}
	if b.suspended && !b.closed {
		b.busy = false
		return false
	}
	box.batch, box.next = box.batch[:0], 0
	if cap(box.batch) > maxBuffer {
		box.batch = nil
	}
	if len(box.user) == 0 { // idle
		b.messages, b.busy = nil, false
		messagePool.Put(box)
		return false
	}
	box.batch, box.user = box.user, box.batch
	return true
}

// count updates the counters of the kind.
func (b *mailbox) count() {
	if n := int64(b.messages.handled); n > 0 {
		b.stats.mailbox.Add(-n)
		b.stats.messages.Add(n)
		b.messages.handled = 0
	}
}

// notHandled takes the message that next has returned out of the counters of handled ones.
func (b *mailbox) notHandled() {
	b.messages.handled--
	b.stats.mailbox.Add(-1)
}

// ended returns a channel that is closed when the actor has ended.
func (b *mailbox) ended() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		if b.closed {
			close(b.done)
		}
	}
	return b.done
}

// close ends the mailbox after the actor has stopped, and calls drop with the messages left. It holds the lock
// until the counters are correct, so that callers that wait for the end read the right values.
func (b *mailbox) close(drop func(m any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if box := b.messages; box != nil {
		left := append(box.batch[box.next:], box.user...)
		box.batch, box.next, box.user, box.system = nil, 0, nil, nil
		b.systemLeft.Store(0)
		for _, m := range left {
			drop(m)
		}
		b.stats.mailbox.Add(-int64(len(left)))
		b.count()
	}
	b.finish()
}

// closeIdle ends the mailbox of an idle actor if end, which ends the actor, returns true. It reports whether
// it did.
func (b *mailbox) closeIdle(end func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy || b.closed || !end() {
		return false
	}
	b.closed = true
	b.finish()
	return true
}

// finish notifies those who wait for the end. The caller holds b.mu.
func (b *mailbox) finish() {
	b.stats.running.Add(-1)
	if b.done != nil {
		close(b.done)
	}
}
