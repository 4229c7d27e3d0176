// Package eventlog keeps what happened: a log of events and a log of signals for each
// partition, and who owns the partition.
//
// An Operation is guards and steps that one script carries out, all of them or none;
// records of other packages are changed by steps, too, so that they are of a piece with
// the events that announce them. Log sends operations in batches and answers each, once,
// however often a batch must be sent. Tail follows the logs of all partitions on every
// node, in their order; the owner of a partition reads its log from a stored position,
// and Trimmer removes what both have passed. A Lease says which node may write as the
// owner: its epoch fences the operations of former owners.
package eventlog
