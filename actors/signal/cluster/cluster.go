// Package cluster has what the nodes of a cluster know of each other. Nodes and the store
// exchange its values.
package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The modes of a live node.
const (
	ModeAlone    = "alone"    // no other node may run
	ModeAssigned = "assigned" // it takes the partitions that it is assigned
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
	Live       []string // sorted
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

// Profile is what a process publishes with its announcements, so that nodes that do not fit
// together find out before they share work.
type Profile struct {
	// Place identifies the data directory, which the process has locked, among those of all
	// machines. Of two processes with the same place the older one has ended. Empty: unknown.
	Place  string
	Traits []Trait
}

// Trait is a setting in which live nodes must agree: two nodes fit if they have one of their
// values in common. Neither the setting nor a value contains white space.
type Trait struct {
	Setting string // its key in the configuration, or the name of what the build does
	Values  []string
	Secret  bool // the values are check values of keys; not published
}

// Disagreement returns the sentence about a setting of which node has other values.
func (p Profile) Disagreement(setting, node string, theirs []string) string {
	const advice = "live nodes must agree: correct the setting, or stop the other nodes first"
	i := slices.IndexFunc(p.Traits, func(t Trait) bool { return t.Setting == setting })
	if i < 0 || p.Traits[i].Secret {
		return fmt.Sprintf("%s: node %s has none of the keys that this node has, and needs one in common: "+
			"give all nodes the same keys", setting, node)
	}
	return fmt.Sprintf("%s: this node has %s, and node %s has %s: %s",
		setting, strings.Join(p.Traits[i].Values, " "), node, strings.Join(theirs, " "), advice)
}

// Misfits returns the settings of a of which b has no value in common. Settings that only one of
// the two has published do not count: the other is of a build that does not know them.
func Misfits(a, b []Trait) []string {
	var settings []string
	for _, x := range a {
		for _, y := range b {
			shared := func(v string) bool { return slices.Contains(y.Values, v) }
			if x.Setting == y.Setting && !slices.ContainsFunc(x.Values, shared) {
				settings = append(settings, x.Setting)
			}
		}
	}
	return settings
}

// Codes of refused announcements.
const (
	CodeOtherProcess = "other_process" // another process is live under the same id
	CodeNotAlone     = "not_alone"     // another node is live, and one of the two is a single node
	CodeMisfit       = "misfit"        // a live node has another value of a setting

	CodeOtherPartitions   = "other_partitions"   // the installation's number of partitions or its names are other ones
	CodeOtherInstallation = "other_installation" // Redis has another installation
)

// MayPass reports whether an announcement that was refused with a code may be accepted later, since the
// other node may have been killed: its announcement expires then.
func MayPass(code string) bool { return code == CodeNotAlone || code == CodeMisfit }

// Refusal is the error of an announcement that was refused because of another one.
type Refusal struct {
	Node  string // that was announced before
	Until int64  // when its announcement expires, in Redis' milliseconds; a live node renews it
	Err   error  // of KindConflict, with one of the codes
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }
