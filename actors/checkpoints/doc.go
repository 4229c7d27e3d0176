// Package checkpoints appends the leaves of the signals of owned partitions to their Merkle logs, and
// signs the heads of all logs on the owner of record.SigningPartition. It is a tenant by the
// contract of package ownership. Package record has the format.
//
// Nothing waits for a leaf: the signal log keeps an entry until it has one, so an owner that
// crashes leaves its successor the rest.
package checkpoints
