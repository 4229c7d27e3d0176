package eventlog

import (
	"context"
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

// lost reports whether Redis has lost the event at p of partition p's log.
func (s *Store) lost(ctx context.Context, partition int, p signal.Position) (bool, error) {
	retained, info, err := s.Retains(ctx, partition, p)
	return !retained && wentBack(info, p), err
}

// inspect finds out whether entries after the cursor were removed before they were read, and
// notifies the subscribers. found is true if there are entries to hand on, rolledBack if they
// must be read again.
func (t *Tail) inspect(ctx context.Context, p int, found bool) (rolledBack bool, err error) {
	part := &t.partitions[p]
	appended := t.store.appended[p].position() // first, so that Retains sees it
	retained, info, err := t.store.Retains(ctx, p, part.cursor)
	if err != nil {
		return false, err
	}
	lost := !retained && wentBack(info, part.cursor)
	if !lost && part.cursor.Compare(appended) < 0 {
		if lost, err = t.store.lost(ctx, p, appended); err != nil {
			return false, err
		}
	}
	if lost {
		return true, t.rollBack(ctx, p, info)
	}
	if !retained {
		t.log.Warn("events were removed before they were read", "component", "tail", "partition", p,
			"after", part.cursor.String())
		t.notify(p, t.gaps)
	}
	switch {
	case !info.Exists:
		part.cursor = signal.Position{}
	case info.Complete && !found && info.Last.Compare(part.cursor) <= 0:
		// Everything after the cursor was removed: no caller may wait for it.
		part.cursor = info.Generated
	}
	part.suspect = false
	if !found {
		part.pass(part.cursor)
	}
	return false, nil
}

// rollBack goes back to the last event that both the tail and the log have, and notifies the
// subscribers of the loss of the others.
func (t *Tail) rollBack(ctx context.Context, p int, info redisclient.StreamInfo) error {
	part := &t.partitions[p]
	common := signal.Position{}
	if info.Exists {
		var err error
		if common, err = t.common(ctx, p, info); err != nil {
			return err
		}
	}
	t.log.Warn("Redis has lost events that it had acknowledged", "component", "tail", "partition", p,
		"read", part.cursor.String(), "left", common.String())
	t.store.appended[p].reset()
	t.store.confirmed[p].reset()
	part.cursor, part.suspect = common, false
	part.recent.cut(common)
	t.notify(p, t.rollbacks)
	t.notify(p, t.gaps)
	part.pass(common)
	return nil
}

// common returns the position of the last event of the log that was read together with all
// before it.
func (t *Tail) common(ctx context.Context, p int, info redisclient.StreamInfo) (signal.Position, error) {
	part := &t.partitions[p]
	known := part.recent
	after, limit := "("+known.base.String(), len(known.positions)+1
	entries, err := t.store.ReadRange(ctx, t.store.EventsKey(p), after, part.cursor.String(), limit)
	if err != nil {
		return signal.Position{}, redisclient.Unavailable(err)
	}
	at := known.base
	for i := range entries {
		if !known.has(entries[i].Position) {
			break
		}
		at = entries[i].Position
	}
	if info.Complete && info.Generated.Compare(at) < 0 {
		return info.Generated, nil // before everything that the tail remembers
	}
	return at, nil
}
