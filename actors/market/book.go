package market

import (
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
)

// The orders of a book.
const (
	byLower  = iota // the highest lower level first
	byUpper         // the lowest upper level first
	byExpiry        // the earliest expiry first
	bookOrders
)

// alertBook holds the alerts of an asset so that a price finds those that it concerns,
// and no others: three heaps over one array. A price that concerns none costs two
// comparisons.
type alertBook struct {
	places []place
	free   []int32 // of places
	of     map[engine.Ref]int32
	heaps  [bookOrders][]heapEntry
}

// place is an alert as it is kept: there may be a million.
type place struct {
	Ref            engine.Ref
	Lower, Upper   float64
	Since, Expires int64
	seen           Span  // of prices that the asset's extremes do not have
	from           int64 // those after it they have; up to it prices were seen. 0: none
	frame          int8
	at             [bookOrders]int32 // in the heaps
}

func placeOf(a Alert) place {
	frame, _ := prices.FrameOf(a.Frame)
	return place{Ref: a.Ref, Lower: a.Lower, Upper: a.Upper, Since: a.Since, Expires: a.Expires, frame: int8(frame)}
}

// begins returns the time after which prices concern p that it was not told of.
func (p *place) begins() int64 { return max(p.Since, p.from) }

// heapEntry is an alert in a heap, whose least key is on top.
type heapEntry struct {
	key   float64
	place int32
}

// len returns how many alerts there are.
func (b *alertBook) len() int { return len(b.of) }

// add adds an alert, in place of one of the same Ref.
func (b *alertBook) add(a place) {
	b.remove(a.Ref)
	var i int32
	if n := len(b.free); n > 0 {
		i, b.free = b.free[n-1], b.free[:n-1]
	} else {
		i = int32(len(b.places))
		b.places = append(b.places, place{})
	}
	b.places[i] = a
	if b.of == nil {
		b.of = make(map[engine.Ref]int32)
	}
	b.of[a.Ref] = i
	b.push(byLower, -a.Lower, i)
	b.push(byUpper, a.Upper, i)
	b.push(byExpiry, float64(a.Expires), i)
}

// remove removes the alert of ref, if there is one.
func (b *alertBook) remove(ref engine.Ref) {
	i, ok := b.of[ref]
	if !ok {
		return
	}
	delete(b.of, ref)
	for order := range b.heaps {
		b.cut(order, int(b.places[i].at[order]))
	}
	b.places[i] = place{}
	b.free = append(b.free, i)
}

// removeAll removes the alerts of gone. Where those are most of the book it is made again
// of the others, since taking each out of its heaps takes ten times as long.
func (b *alertBook) removeAll(gone map[engine.Ref]struct{}) {
	if len(gone) <= b.len()/2 {
		for ref := range gone {
			b.remove(ref)
		}
		return
	}
	places := b.places
	*b = alertBook{}
	for i := range places {
		if ref := places[i].Ref; !ref.IsZero() && !in(gone, ref) {
			b.add(places[i])
		}
	}
}

// top returns the alert with the least key of an order, nil if there is none.
func (b *alertBook) top(order int) *place {
	if len(b.heaps[order]) == 0 {
		return nil
	}
	return &b.places[b.heaps[order][0].place]
}

// each calls f with all alerts. f must not change the book.
func (b *alertBook) each(f func(*place)) {
	for i := range b.places {
		if !b.places[i].Ref.IsZero() {
			f(&b.places[i])
		}
	}
}

// take removes the alerts for which an order's top fulfils due, and returns them. It
// leaves those for which eligible is false.
func (b *alertBook) take(taken []place, order int, due, eligible func(*place) bool) []place {
	var left []place
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

func (b *alertBook) push(order int, key float64, i int32) {
	h := append(b.heaps[order], heapEntry{key, i})
	b.heaps[order] = h
	b.places[i].at[order] = int32(len(h) - 1)
	b.up(order, len(h)-1)
}

// cut takes the entry at i out of a heap.
func (b *alertBook) cut(order, i int) {
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

func (b *alertBook) swap(order, i, j int) {
	h := b.heaps[order]
	h[i], h[j] = h[j], h[i]
	b.places[h[i].place].at[order] = int32(i)
	b.places[h[j].place].at[order] = int32(j)
}

func (b *alertBook) up(order, i int) {
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

// down moves the entry at i down, and says whether it did.
func (b *alertBook) down(order, i int) bool {
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
