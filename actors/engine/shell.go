package engine

import "github.com/asynkron/protoactor-go/actor"

// libraryContext is the interface that the library passes to an actor's mailbox.
type libraryContext interface {
	actor.Context
	actor.MessageInvoker
}

// stop is the library's message to end an actor ahead of its mailbox.
var stop = new(actor.Stop)

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
		c.mailbox.stats.restarts.Add(1)
		c.endIncarnation(Restarting{})
		s.sys.keep(lib.Self(), c) // for the next incarnation's shell
	case *actor.Stopped:
		c.mailbox.close(c.deadLetter)
		if parent := lib.Parent(); parent != nil {
			s.sys.keep(lib.Self(), c) // for the parent's Terminated
		}
	case *actor.Terminated:
		child := s.sys.claim(m.Who)
		if c.children != nil {
			delete(c.children.alive, child)
		}
		if !c.ending {
			c.deliver(Terminated{Ref: Ref{child}, Kind: child.mailbox.stats.kind})
		}
	default:
		c.deliver(m)
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
			"kind", string(failed.mailbox.stats.kind), "restarts", n-1, "within", within)
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

// libraryMailbox is a cell as the library sees it: it has the messages of its own that concern the actor
// put here, and would run them.
type libraryMailbox cell

var _ actor.Mailbox = (*libraryMailbox)(nil)

// PostUserMessage implements actor.Mailbox.
func (b *libraryMailbox) PostUserMessage(m any) { (*cell)(b).post(m) }

// PostSystemMessage implements actor.Mailbox.
func (b *libraryMailbox) PostSystemMessage(m any) { (*cell)(b).postSystem(m) }

// RegisterHandlers implements actor.Mailbox. It is called once, before Start.
func (b *libraryMailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	b.lib = invoker.(libraryContext)
	b.lib.Actor().(*shell).c = (*cell)(b)
}

// Start implements actor.Mailbox.
func (b *libraryMailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (b *libraryMailbox) UserMessageCount() int { return b.mailbox.len() }
