package alerts

import (
	"sort"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// The orders of an index.
const (
	byLower  = iota // the highest lower level first
	byUpper         // the lowest upper level first
	byExpiry        // the earliest expiry first
	orders
)

// alertIndex finds the alerts that a price ends: three heaps over one array. A price that ends no
// alert costs two comparisons. The heaps are its own because the generic one takes twice as long
// here (deploy/decisions/0031-mailboxes-of-our-own.md).
type alertIndex struct {
	entries []Entry
	free    []int32 // of places
	of      map[engine.Ref]int32
	exits   map[engine.Ref]struct{} // of the alerts that have an exit
	heaps   [orders][]heapItem
}

// Entry is an alert in an index, which may hold a million.
type Entry struct {
	Ref            engine.Ref
	Lower, Upper   float64
	Since, Expires int64
	Exit           int64
	seen           Span  // of the prices up to from, which the asset's extremes do not hold
	from           int64 // up to when seen counts; 0 for none
	frame          int8
	at             [orders]int32 // positions in the heaps
}

// NewEntry returns the entry of a.
func NewEntry(a Alert) Entry {
	frame, _ := prices.FrameOf(a.Frame)
	return Entry{Ref: a.Ref, Lower: a.Lower, Upper: a.Upper, Since: a.Since, Expires: a.Expires, Exit: a.Exit,
		frame: int8(frame)}
}

// Begins returns the time after which prices are new to p.
func (p *Entry) Begins() int64 { return max(p.Since, p.from) }

// left returns the share of the time of p, while the market is open, that is left at a time.
func (p *Entry) left(session sessions.Session, at int64) float64 {
	all := session.Between(prices.Time(p.Since), prices.Time(p.Expires))
	if all <= 0 {
		return 0
	}
	return float64(session.Between(prices.Time(max(p.Since, at)), prices.Time(p.Expires))) / float64(all)
}

// graceDeadline returns until when p waits for a price after its expiry. Only time in which the
// asset is traded counts.
func (p *Entry) graceDeadline(session sessions.Session, speed int64) int64 {
	wait := time.Duration(strategy.GracePeriod(prices.FrameMS[p.frame]/speed)) * time.Millisecond
	return session.After(prices.Time(p.Expires), session.Lasting(wait, signal.Timeframes[p.frame])).UnixMilli()
}

// price returns the newest price while p was active, or 0 without one. The close of a bar that ends
// after the expiry is not such a price.
func (p *Entry) price(newest marketdata.Tick) float64 {
	if newest.Time <= p.Since || newest.Time > p.Expires {
		return 0
	}
	return newest.Price
}

// Replace makes p go on where former stands, which no price has ended that was seen so far.
func (p *Entry) Replace(former *Entry) { p.seen, p.from = former.seen, min(former.from, p.Exit) }

// heapItem is an alert in a heap. The smallest key is on top.
type heapItem struct {
	key   float64
	place int32
}

func (b *alertIndex) len() int { return len(b.of) }

// add adds an alert, which replaces one of the same Ref.
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
	if a.Exit != 0 {
		if b.exits == nil {
			b.exits = make(map[engine.Ref]struct{})
		}
		b.exits[a.Ref] = struct{}{}
	}
	b.push(byLower, -a.Lower, i)
	b.push(byUpper, a.Upper, i)
	b.push(byExpiry, float64(a.Expires), i)
}

func (b *alertIndex) remove(ref engine.Ref) {
	i, ok := b.of[ref]
	if !ok {
		return
	}
	delete(b.of, ref)
	delete(b.exits, ref)
	for order := range b.heaps {
		b.cut(order, int(b.entries[i].at[order]))
	}
	b.entries[i] = Entry{}
	b.free = append(b.free, i)
}

// removeAll removes the alerts of refs. If those are most of the index it is rebuilt from the
// others, because removing each from its heaps takes ten times as long.
func (b *alertIndex) removeAll(refs map[engine.Ref]struct{}) {
	if len(refs) <= b.len()/2 {
		for ref := range refs {
			b.remove(ref)
		}
		return
	}
	entries := b.entries
	*b = alertIndex{}
	for i := range entries {
		if ref := entries[i].Ref; !ref.IsZero() && !in(refs, ref) {
			b.add(entries[i])
		}
	}
}

// top returns the alert with the smallest key of an order, or nil.
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

// take removes alerts from the top of an order while due holds, and returns taken with those that
// are eligible. The others stay.
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

// down moves the item at i down, and reports whether it did.
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

// maxExtremes bounds the extremes of an asset. A random walk needs about the square root of the
// number of its ticks.
const maxExtremes = 65_536

// extremes finds the highest and the lowest price since any time. Each stack holds the prices that
// no later one has passed.
type extremes struct{ highs, lows []moment }

// moment is a price and when it was seen.
type moment struct {
	at    int64
	price float64
}

// add adds prices seen at a time, which must not be before the last one.
func (x *extremes) add(at int64, low, high float64) {
	for n := len(x.highs); n > 0 && x.highs[n-1].price <= high; n = len(x.highs) {
		x.highs = x.highs[:n-1]
	}
	for n := len(x.lows); n > 0 && x.lows[n-1].price >= low; n = len(x.lows) {
		x.lows = x.lows[:n-1]
	}
	x.highs, x.lows = thinned(append(x.highs, moment{at, high})), thinned(append(x.lows, moment{at, low}))
}

// newest returns the time of the newest prices, or 0.
func (x *extremes) newest() int64 {
	if n := len(x.highs); n > 0 {
		return x.highs[n-1].at
	}
	return 0
}

// thinned returns s, or s without every second moment of its older half if it is too long. An old
// extreme is then replaced by a slightly later one.
func thinned(s []moment) []moment {
	if len(s) < maxExtremes {
		return s
	}
	half := len(s) / 2
	kept := s[:0]
	for i := 1; i < half; i += 2 {
		kept = append(kept, s[i])
	}
	return append(kept, s[half:]...)
}

// since returns the lowest and the highest price after a time, or false without one.
func (x *extremes) since(at int64) (low, high float64, ok bool) {
	h := sort.Search(len(x.highs), func(i int) bool { return x.highs[i].at > at })
	l := sort.Search(len(x.lows), func(i int) bool { return x.lows[i].at > at })
	if h == len(x.highs) || l == len(x.lows) {
		return 0, 0, false
	}
	return x.lows[l].price, x.highs[h].price, true
}
