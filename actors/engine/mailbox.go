package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// The mailbox of a cell. Unlike the library's it takes messages in batches, needs no
// memory while it is empty, counts messages, and delivers none to an actor that is
// stopping.

const (
	// countEvery is the number of messages after which a busy actor updates its counters.
	countEvery = 64
	// maxBuffer is the maximum length of a buffer of messages that is reused.
	maxBuffer = 1024
)

// mailbox holds the messages of an actor and the state of the goroutine that handles them. Mailboxes are
// pooled: an actor has one only while it is not idle.
type mailbox struct {
	// Guarded by the cell's mutex.
	user   []any
	system []any
	first  [2]any // the array of system, unless there are more

	// Used by the actor's own goroutine only.
	batch   []any // taken from user; handled up to next
	next    int
	handled int // messages since the last update of the counters
	message any // being handled
}

var mailboxes = sync.Pool{New: func() any { return &mailbox{} }}

// open returns the mailbox; an idle actor takes one from the pool. The caller holds c.mu.
func (c *cell) open() *mailbox {
	if c.box == nil {
		c.box = mailboxes.Get().(*mailbox)
	}
	return c.box
}

// poison stops the actor that reads it.
type poison struct{}

// outcome is the result of a Go function.
type outcome struct {
	incarnation uint32
	message     any
	failure     *goFailure
}

// goFailure is a panic of a Go function, on its way to its actor.
type goFailure struct {
	reason any
	stack  []byte
}

// post adds a message to the mailbox.
func (c *cell) post(m any) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.deadLetter(m)
		return
	}
	// It is counted before it can be handled, so that the gauge never falls below 0.
	c.stats.mailbox.Add(1)
	box := c.open()
	box.user = append(box.user, m)
	idle := !c.scheduled
	c.scheduled = true
	c.mu.Unlock()
	if idle {
		c.sys.work.run(c.run)
	}
}

// deadLetter counts a message that arrived after the actor's end. Timers, results of its
// own goroutines and a second poison do not count.
func (c *cell) deadLetter(m any) {
	switch m := m.(type) {
	case *outcome:
		c.logLost(m)
		return
	case *timer, poison:
		return
	}
	c.stats.dead.Add(1)
	c.sys.log.Debug("dead letter", "actor", c.name, "kind", string(c.stats.kind), "type", typeOf{m})
}

// typeOf is logged as the type of a message, which is formatted only if it is logged.
type typeOf struct{ message any }

// LogValue implements slog.LogValuer.
func (t typeOf) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%T", t.message)) }

// PostUserMessage implements actor.Mailbox.
func (c *cell) PostUserMessage(m any) { c.post(m) }

// PostSystemMessage implements actor.Mailbox.
func (c *cell) PostSystemMessage(m any) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	box := c.open()
	box.system = append(box.system, m)
	c.systemLeft.Store(int32(len(box.system)))
	idle := !c.scheduled
	c.scheduled = true
	c.mu.Unlock()
	if idle {
		c.sys.work.run(c.run)
	}
}

// RegisterHandlers implements actor.Mailbox. It is called once, before Start.
func (c *cell) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	c.lib = invoker.(libraryContext)
	c.lib.Actor().(*shell).c = c
}

// Start implements actor.Mailbox.
func (c *cell) Start() {}

// UserMessageCount implements actor.Mailbox.
func (c *cell) UserMessageCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.box == nil {
		return 0
	}
	return len(c.box.user)
}

// ended returns a channel that is closed when the actor has ended.
func (c *cell) ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.closed {
			close(c.done)
		}
	}
	return c.done
}

// close ends the mailbox after the actor has stopped. It holds the lock until the
// counters are correct, so that callers that wait for the end read the right values.
func (c *cell) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
}

func (c *cell) closeLocked() {
	c.closed = true
	if box := c.box; box != nil {
		left := append(box.batch[box.next:], box.user...)
		box.batch, box.next, box.user, box.system = nil, 0, nil, nil
		c.systemLeft.Store(0)
		for _, m := range left {
			c.deadLetter(m)
		}
		c.stats.mailbox.Add(-int64(len(left)))
		c.count()
	}
	c.stats.running.Add(-1)
	if c.done != nil {
		close(c.done)
	}
}

// run handles messages until none is left.
func (c *cell) run() {
	for c.work() {
	}
}

// work handles messages until none is left, or until the actor panics: then it returns
// true, and the library restarts or stops the actor.
func (c *cell) work() (again bool) {
	defer func() {
		if reason := recover(); reason != nil {
			c.logPanic(c.box.message, reason)
			c.box.message = nil
			c.lib.EscalateFailure(reason, c)
			again = true
		}
	}()
	box := c.box
	for {
		if c.systemLeft.Load() > 0 {
			c.handleSystem()
			continue
		}
		if box.next == len(box.batch) || c.suspended {
			if !c.refill() {
				return false
			}
			continue
		}
		m := box.batch[box.next]
		box.batch[box.next] = nil
		box.next++
		box.handled++
		c.handleUser(m)
		if box.handled >= countEvery {
			c.count()
		}
	}
}

// refill takes the posted messages. It returns false if there is nothing to do; then the
// goroutine must end.
func (c *cell) refill() bool {
	c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.box
	if len(box.system) > 0 {
		return true
	}
	if c.suspended && !c.closed {
		c.scheduled = false
		return false
	}
	box.batch, box.next = box.batch[:0], 0
	if cap(box.batch) > maxBuffer {
		box.batch = nil
	}
	if len(box.user) == 0 { // idle
		c.box, c.scheduled = nil, false
		mailboxes.Put(box)
		return false
	}
	box.batch, box.user = box.user, box.batch
	return true
}

// count updates the counters of the kind.
func (c *cell) count() {
	if n := int64(c.box.handled); n > 0 {
		c.stats.mailbox.Add(-n)
		c.stats.messages.Add(n)
		c.box.handled = 0
	}
}

// handleSystem handles the oldest message of the library.
func (c *cell) handleSystem() {
	c.mu.Lock()
	box := c.box
	m := box.system[0]
	box.system[0] = nil
	if box.system = box.system[1:]; len(box.system) == 0 {
		box.system = box.first[:0] // drops the array of a burst
	}
	c.systemLeft.Store(int32(len(box.system)))
	c.mu.Unlock()
	switch m.(type) {
	case *actor.SuspendMailbox:
		c.suspended = true
	case *actor.ResumeMailbox:
		c.suspended = false
	case *actor.Restart:
		// The library would restart an actor that is already stopping.
		if !c.stopping {
			c.endIncarnationWith(m, Restarting{})
		}
	case *actor.Stop:
		c.stopping = true
		c.endIncarnationWith(m, Stopping{})
	case *actor.Terminated:
		c.lib.InvokeSystemMessage(m)
		c.afterChildren()
	default:
		c.lib.InvokeSystemMessage(m)
	}
}

// handleUser handles one message of the mailbox.
func (c *cell) handleUser(m any) {
	if c.stopping { // it only waits for its children to end
		c.deadLetter(m)
		c.box.handled--
		c.stats.mailbox.Add(-1)
		return
	}
	switch v := m.(type) {
	case *timer:
		if v.incarnation != c.incarnation {
			return
		}
		m = v.message
	case *outcome:
		if v.incarnation != c.incarnation {
			c.logLost(v)
			return
		}
		if v.failure != nil {
			panic(v.failure)
		}
		m = v.message
	case poison:
		c.PostSystemMessage(stop)
		return
	}
	if c.stats.durationOf == nil {
		c.lib.InvokeUserMessage(m)
		return
	}
	if c.toMeasure > 0 {
		c.toMeasure--
		c.lib.InvokeUserMessage(m)
		return
	}
	c.toMeasure = measureEvery - 1
	start := time.Now()
	c.lib.InvokeUserMessage(m)
	c.stats.durationOf.Observe(time.Since(start).Seconds())
}

// logLost logs a panic of a Go function whose incarnation has ended.
func (c *cell) logLost(o *outcome) {
	if o.failure != nil {
		c.logPanic(nil, o.failure)
	}
}
