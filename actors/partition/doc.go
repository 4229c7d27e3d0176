// Package partition decides which partitions this node owns, and does what only the
// owner of a partition may do.
//
// The supervisor announces the node and learns which others live. Rendezvous
// hashing over the live nodes names one wanted owner of each partition; for each
// that is this node there is one partition actor:
//
//	partitions                 announces the node; starts and stops its children
//	└── partition              one of each wanted partition: takes its lease, renews
//	    │                      it, follows its events, ends overdue runs, erases
//	    │                      deleted accounts, trims
//	    └── tenants            what else works in the partition: see package ownership
//
// What is promised:
//
//   - An actor acts as owner only while it holds the lease, under the lease's epoch.
//     It stops, with all its children, when the lease is refused, when a fenced
//     write is refused, or when its own clock says that the lease has run out,
//     counted from before the last renewal that succeeded was sent. A new actor then
//     tries to take the lease again. A former owner that notices nothing of this is
//     refused by Redis: every write of an owner is compared with the epoch.
//   - Every event of an owned partition is handled, in the order of the log, at
//     least once, from the position that was stored with the effects of those before
//     it. It comes from the node's tail if that keeps up, else from the log itself.
//   - A run whose process died is ended within a minute after it was due.
//   - A node that leaves in order gives its leases back at once; those of a node that
//     died are taken within the lease's time and a second.
//   - Redis being away stops ownership, never the process.
//
// What is not: that two nodes agree at all times on who should own a partition. The
// lease decides.
package partition
