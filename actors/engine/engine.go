// Package engine runs actors. It is the one place that imports the actor
// library: supervision, restarts and the order of stopping are the library's,
// the mailbox, the timers and the counters are this package's own.
//
// What it promises:
//
//   - An actor handles one message at a time. Messages of one sender arrive in
//     the order in which it sent them.
//   - Mailboxes have no bound: Tell never blocks and never fails. Whoever feeds an
//     actor limits what is under way. A message for an actor that has stopped is
//     counted as a dead letter.
//   - A panic in Receive ends the incarnation: the actor receives Restarting, its
//     children are stopped, a new value from its producer receives Started. The
//     message at which it failed is not delivered again; those behind it are.
//   - What an incarnation has begun does not reach the next one: its context is
//     cancelled, its timers are dropped, results of its Go functions are dropped.
//   - Stopping or Restarting is the last message that an incarnation receives, unless
//     its parent ends and discards it.
//   - After System.Shutdown returned nil, no goroutine of the system is left.
//
// It promises nothing across processes, and nothing after a crash: what matters
// is appended to Redis first, then told.
package engine

import (
	"context"
	"time"
)

// Kind names what an actor is, for the metrics. It is a closed list; any other
// value counts as Other.
type Kind string

// The kinds of actors.
const (
	Supervisor Kind = "supervisor" // a parent without work of its own, the root included
	Agent      Kind = "agent"
	Asset      Kind = "asset"
	Market     Kind = "market"
	Connection Kind = "connection"
	Partition  Kind = "partition"
	Signal     Kind = "signal"
	Webhook    Kind = "webhook"
	Other      Kind = "other"
)

// kinds is the closed list of the label "kind".
var kinds = []Kind{Supervisor, Agent, Asset, Market, Connection, Partition, Signal, Webhook, Other}

// Actor is what handles messages. Receive must not block: for work that waits it
// uses Context.Go. A producer returns a new value for each incarnation.
type Actor interface {
	Receive(c Context)
}

// Context is what an actor knows and may do while it handles a message. It is
// valid inside Receive only, and no other goroutine may use it.
type Context interface {
	// Message returns the message: one of the lifecycle messages of this package,
	// or what somebody told the actor.
	Message() any
	// Self returns the actor's own Ref, which outlives its incarnations.
	Self() Ref
	// Context returns a context that is cancelled when the incarnation ends, before
	// Stopping or Restarting is received.
	Context() context.Context
	// Spawn starts a child. name is for logs and need not be unique; sup rules the
	// child's own children.
	Spawn(kind Kind, name string, produce func() Actor, sup Supervision) Ref
	// Stop ends an actor ahead of what is in its mailbox, Poison after that. The
	// children of an actor are stopped, not poisoned, when it ends.
	Stop(r Ref)
	Poison(r Ref)
	// Go runs f in a goroutine with the incarnation's context. A result other than
	// nil comes back as a message, unless the incarnation has ended. A panic in f
	// fails the actor.
	Go(f func(ctx context.Context) any)
	// After sends m to the actor after d, unless the incarnation has ended or the
	// timer is stopped by then.
	After(d time.Duration, m any) Timer
}

// Lifecycle messages.
type (
	// Started is the first message of every incarnation.
	Started struct{}
	// Stopping is the last message of an actor that ends.
	Stopping struct{}
	// Restarting is the last message of an incarnation that failed.
	Restarting struct{}
	// Terminated tells a parent, once, that its child has ended and is not coming
	// back: it was stopped, or failed too often.
	Terminated struct {
		Ref  Ref
		Kind Kind
	}
)

// Supervision says what becomes of an actor's children that panic: each is
// restarted by itself, up to Restarts times Within, and then stopped, of which the
// parent hears by Terminated. The zero value means 10 restarts a minute. A
// negative Restarts stops a child at its first panic.
type Supervision struct {
	Restarts int
	Within   time.Duration
	// Discard ends the children all at once when their parent ends or restarts: those
	// that are idle are dropped without Stopping, in a fraction of a microsecond each.
	// It is for children in great number that hold nothing beyond their memory, or for
	// which their parent lets go when it receives Stopping itself.
	Discard bool
}

const (
	defaultRestarts = 10
	defaultWithin   = time.Minute
)

// Ref is where to send messages for an actor, and nothing else. It is comparable
// and may be used from anywhere; the zero value drops what it is told.
type Ref struct{ c *cell }

// Tell puts m into the actor's mailbox. m must not be changed afterwards.
func (r Ref) Tell(m any) {
	if r.c != nil {
		r.c.post(m)
	}
}

// IsZero says that r refers to no actor.
func (r Ref) IsZero() bool { return r.c == nil }

// String returns the actor's kind and name, for logs.
func (r Ref) String() string {
	if r.c == nil {
		return "none"
	}
	return string(r.c.stats.kind) + "/" + r.c.name
}

// Ask sends the message that question makes and waits for what the actor sends to
// reply, which holds one answer without blocking the actor. It is for callers
// outside of actors. It returns ctx's error, or ErrStopped if the actor ends
// without an answer.
func Ask[T any](ctx context.Context, r Ref, question func(reply chan<- T) any) (T, error) {
	var none T
	if r.c == nil {
		return none, ErrStopped
	}
	reply := make(chan T, 1)
	gone := r.c.ended()
	r.Tell(question(reply))
	select {
	case answer := <-reply:
		return answer, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-gone:
	}
	select { // the answer may have been the last thing that the actor did
	case answer := <-reply:
		return answer, nil
	default:
		return none, ErrStopped
	}
}
