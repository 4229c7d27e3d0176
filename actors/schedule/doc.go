// Package schedule runs agents repeatedly, by the schedules of accounts. The owner of a
// partition has an actor that waits for the next due schedule; the due times are in
// Redis, so that a new owner continues where the former one stopped.
//
//	{pNN}:schedulesdue ─> poll ─> move the due time ─> round: each asset in turn ─> agent
//	      ^                            │                │   (unless it has max_open signals)
//	      └────────────────────────────┘                └─> result, stored in the record
//
// What it promises:
//
//   - A due time is moved before the round begins, and only under the owner's epoch. So
//     no round runs twice, neither in a cluster nor after a crash. A round whose process
//     died is not resumed: the schedule continues with its next round.
//   - Rounds that were missed while the service was down, or because a clock jumped, become
//     one round. After a clock goes back, rounds wait until it reaches the old time.
//   - A schedule by bars runs with the bars of its fastest asset; each other asset runs in
//     the first round after a bar of its own has closed.
//   - Rounds of a schedule do not overlap: a round that becomes due during another one is
//     skipped.
//   - An account's rounds use only part of its concurrent runs, and each run counts against
//     its quota of runs. A round ends when the quota is used up; the next round of that
//     schedule begins with the asset at which it ended.
//   - The deletion of an account ends its rounds. A run that an agent has begun ends by itself.
package schedule
