// Package schedule runs agents again and again, as accounts have asked for. The owner of
// a partition has an actor that knows when the next schedule of it is due; Redis has the
// due times, so that a new owner goes on where the former one was.
//
//	{pNN}:schedulesdue ─> look ─> move the due time ─> round: each asset in turn ─> agent
//	      ^                            │                │   (no run where enough is open)
//	      └────────────────────────────┘                └─> what came of it, in the record
//
// What it promises:
//
//   - A due time is moved before the round begins, and only under the owner's epoch. So
//     no round is made twice, in a cluster and after a crash alike; the round of a process
//     that dies, or what is left of it, is not made up for: the next one comes in its time.
//   - What was missed while nobody ran the service, or by a clock that jumps, is one round,
//     not many. A clock that goes back lets rounds wait until it is where it was.
//   - A schedule that waits for bars comes round with those of its fastest asset; each other
//     asset runs in the rounds before which a bar of its own has closed.
//   - A round that lasts longer than until the next one has no second one beside it: the
//     next one is left out.
//   - An account's rounds take few of the runs that it may have at once, and each run
//     counts against its quota of runs. A round ends where the quota does; the next one of
//     that schedule begins with the asset that had its turn then.
package schedule
