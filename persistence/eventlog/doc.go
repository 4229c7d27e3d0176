// Package eventlog keeps a log of events and a log of signals for each partition, and the
// owner of the partition.
//
// An Operation consists of guards and steps. One script carries out all steps, or none if a
// guard refuses. Steps also change the records of other packages, so that a record and the
// event that announces it are stored together. Log sends operations in batches and answers
// each once, however often a batch must be sent. Tail follows the logs of the partitions that a
// node needs, in their order. The owner of a partition reads its log from a stored position.
// Trimmer removes what both have passed. A Lease decides which node may write as the owner:
// its epoch fences the operations of former owners.
package eventlog
