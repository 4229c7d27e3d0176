// Package cluster has what the nodes of a cluster know of each other. Nodes and the store
// exchange its values.
package cluster

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The modes of a live node.
const (
	ModeAlone    = "alone"    // no other node may run
	ModeAssigned = "assigned" // it takes the partitions that it is assigned
	ModeHashing  = "many"     // of an earlier build: it takes partitions by the hash of the names
)

// Node is a live node.
type Node struct {
	ID, Mode string
	Until    time.Time // when its announcement expires
	Traits   []Trait   // nil if it has published none
	// Followed are the partitions whose events the node reads or that it owns; nil if it has not published
	// them.
	Followed []Followed
}

// Followed is a partition whose events a node reads, or that it owns.
type Followed struct {
	Partition int
	Reasons   []string  // why it reads the events: "owned", "streams", "lists", "waits"; empty if it does not
	Epoch     int64     // under which it owns the partition; 0 if it does not
	Since     time.Time // when it became owner
}

// Members are the live nodes, and the assignment that they share.
type Members struct {
	Live []string // sorted
	// ByHash is set while a node of a build without assignments is live: all then take
	// partitions by the hash of their names.
	ByHash     bool
	Assignment Assignment
}

// Assignment is the node that should own each partition. The store holds one; a node
// replaces it if it is not for the live nodes. The zero value assigns nothing.
type Assignment struct {
	Version int64    // increases with each replacement; 0 if none is stored
	Nodes   []string // for which it was made, sorted
	Owners  []string // by partition
}

// Lease is the right of a node to own a partition. Writes that only the owner may make name its
// epoch.
type Lease struct {
	Partition int
	Epoch     int64
	// Position is stored when the lease is given back: events up to it have had their effect. Zero
	// leaves the stored one.
	Position signal.Position
}
