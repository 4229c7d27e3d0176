package alerts

import (
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
)

// The orders of an index.
const (
	byLower  = iota // the highest lower level first
	byUpper         // the lowest upper level first
	byExpiry        // the earliest expiry first
	orders
)

// alertIndex holds the alerts of an asset so that a price finds those that it concerns,
// and no others: three heaps over one array. A price that concerns none costs two
// comparisons.
type alertIndex struct {
	entries []Entry
	free    []int32 // of places
	of      map[engine.Ref]int32
	heaps   [orders][]heapItem
}

// Entry is an alert as it is kept: there may be a million.
type Entry struct {
	Ref            engine.Ref
	Lower, Upper   float64
	Since, Expires int64
	seen           Span  // of prices that the asset's extremes do not have
	from           int64 // those after it they have; up to it prices were seen. 0: none
	frame          int8
	at             [orders]int32 // in the heaps
}

// NewEntry returns the entry of a, in no heap yet.
func NewEntry(a Alert) Entry {
	frame, _ := prices.FrameOf(a.Frame)
	return Entry{Ref: a.Ref, Lower: a.Lower, Upper: a.Upper, Since: a.Since, Expires: a.Expires, frame: int8(frame)}
}

// Begins returns the time after which prices concern p of which it was not notified.
func (p *Entry) Begins() int64 { return max(p.Since, p.from) }

// heapItem is an alert in a heap, whose least key is on top.
type heapItem struct {
	key   float64
	place int32
}

// len returns how many alerts there are.
func (b *alertIndex) len() int { return len(b.of) }

// add adds an alert, in place of one of the same Ref.
func (b *alertIndex) add(a Entry) {
	b.remove(a.Ref)
	var i int32
	if n := len(b.free); n > 0 {
		i, b.free = b.free[n-1], b.free[:n-1]
	} else {
		i = int32(len(b.entries))
		b.entries = append(b.entries, Entry{})
	}
	b.entries[i] = a
	if b.of == nil {
		b.of = make(map[engine.Ref]int32)
	}
	b.of[a.Ref] = i
	b.push(byLower, -a.Lower, i)
	b.push(byUpper, a.Upper, i)
	b.push(byExpiry, float64(a.Expires), i)
}

// remove removes the alert of ref, if there is one.
func (b *alertIndex) remove(ref engine.Ref) {
	i, ok := b.of[ref]
	if !ok {
		return
	}
	delete(b.of, ref)
	for order := range b.heaps {
		b.cut(order, int(b.entries[i].at[order]))
	}
	b.entries[i] = Entry{}
	b.free = append(b.free, i)
}

// removeAll removes the alerts of gone. Where those are most of the index it is made again
// of the others, since taking each out of its heaps takes ten times as long.
func (b *alertIndex) removeAll(gone map[engine.Ref]struct{}) {
	if len(gone) <= b.len()/2 {
		for ref := range gone {
			b.remove(ref)
		}
		return
	}
	places := b.entries
	*b = alertIndex{}
	for i := range places {
		if ref := places[i].Ref; !ref.IsZero() && !in(gone, ref) {
			b.add(places[i])
		}
	}
}

// top returns the alert with the least key of an order, nil if there is none.
func (b *alertIndex) top(order int) *Entry {
	if len(b.heaps[order]) == 0 {
		return nil
	}
	return &b.entries[b.heaps[order][0].place]
}

// each calls f with all alerts. f must not change the index.
func (b *alertIndex) each(f func(*Entry)) {
	for i := range b.entries {
		if !b.entries[i].Ref.IsZero() {
			f(&b.entries[i])
		}
	}
}

// take removes the alerts for which an order's top fulfils due, and returns them. It
// leaves those for which eligible is false.
func (b *alertIndex) take(taken []Entry, order int, due, eligible func(*Entry) bool) []Entry {
	var left []Entry
	for p := b.top(order); p != nil && due(p); p = b.top(order) {
		if eligible(p) {
			taken = append(taken, *p)
		} else {
			left = append(left, *p)
		}
		b.remove(p.Ref)
	}
	for i := range left {
		b.add(left[i])
	}
	return taken
}

func (b *alertIndex) push(order int, key float64, i int32) {
	h := append(b.heaps[order], heapItem{key, i})
	b.heaps[order] = h
	b.entries[i].at[order] = int32(len(h) - 1)
	b.up(order, len(h)-1)
}

// cut takes the entry at i out of a heap.
func (b *alertIndex) cut(order, i int) {
	h := b.heaps[order]
	last := len(h) - 1
	if i != last {
		b.swap(order, i, last)
	}
	b.heaps[order] = h[:last]
	if i != last && !b.down(order, i) {
		b.up(order, i)
	}
}

func (b *alertIndex) swap(order, i, j int) {
	h := b.heaps[order]
	h[i], h[j] = h[j], h[i]
	b.entries[h[i].place].at[order] = int32(i)
	b.entries[h[j].place].at[order] = int32(j)
}

func (b *alertIndex) up(order, i int) {
	h := b.heaps[order]
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].key <= h[i].key {
			return
		}
		b.swap(order, i, parent)
		i = parent
	}
}

// down moves the entry at i down, and reports whether it did.
func (b *alertIndex) down(order, i int) bool {
	h := b.heaps[order]
	began := i
	for {
		least := 2*i + 1
		if least >= len(h) {
			break
		}
		if right := least + 1; right < len(h) && h[right].key < h[least].key {
			least = right
		}
		if h[i].key <= h[least].key {
			break
		}
		b.swap(order, i, least)
		i = least
	}
	return i > began
}
