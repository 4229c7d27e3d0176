// Package backup copies an installation into a file while its nodes run, and the file into an empty Redis of any
// kind: another server, a Redis Cluster, another number of partitions.
//
// # What a backup has
//
// Accounts and API keys, webhooks and schedules, signals (the log and the open ones), events, the record, jobs,
// replies to repeated requests, pending deliveries and mails, the market with how past entries ended. keys.go has
// what is not kept, and why: logins, the history of deliveries, what belongs to processes.
//
// # What fits together
//
// The logs of a partition end at one moment, the cut. What changes together with them is read in the same
// transaction: runs that are due, when schedules run next, the head of the Merkle log and the counts of its
// accounts. Open signals, which may be many, are read in pieces before it and brought up to it by the events of their
// changes (open.go). So a signal is open or closed, and never both. Everything that was acknowledged before the backup
// began is in it. The rest is read in an order that keeps promises:
//
//   - Checkpoints come before the heads of the logs, so that these are never shorter than what was signed.
//   - The owner's position comes before the pending deliveries, and these before the cut. Events behind the position
//     have their effect again, so no delivery is missing; one that was sent while the backup was made may be sent
//     again, under the same identifier.
//   - Webhooks and schedules come before the cut, with what is pending, and those that are new since come last, after the
//     replies: a stored reply to the request that made one is never without it.
//   - Jobs and replies come after the cut. One whose change is behind it is a job that still runs, which is queued
//     again, or left out.
//   - Accounts come after the logs. One that was deleted meanwhile is erased after the restore, and an erasing that was
//     under way begins again.
//
// # Other partitions
//
// With the same number of partitions, all positions stay: cursors, streams that are resumed, the record. With another
// number, the logs are merged by time. An entry with the sequence s of partition p of P gets s*P+p, so that the order of
// each account stays and no two entries are the same; streams cannot be resumed over this, which clients are told, and the
// record begins again.
//
// # Where to read
//
// sections.go has the sections in their order. The file of each has the keys that it keeps, the kinds of its records, how
// they are saved and, beside it, how they are restored. source.go and target.go are the two installations, file.go has
// the bytes, and keys.go what is not kept.
package backup
