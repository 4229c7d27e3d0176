package cluster

import (
	"fmt"
	"slices"
	"strings"
)

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
