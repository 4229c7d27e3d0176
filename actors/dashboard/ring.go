package dashboard

import (
	"maps"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// ring holds the newest frames of the accounts that have listeners, of all partitions, so that
// a resume rarely reads from Redis. Entries of one account are linked from the newest to
// the oldest, so that a resume visits only them.
type ring struct {
	mu       sync.RWMutex
	size     uint64
	slots    []slot // grows up to size, then the oldest is replaced
	first    uint64 // number of the oldest entry
	next     uint64 // number of the next entry; entry i is in slots[i%size]
	bytes    int    // of all frames, at most maxBytes
	maxBytes int
	// last is the number of an account's newest entry, counted from 1.
	last  map[signal.AccountID]uint64
	parts map[int]*reach
	// since has, for accounts of which a partition's range may lack frames, from where it has
	// them all.
	since map[signal.AccountID]beginning
}

// beginning is the event of a partition after which the frames of an account are added.
type beginning struct {
	partition int
	after     signal.Position
}

type slot struct {
	frame     *frame
	previous  uint64 // of the same account, counted from 1, or 0
	partition int
}

// reach is the range of a partition that the ring holds: everything after floor, up to
// head.
type reach struct {
	known       bool // false before the first event, and after a gap
	floor, head signal.Position
}

// newRing returns a ring of at most size frames with at most bytes bytes together.
func newRing(size, bytes int) *ring {
	return &ring{
		size:     uint64(size),
		maxBytes: bytes,
		last:     make(map[signal.AccountID]uint64),
		parts:    make(map[int]*reach),
		since:    make(map[signal.AccountID]beginning),
	}
}

// before returns the last position before p.
func before(p signal.Position) signal.Position {
	if p.Seq > 0 {
		return signal.Position{MS: p.MS, Seq: p.Seq - 1}
	}
	return signal.Position{MS: p.MS - 1, Seq: 1<<63 - 1}
}

func (r *ring) reach(partition int) *reach {
	p := r.parts[partition]
	if p == nil {
		p = &reach{}
		r.parts[partition] = p
	}
	return p
}

// listen records that every later event of an account will have a frame.
func (r *ring) listen(partition int, account signal.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.parts[partition]; c != nil && c.known {
		r.since[account] = beginning{partition, c.head}
	}
}

// ignore records that later events of an account may have no frames. listen must be called
// before frames of the account are searched for again.
func (r *ring) ignore(account signal.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, account)
}

// add appends the frames of the events of partition from first to last. Events that
// are not sent to clients here have no frame.
func (r *ring) add(partition int, first, last signal.Position, frames []*frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.reach(partition)
	if !p.known {
		p.known, p.floor = true, before(first)
	}
	p.head = last
	for _, f := range frames {
		if f.revoked == nil {
			r.push(slot{frame: f, previous: r.last[f.account], partition: partition})
		}
	}
}

func (r *ring) push(s slot) {
	r.bytes += len(s.frame.text)
	for r.first < r.next && (r.next-r.first == r.size || r.bytes > r.maxBytes) {
		r.drop()
	}
	if uint64(len(r.slots)) < r.size {
		r.slots = append(r.slots, s)
	} else {
		r.slots[r.next%r.size] = s
	}
	r.next++
	r.last[s.frame.account] = r.next
}

// drop removes the oldest entry.
func (r *ring) drop() {
	old := &r.slots[r.first%r.size]
	r.first++
	if old.frame == nil { // forgotten
		return
	}
	r.reach(old.partition).raise(old.frame.at)
	if r.last[old.frame.account] == r.first {
		delete(r.last, old.frame.account)
	}
	r.bytes -= len(old.frame.text)
	*old = slot{}
}

// raise records that the entry at a position was removed.
func (p *reach) raise(at signal.Position) {
	if p.known {
		p.floor = p.floor.Later(at)
	}
}

// begin records that every event of partition after p will be added, unless the ring
// already holds a range of it.
func (r *ring) begin(partition int, p signal.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.reach(partition); !c.known {
		*c = reach{known: true, floor: p, head: p}
	}
}

// forget drops the range of partition with its frames: events are missing between its newest
// one and the next.
func (r *ring) forget(partition int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.reach(partition) = reach{}
	maps.DeleteFunc(r.since, func(_ signal.AccountID, b beginning) bool { return b.partition == partition })
	for n := r.first; n < r.next; n++ {
		if s := &r.slots[n%r.size]; s.frame != nil && s.partition == partition {
			delete(r.last, s.frame.account)
			r.bytes -= len(s.frame.text)
			*s = slot{}
		}
	}
}

// floor returns the position of partition after which the ring holds everything of an account,
// or false if its range is not known.
func (r *ring) floor(partition int, account signal.AccountID) (signal.Position, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.floorOf(partition, account)
}

// floorOf is floor for a caller that holds r.mu.
func (r *ring) floorOf(partition int, account signal.AccountID) (signal.Position, bool) {
	p := r.parts[partition]
	if p == nil || !p.known {
		return signal.Position{}, false
	}
	return p.floor.Later(r.since[account].after), true
}

// extract is the result of a search of the ring.
type extract struct {
	covered bool            // the ring holds everything of the account after the position searched for
	found   bool            // that position is a frame of the account which the client sees
	edge    bool            // that position is the last that the ring does not hold
	excess  bool            // more than limit frames match: frames is nil
	frames  []*frame        // the matching ones, ascending
	head    signal.Position // the newest event of the partition, of any account
}

// after returns the frames of account that match sub, after p and up to upTo. The zero
// upTo means no bound.
func (r *ring) after(
	partition int, account signal.AccountID, sub *subscription, p, upTo signal.Position, limit int,
) extract {
	r.mu.RLock()
	defer r.mu.RUnlock()
	floor, known := r.floorOf(partition, account)
	if !known || p.Compare(floor) < 0 {
		return extract{}
	}
	e := extract{covered: true, edge: p == floor, head: r.parts[partition].head}
	for n := r.last[account]; n > r.first; {
		s := &r.slots[(n-1)%r.size]
		if s.frame.at.Compare(p) <= 0 {
			e.found = s.frame.at == p && sub.sees(s.frame)
			break
		}
		if (upTo.IsZero() || s.frame.at.Compare(upTo) <= 0) && sub.matches(s.frame) {
			if len(e.frames) == limit {
				e.frames, e.excess = nil, true
				return e
			}
			e.frames = append(e.frames, s.frame)
		}
		n = s.previous
	}
	slices.Reverse(e.frames)
	return e
}
