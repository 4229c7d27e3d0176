package engine

import (
	"context"
	"time"
)

// Kind is the kind of an actor, for the metrics. Values that are not listed below count
// as Other.
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

// kinds lists all values of the label "kind".
var kinds = []Kind{Supervisor, Agent, Asset, Market, Connection, Partition, Signal, Webhook, Other}

// Actor handles messages. Receive must not block: it uses Context.Go for work that
// waits. A producer returns a new value for each incarnation.
type Actor interface {
	Receive(c Context)
}

// Context is the actor's access to the engine while it handles a message. It is valid
// inside Receive only, and no other goroutine may use it.
type Context interface {
	// Message returns the message: a lifecycle message of this package, or one sent to
	// the actor.
	Message() any
	// Self returns the actor's own Ref, which outlives its incarnations.
	Self() Ref
	// Context returns a context that is cancelled when the incarnation ends, before
	// Stopping or Restarting is received.
	Context() context.Context
	// Spawn starts a child. name is for logs and need not be unique; sup applies to the
	// child's own children.
	Spawn(kind Kind, name string, produce func() Actor, sup Supervision) Ref
	// Stop ends an actor before it handles the messages in its mailbox, Poison after
	// that. The children of an actor are stopped, not poisoned, when it ends.
	Stop(r Ref)
	Poison(r Ref)
	// Go runs f in a goroutine with the incarnation's context. A result other than nil
	// is sent to the actor as a message, unless the incarnation has ended. A panic in f
	// counts as a panic of the actor.
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
	// Terminated notifies a parent, once, that its child has ended for good: it was
	// stopped, or failed too often.
	Terminated struct {
		Ref  Ref
		Kind Kind
	}
)

// Supervision is the rule for an actor's children that panic: each is restarted, up to
// Restarts times Within, and then stopped, which the parent learns by Terminated. The
// zero value means 10 restarts a minute. A negative Restarts stops a child at its first
// panic.
type Supervision struct {
	Restarts int
	Within   time.Duration
	// Discard drops idle children without Stopping when their parent ends or restarts,
	// which takes a fraction of a microsecond each. It is for large numbers of children
	// that hold nothing but memory, or whose parent releases the rest when it receives
	// Stopping itself. Spawn returns when such a child has handled Started: a goroutine for
	// each of a million children costs more than their start.
	Discard bool
}

const (
	defaultRestarts = 10
	defaultWithin   = time.Minute
)

// Ref is the address of an actor. It can only send messages to it. It is comparable and
// safe for concurrent use; the zero value drops all messages.
type Ref struct{ c *cell }

// Tell puts m into the actor's mailbox. m must not be changed afterwards.
func (r Ref) Tell(m any) {
	if r.c != nil {
		r.c.post(m)
	}
}

// IsZero reports whether r is the zero value, which refers to no actor.
func (r Ref) IsZero() bool { return r.c == nil }

// String returns the actor's kind and name, for logs.
func (r Ref) String() string {
	if r.c == nil {
		return "none"
	}
	return string(r.c.mailbox.stats.kind) + "/" + r.c.name
}

// Ask sends the message that question returns and waits for the actor's answer on
// reply, which is buffered so that the actor does not block. It returns ctx's error, or
// ErrStopped if the actor ends without an answer. Actors must not call it.
func Ask[T any](ctx context.Context, r Ref, question func(reply chan<- T) any) (T, error) {
	var none T
	if r.c == nil {
		return none, ErrStopped
	}
	reply := make(chan T, 1)
	ended := r.c.mailbox.ended()
	r.Tell(question(reply))
	select {
	case answer := <-reply:
		return answer, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-ended:
	}
	select { // the actor may have answered just before it ended
	case answer := <-reply:
		return answer, nil
	default:
		return none, ErrStopped
	}
}
