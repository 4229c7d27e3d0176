// Package leaves keeps the Merkle logs of the partitions: the leaf of each entry of a signal log,
// in its order, once. Writes of a partition's owner name its epoch.
//
// One script stores the leaves of a batch, the head of the log and the position of the signal log
// up to which entries have leaves. It compares the head before the batch, so that a batch that was
// stored already, or that follows another head, changes nothing: a crash at any moment neither
// loses nor repeats a leaf.
package leaves

import (
	"embed"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store reads and writes the Merkle logs and their checkpoints, for who needs several parts.
type Store struct {
	*redisclient.Client
	*Appender
	*Checker
	*Checkpoints
	*Proofs
	*Root
}

// New returns the Merkle logs in the Redis of c.
func New(c *redisclient.Client) *Store {
	checkpoints, decoder := &Checkpoints{c}, &entries{}
	a := &Appender{Client: c, appenders: make([]appender, c.Partitions()), entries: decoder,
		signed: &signed{checkpoints: checkpoints}}
	a.reads.New = func() any { return &read{} }
	return &Store{c, a, &Checker{c, decoder}, checkpoints, &Proofs{c, decoder}, &Root{c}}
}
