// Package partition decides which partitions this node owns, and does the work that
// only the owner of a partition may do.
//
// The supervisor announces the node and learns which other nodes are alive, and the assignment
// that says which node should own each partition. It replaces one that is not for the live nodes.
// For each partition that this node should own there is one partition actor:
//
//	partitions         announces the node; starts and stops its children, renews all leases
//	└── partition      one for each wanted partition: takes its lease, follows its events,
//	    │              ends overdue runs, erases deleted accounts, trims
//	    └── tenants    what else works in the partition: see package ownership
//
// What it promises:
//
//   - An actor acts as owner only while it holds the lease, under the lease's epoch.
//     It stops, with all its children, when the lease or a fenced write is refused, or
//     when the lease has expired by its own clock, counted from before the last
//     successful renewal was sent. A new actor then tries to take the lease again.
//     Redis refuses the writes of a former owner that has not noticed the loss: every
//     write of an owner is compared with the epoch.
//   - Every event of an owned partition is handled at least once, in the order of the
//     log, from the position that was stored with the effects of the earlier events. It
//     comes from the node's tail if that keeps up, otherwise from the log itself.
//   - A run whose process died is ended within a minute of its deadline.
//   - A node that leaves in order returns all leases by one round trip to Redis, before its
//     actors end; those of a node that died are taken within the lease's time and a second.
//   - A partition without events costs a node little: what is periodic is done for all
//     partitions at once, or rests for up to a minute until there is an event.
//   - An outage of Redis ends ownership, never the process.
//
// It does not promise that two nodes always agree on who should own a partition. The
// lease decides.
package partition
