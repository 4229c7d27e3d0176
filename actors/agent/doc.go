// Package agent runs the agents of the catalogue.
//
// Each agent is an actor. It admits runs, within the limits of the account and
// of the process, and hands each to a worker goroutine; Agents is the face that
// other packages see. A run ends with a signal or a *signal.RunError, and is told
// to its caller only once the store has it: the signal and the events of the run
// are one signal.Change.
//
//   - A run that ends within Options.AnnounceAfter is recorded by one append:
//     agent.started, then signal.created and agent.completed, or agent.error. A
//     longer one first appends agent.started, with a signal.RunDue that ends it
//     with CANCELLED if this process dies.
//   - A client that goes away does not cancel its run. Options.Timeout does, and
//     Drain.
//   - A run that panics has failed with INTERNAL; others do not notice.
//   - A job is a run that waits in the store until a worker of some node takes it.
//     Its outcome is stored by the append that stores its events. If its process
//     dies another one runs it again, under the same run id, at most three times
//     in all; so agent.started may be told more than once for a job, its end is
//     told once.
//
// What the package does not do: it keeps no signal (see package lifecycle), and
// checks no request; Check is for those who take requests in.
package agent
