// Package agent runs the agents of the catalogue.
//
// Other packages call Agents, which takes a place in the quota of the account. Each agent
// is an actor that hands runs to a bounded number of worker goroutines. A run ends with a
// signal or a *signal.RunError, which its caller gets only once it is stored: the signal
// and the events of the run are one signal.Change.
//
//   - A run that ends within Options.AnnounceAfter is recorded by one append:
//     agent.started, then signal.created and agent.completed, or agent.error. A
//     longer one first appends agent.started, with a signal.RunDue that ends it
//     with CANCELLED if this process dies.
//   - A client that disconnects does not cancel its run. Options.Timeout does, and
//     Drain.
//   - A run that panics fails with INTERNAL, and no other run is affected.
//   - A job is a run that waits in the store until a worker of some node takes it.
//     Its outcome is stored by the append that stores its events. If its process
//     dies another one runs it again, under the same run id, at most three times
//     in all. So agent.started may be published several times for a job, its end
//     only once.
//
// The package neither keeps signals (see package lifecycle) nor checks requests: callers
// that accept requests use Check.
package agent
