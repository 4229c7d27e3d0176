package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// libraryContext is the interface that the library passes to an actor's mailbox.
type libraryContext interface {
	actor.Context
	actor.MessageInvoker
}

// cell is one actor with all its incarnations. It is the mailbox for the library and
// the Context for the Actor. There may be a million of them, so it has only fields that
// every idle actor needs.
type cell struct {
	// Fixed before the actor starts.
	sys     *System
	stats   *kindStats
	name    string
	produce func() Actor
	sup     *Supervision
	lib     libraryContext

	// The mailbox: see mailbox.go.
	mu         sync.Mutex
	box        *mailbox      // nil while the actor is idle
	done       chan struct{} // created by ended, closed at the actor's end
	systemLeft atomic.Int32  // length of box.system
	scheduled  bool          // a goroutine handles messages
	closed     bool          // the actor has ended

	// Used by the actor's own goroutine only.
	toMeasure   uint8
	parent      bool // has spawned children
	suspended   bool
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

// stop is the library's message to end an actor ahead of its mailbox.
var stop = new(actor.Stop)

// Message implements Context.
func (c *cell) Message() any { return c.box.message }

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
	child.scheduled = true // by this goroutine
	ref := c.sys.spawn(child, func(props *actor.Props) (*actor.PID, error) { return c.sys.start(props, c.lib) })
	child.run()
	return ref
}

// Stop implements Context.
func (c *cell) Stop(r Ref) {
	if r.c != nil {
		r.c.PostSystemMessage(stop)
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

// shell is the library's actor: one value for each incarnation, which finds its cell.
type shell struct {
	sys *System
	c   *cell
}

// Receive implements actor.Actor.
func (s *shell) Receive(lib actor.Context) {
	if s.c == nil {
		s.c = s.sys.claim(lib.Self())
	}
	c := s.c
	switch m := lib.Message().(type) {
	case *actor.Started:
		c.ending = false
		c.actor = c.produce()
		c.deliver(Started{})
	case *actor.Stopping:
		c.stopping = true
		c.endIncarnation(Stopping{})
	case *actor.Restarting:
		c.stats.restarts.Add(1)
		c.endIncarnation(Restarting{})
		s.sys.keep(lib.Self(), c) // for the next incarnation's shell
	case *actor.Stopped:
		c.close()
		if parent := lib.Parent(); parent != nil {
			s.sys.keep(lib.Self(), c) // for the parent's Terminated
		}
	case *actor.Terminated:
		child := s.sys.claim(m.Who)
		if c.children != nil {
			delete(c.children.alive, child)
		}
		if !c.ending {
			c.deliver(Terminated{Ref: Ref{child}, Kind: child.stats.kind})
		}
	default:
		c.deliver(m)
	}
}

// deliver hands m to the actor.
func (c *cell) deliver(m any) {
	c.box.message = m
	c.actor.Receive(c)
	c.box.message = nil
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
			c.logPanic(c.box.message, reason)
		}
		c.actor, c.box.message, c.scope = nil, nil, nil
	}()
	if c.actor != nil { // nil if its producer panicked
		c.deliver(last)
	}
}

// HandleFailure implements actor.SupervisorStrategy for the actor's children.
func (s *shell) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	failures *actor.RestartStatistics, _, message any) {
	c := s.c
	if c.ending {
		supervisor.StopChildren(child)
		return
	}
	limit, within := c.sup.Restarts, c.sup.Within
	if limit == 0 {
		limit = defaultRestarts
	}
	if within == 0 {
		within = defaultWithin
	}
	failures.Fail()
	n := failures.NumberOfFailures(within)
	if n > limit {
		failed := message.(*cell) // the argument of EscalateFailure in work
		s.sys.log.Error("actor failed too often and is stopped", "actor", failed.name,
			"kind", string(failed.stats.kind), "restarts", n-1, "within", within)
		if c == s.sys.root.c {
			s.sys.degraded.Store(true)
		}
		supervisor.StopChildren(child)
		return
	}
	if n == 1 { // the library itself never drops old failures
		failures.Reset()
		failures.Fail()
	}
	supervisor.RestartChildren(child)
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
		"kind", string(c.stats.kind),
		"message", fmt.Sprintf("%T", message),
		"panic", fmt.Sprint(reason),
		"stack", string(stack))
}
