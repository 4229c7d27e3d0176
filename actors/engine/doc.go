// Package engine runs actors with Proto.Actor (github.com/asynkron/protoactor-go). It is the only package that
// imports it.
//
// # What is promised
//
//   - An actor handles one message at a time. Messages of one sender arrive in
//     the order in which it sent them.
//   - Mailboxes have no bound: Tell never blocks and never fails. Senders limit how
//     many messages are in flight. A message for an actor that has stopped is counted
//     as a dead letter.
//   - A panic in Receive ends the incarnation: the actor receives Restarting, its
//     children are stopped, a new value from its producer receives Started. The
//     message that caused the panic is not delivered again; later ones are.
//   - The work of an incarnation does not reach the next one: its context is cancelled,
//     its timers and the results of its Go functions are dropped.
//   - Stopping or Restarting is the last message that an incarnation receives, unless
//     its parent ends and discards it.
//   - After System.Shutdown returned nil, no goroutine of the system is left.
//
// It promises nothing across processes and nothing after a crash: state that must
// survive is appended to Redis before actors are notified.
//
// # For readers who know Proto.Actor
//
//	Proto.Actor              here                       file
//	ActorSystem, Root        System, System.Spawn       system.go
//	Props, producer          Context.Spawn(kind, name, producer, Supervision)
//	actor.Context            Context, implemented by cell  cell.go
//	PID, Root.Send           Ref, Ref.Tell              engine.go
//	Request, Future          Ask, for callers that are no actors
//	ReenterAfter             Context.Go: the result of a function is a message to the actor itself
//	Started, Stopping, Restarting, Terminated  the same
//	OneForOneStrategy        Supervision; shell.HandleFailure decides  shell.go
//	Stop, Poison             the same
//	scheduler.SendOnce       Context.After              timer.go
//	Mailbox, Dispatcher      mailbox, workers           mailbox.go, work.go
//	middleware, metrics      kindStats                  metrics.go
//
// The library keeps its part of each actor: the tree, which failure restarts what, the order in which children
// stop, and the messages for that. Its actor is a shell, one for each incarnation; the cell lives as long as the
// actor. All actors share one Props, whose mailbox is the cell (libraryMailbox) and whose spawn function gives
// them short ids.
//
// # What is replaced, and what that buys
//
//   - The mailbox. An idle actor has none, so that an idle child takes 502 to 530 bytes. With the library's it
//     takes 686 to 758, and 838 to 921 with the middleware that counts messages. There are up to a million of
//     them. It counts messages, waiting ones and dead letters by kind, and delivers nothing to an actor that is
//     stopping. The library's metrics cannot say how many messages wait.
//   - The end of idle children, with Supervision.Discard: 1.8 us each, where the library takes 15 us to send a
//     message to each and wait for the answers.
//   - Timers. One heap serves all of them: 114 bytes each, where time.AfterFunc takes 235. They end with
//     their incarnation.
//   - Goroutines. A few are kept with the stacks they have grown.
//
// The bytes are of 2026-11-28, of three turns of BenchmarkMailbox and one of BenchmarkEnd and BenchmarkPendingTimers;
// deploy/decisions/0031-mailboxes-of-our-own.md has the times. Without these four, about 500 of the lines of this
// package would go.
package engine
