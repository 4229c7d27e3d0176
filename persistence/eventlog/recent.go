package eventlog

import (
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// What a process remembers of a log, to detect that Redis has lost its newest entries: in a
// failover to a replica without the last writes, or in a restart with a truncated file.

// recentEvents is how many events the tail remembers of a partition, at least. A loss of more
// may hide events whose positions are below the lost ones.
const recentEvents = 2048

// recent are the positions of the events that were read last.
type recent struct {
	base      signal.Position // where the first of them follows
	positions []signal.Position
}

func (r *recent) add(entries []redisclient.Entry) {
	for i := range entries {
		r.positions = append(r.positions, entries[i].Position)
	}
	if n := len(r.positions); n > 2*recentEvents {
		r.base = r.positions[n-recentEvents-1]
		r.positions = append(r.positions[:0], r.positions[n-recentEvents:]...)
	}
}

func (r *recent) has(p signal.Position) bool {
	_, found := slices.BinarySearchFunc(r.positions, p, signal.Position.Compare)
	return found
}

// cut forgets the positions after p.
func (r *recent) cut(p signal.Position) {
	i, found := slices.BinarySearchFunc(r.positions, p, signal.Position.Compare)
	if found {
		i++
	}
	r.positions = r.positions[:i]
	if p.Compare(r.base) < 0 {
		r.base = p
	}
}

// newest is the position of the newest event of a partition of which something is known.
type newest struct {
	mu sync.Mutex
	at signal.Position
}

func (n *newest) note(p signal.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = p
}

// raise notes p unless a later position is known.
func (n *newest) raise(p signal.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = n.at.Later(p)
}

func (n *newest) reset() { n.note(signal.Position{}) }

func (n *newest) position() signal.Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

// wentBack reports whether an entry at p that is not retained was lost, not removed: trimming
// removes the oldest entries first, and Retains recognizes those that were deleted one by one.
func wentBack(i redisclient.StreamInfo, p signal.Position) bool {
	switch {
	case !i.Exists:
		return !p.IsZero()
	case !i.Complete:
		return false
	}
	return i.Generated.Compare(p) < 0 || i.Length > 0 && i.First.Compare(p) < 0
}
