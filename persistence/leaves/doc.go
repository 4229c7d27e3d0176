// Package leaves keeps the Merkle logs of the partitions: the leaf of each entry of a signal log,
// in its order, once. Writes of a partition's owner name its epoch.
//
// One script stores the leaves of a batch, the head of the log and the position of the signal log
// up to which entries have leaves. It compares the head before the batch, so that a batch that was
// stored already, or that follows another head, changes nothing: a crash at any moment neither
// loses nor repeats a leaf.
package leaves
