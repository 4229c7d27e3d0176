package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

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

// cell is one actor with all its incarnations, and the Context for the Actor. There may be a million of them,
// so it has only fields that every idle actor needs.
type cell struct {
	// Fixed before the actor starts.
	sys     *System
	name    string
	produce func() Actor
	sup     *Supervision
	lib     libraryContext

	mailbox mailbox

	// Used by the actor's own goroutine only.
	toMeasure   uint8
	parent      bool // has spawned children
	ending      bool // Stopping or Restarting was received
	stopping    bool
	incarnation uint32
	actor       Actor
	scope       *scope    // of the incarnation; created by Context
	children    *childSet // its children, with Supervision.Discard

	timers *timer // the first one of a list; guarded by the heap's mutex
}

// scope is the context of an incarnation.
type scope struct {
	ctx    context.Context
	cancel context.CancelFunc
}

var _ Context = (*cell)(nil)

// Message implements Context.
func (c *cell) Message() any { return c.mailbox.messages.current }

// Self implements Context.
func (c *cell) Self() Ref { return Ref{c} }

// Context implements Context.
func (c *cell) Context() context.Context {
	if c.scope == nil {
		ctx, cancel := context.WithCancel(context.Background())
		c.scope = &scope{ctx, cancel}
		if c.ending {
			cancel()
		}
	}
	return c.scope.ctx
}

// Spawn implements Context.
func (c *cell) Spawn(kind Kind, name string, produce func() Actor, sup Supervision) Ref {
	c.parent = true
	child := c.sys.newCell(kind, name, produce, sup)
	if !c.sup.Discard {
		return c.sys.spawn(child, func(props *actor.Props) (*actor.PID, error) { return c.lib.SpawnNamed(props, "") })
	}
	if c.children == nil {
		c.children = &childSet{alive: make(map[*cell]struct{})}
	}
	c.children.alive[child] = struct{}{}
	child.mailbox.busy = true // run by this goroutine
	ref := c.sys.spawn(child, func(props *actor.Props) (*actor.PID, error) { return c.sys.start(props, c.lib) })
	child.run()
	return ref
}

// Stop implements Context.
func (c *cell) Stop(r Ref) {
	if r.c != nil {
		r.c.postSystem(stop)
	}
}

// Poison implements Context.
func (c *cell) Poison(r Ref) {
	if r.c != nil {
		r.c.post(poison{})
	}
}

// Go implements Context.
func (c *cell) Go(f func(ctx context.Context) any) {
	ctx, incarnation := c.Context(), c.incarnation
	c.sys.work.run(func() {
		defer func() {
			if reason := recover(); reason != nil {
				c.post(&outcome{incarnation: incarnation, failure: &goFailure{reason, debug.Stack()}})
			}
		}()
		if m := f(ctx); m != nil {
			c.post(&outcome{incarnation: incarnation, message: m})
		}
	})
}

// After implements Context.
func (c *cell) After(d time.Duration, m any) Timer {
	if c.ending {
		return Timer{}
	}
	return c.sys.timers.add(c, d, m)
}

// post adds a message to the mailbox, and has the actor run.
func (c *cell) post(m any) {
	accepted, idle := c.mailbox.put(m)
	if idle {
		c.sys.work.run(c.run)
	} else if !accepted {
		c.deadLetter(m)
	}
}

// postSystem is post for a message of the library.
func (c *cell) postSystem(m any) {
	if c.mailbox.putSystem(m) {
		c.sys.work.run(c.run)
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
			c.logPanic(c.mailbox.messages.current, reason)
			c.mailbox.messages.current = nil
			c.lib.EscalateFailure(reason, c)
			again = true
		}
	}()
	for {
		if c.mailbox.systemLeft.Load() > 0 {
			c.handleSystem(c.mailbox.nextSystem())
		} else if m, ok := c.mailbox.next(); ok {
			c.handleUser(m)
		} else if !c.mailbox.refill() {
			return false
		}
	}
}

// handleSystem handles a message of the library.
func (c *cell) handleSystem(m any) {
	switch m.(type) {
	case *actor.SuspendMailbox:
		c.mailbox.suspended = true
	case *actor.ResumeMailbox:
		c.mailbox.suspended = false
	case *actor.Restart:
		// The library would restart an actor that is already stopping.
		if !c.stopping {
			c.endWith(m, Restarting{})
		}
	case *actor.Stop:
		c.stopping = true
		c.endWith(m, Stopping{})
	case *actor.Terminated:
		c.lib.InvokeSystemMessage(m)
		c.endAfterChildren()
	default:
		c.lib.InvokeSystemMessage(m)
	}
}

// handleUser handles one message of the mailbox.
func (c *cell) handleUser(m any) {
	if c.stopping { // it only waits for its children to end
		c.deadLetter(m)
		c.mailbox.notHandled()
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
		c.postSystem(stop)
		return
	}
	if c.mailbox.stats.durationOf == nil {
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
	c.mailbox.stats.durationOf.Observe(time.Since(start).Seconds())
}

// deliver hands m to the actor.
func (c *cell) deliver(m any) {
	c.mailbox.messages.current = m
	c.actor.Receive(c)
	c.mailbox.messages.current = nil
}

// endIncarnation cancels the work of the incarnation and delivers its last message. A
// panic there is logged and recovered, because the library would restart an actor that
// must stop.
func (c *cell) endIncarnation(last any) {
	if c.ending {
		return // failed again while its children were stopping
	}
	c.ending = true
	c.incarnation++
	if c.scope != nil {
		c.scope.cancel()
	}
	c.sys.timers.dropAll(c)
	defer func() {
		if reason := recover(); reason != nil {
			c.logPanic(c.mailbox.messages.current, reason)
		}
		c.actor, c.mailbox.messages.current, c.scope = nil, nil, nil
	}()
	if c.actor != nil { // nil if its producer panicked
		c.deliver(last)
	}
}

// endWith ends the incarnation for the library's message m, after which the
// actor receives last. It passes m to the library at once, or when the children have
// ended.
func (c *cell) endWith(m, last any) {
	if c.children == nil {
		c.lib.InvokeSystemMessage(m)
		return
	}
	c.endIncarnation(last)
	c.children.end(m)
	c.endAfterChildren()
}

// endAfterChildren passes the message of endWith to the library once all children have ended.
func (c *cell) endAfterChildren() {
	if last := c.children.ended(); last != nil {
		c.children = nil
		c.lib.InvokeSystemMessage(last)
	}
}

// discard ends an actor that is idle and has no children, and reports whether it did.
// The parent calls it.
func (c *cell) discard() bool {
	ended := c.mailbox.closeIdle(func() bool {
		if c.parent {
			return false
		}
		c.ending, c.stopping = true, true
		if c.scope != nil {
			c.scope.cancel()
		}
		c.actor, c.scope = nil, nil
		return true
	})
	if !ended {
		return false
	}
	c.sys.timers.dropAll(c) // without the lock of the mailbox, which the heap takes, too
	if !c.sys.ending.Load() {
		c.sys.library.ProcessRegistry.Remove(c.lib.Self())
	}
	return true
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
	c.mailbox.stats.dead.Add(1)
	c.sys.log.Debug("dead letter", "actor", c.name, "kind", string(c.mailbox.stats.kind), "type", typeOf{m})
}

// logPanic logs a panic of the actor at message, with the stack. It must be called from
// the deferred function that recovered.
func (c *cell) logPanic(message, reason any) {
	stack := debug.Stack()
	if f, ok := reason.(*goFailure); ok {
		reason, stack = f.reason, f.stack
	}
	c.sys.log.Error("actor panicked",
		"actor", c.name,
		"kind", string(c.mailbox.stats.kind),
		"message", fmt.Sprintf("%T", message),
		"panic", fmt.Sprint(reason),
		"stack", string(stack))
}

// logLost logs a panic of a Go function whose incarnation has ended.
func (c *cell) logLost(o *outcome) {
	if o.failure != nil {
		c.logPanic(nil, o.failure)
	}
}

// typeOf is logged as the type of a message, which is formatted only if it is logged.
type typeOf struct{ message any }

// LogValue implements slog.LogValuer.
func (t typeOf) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%T", t.message)) }
