package catalogue

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// account holds the listed signals of one account.
type account struct {
	mu      sync.RWMutex // guards all below
	rows    rows
	weather weatherRows
	assets  assets
	pairs   pairs
	index   *index // nil below indexedRows
	sets    sets
	last    signal.Position // of the newest row; an earlier creation is a repetition
}

// newAccount returns an account without signals. See Options.Name.
func newAccount(name func(asset string) string) *account { return &account{assets: assets{name: name}} }

// create adds a signal at its position, with the outlook of a weather run. A repetition
// is ignored. The caller holds the lock.
func (a *account) create(p signal.Position, id [16]byte, l *signal.Listing, w *signal.Outlook) error {
	if p.Compare(a.last) <= 0 {
		return nil
	}
	number, ok := a.pairs.number(l.Agent, l.Strategy)
	if !ok {
		return fmt.Errorf("list signal %s: the account has more than %d strategies", signal.SignalIDFromBytes(id), maxPairs)
	}
	a.last = p
	v := row{id: id, entry: math.NaN(), conf: confUnits(l.Confidence), kind: number,
		asset: a.assets.number(l.Asset, l.Entry == nil)} // content has no prices
	if w != nil {
		a.weather.add(l, id, w, number, a.assets.groupOf[v.asset])
	}
	if l.Entry != nil {
		v.entry = *l.Entry
	}
	if l.Direction == signal.Short {
		v.kind |= shortBit
	}
	n := a.rows.next
	v.created = a.rows.pack(p, n, 0)
	a.rows.add(v)
	if a.index != nil {
		a.index.add(n, &v, a.assets.groupOf[v.asset])
		a.sets.update(a, n, &v)
	}
	return nil
}

// ensureIndex makes the index once the account is large enough. The caller holds the
// lock, or has the only reference to the account.
func (a *account) ensureIndex() {
	if a.index == nil && a.rows.next-a.rows.first >= indexedRows {
		a.index = indexOf(&a.rows, &a.assets)
	}
}

// change sets the current confidence of a signal or, unless closed is zero, the position of
// its closing, which restores the initial confidence. origin is the position of its creation
// if the caller knows it, else zero. A signal that is not listed is ignored, since its record
// may be older than the lists. So is a change of a closed signal, which is a repetition. The
// caller holds the lock.
func (a *account) change(id [16]byte, origin signal.Position, confidence float64, closed signal.Position) {
	n, ok := a.rows.findAt(id, origin)
	if !ok {
		return
	}
	v := a.rows.at(n)
	if v.closed != 0 {
		return
	}
	before := v.conf
	if closed.IsZero() {
		a.rows.rescore(n, confUnits(confidence))
	} else {
		a.rows.close(n, closed)
	}
	if w := a.weather.byID[id]; w != nil {
		w.confidence = float64(v.conf) / confScale
	}
	if a.index != nil {
		a.index.moveConfidence(n, before, v.conf)
		if v.closed != 0 {
			a.index.open.Remove(n)
		}
	}
	a.sets.update(a, n, v)
}

// forget drops the signals created at or before ms, in whole blocks. It reports whether
// there are later ones.
func (a *account) forget(ms int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.weather.forget(ms)
	before, left := a.rows.first, a.rows.after(ms)
	if n := a.rows.drop(left); n != before && a.index != nil {
		a.index.drop(n)
		a.sets.drop(n)
	}
	return left < a.rows.next
}

// find returns the positions of the creation and the closing of a signal that a view has, the latter zero while it
// is open.
func (a *account) find(id signal.SignalID, view *signal.View, notBefore int64) (created, closed signal.Position, ok bool) {
	ulid, ok := signal.ULIDBytes(string(id))
	if !ok {
		return created, closed, false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	n, ok := a.rows.find(ulid)
	if !ok {
		return created, closed, false
	}
	if v := a.rows.at(n); v.created.ms() <= notBefore || !seen(a, view, v.kind, a.assets.groupOf[v.asset]) {
		return created, closed, false
	}
	return a.rows.created(n), a.rows.closed(n), true
}

// list returns the page of q and the number of matches, among the signals created after
// notBefore (milliseconds).
func (a *account) list(q *Query, notBefore int64) ([]signal.Listing, int) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	page, total := a.rowsOf(q, notBefore, signal.Location{})
	items := make([]signal.Listing, len(page))
	for i, n := range page {
		items[i] = a.listing(n)
	}
	return items, total
}

// locations is list for the locations of the signals, behind the one at before.
func (a *account) locations(q *Query, notBefore int64, before signal.Location) ([]signal.Location, int) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	page, total := a.rowsOf(q, notBefore, before)
	items := make([]signal.Location, len(page))
	for i, n := range page {
		items[i] = a.location(n)
	}
	return items, total
}

// location returns where the records of the signal of a row are.
func (a *account) location(n uint32) signal.Location {
	return signal.Location{ID: signal.SignalIDFromBytes(a.rows.at(n).id), Created: a.rows.created(n), Closed: a.rows.closed(n)}
}

// rowsOf returns the page of q behind the signal at before, and the number of all matches. The
// caller holds the lock.
func (a *account) rowsOf(q *Query, notBefore int64, before signal.Location) ([]uint32, int) {
	m, ok := a.match(q, a.rows.after(max(notBefore, unixMilli(q.Since))))
	if !ok {
		return nil, 0
	}
	offset := q.Offset + a.through(m, before)
	if offset >= m.total() {
		return nil, m.total()
	}
	return a.page(m, offset, min(q.Limit, m.total()-offset)), m.total()
}

// through returns the number of matches up to and including the signal at a location, in the
// order of lists. It is 0 for the zero location.
func (a *account) through(m matches, at signal.Location) int {
	id, ok := signal.ULIDBytes(string(at.ID))
	if !ok {
		return 0
	}
	first, next := a.rows.after(at.Created.MS-1), a.rows.after(at.Created.MS)
	n := m.total() - sort.Search(m.total(), func(i int) bool { return m.at(i) >= next })
	for _, row := range m.between(nil, first, next) {
		if slices.Compare(a.rows.at(row).id[:], id[:]) >= 0 {
			n++
		}
	}
	return n
}

func (a *account) listing(n uint32) signal.Listing {
	v := a.rows.at(n)
	of := &a.pairs.list[v.kind.pair()]
	l := signal.Listing{
		ID:         signal.SignalIDFromBytes(v.id),
		Agent:      of.agent,
		Asset:      a.assets.spellings[v.asset],
		Strategy:   of.strategy,
		Direction:  v.kind.direction(),
		Confidence: float64(v.conf) / confScale,
		Status:     signal.Open,
		CreatedAt:  time.UnixMilli(v.created.ms()).UTC(),
	}
	if !math.IsNaN(v.entry) {
		l.Entry = &v.entry
	}
	if v.closed != 0 {
		l.Status = signal.Closed
	}
	return l
}

// match returns the rows with numbers from on that q selects, or false if q cannot match.
func (a *account) match(q *Query, from uint32) (matches, bool) {
	f, ok := a.filter(q)
	if !ok || f.status == signal.Open && a.noneOpen(f) {
		return nil, false
	}
	if f.any() {
		return all{from, a.rows.next}, true
	}
	if a.index == nil {
		return few(a.scan(f, sightOf(a, f.view), nil, from)), true
	}
	set := a.set(f)
	skip := 0
	if from > 0 {
		skip = int(set.Rank(from - 1))
	}
	return some{set, skip, int(set.GetCardinality()) - skip}, true
}

// noneOpen reports whether no open row has the agent, the strategy and the direction of f.
func (a *account) noneOpen(f filter) bool {
	for k := range a.rows.openOf {
		if (f.direction == "" || f.direction == k.direction()) && (!f.byPair() || f.hasPair(&a.pairs.list[k.pair()])) {
			return false
		}
	}
	return true
}

// set returns all rows that f selects, and caches them unless they are a set of the
// index.
func (a *account) set(f filter) *roaring.Bitmap {
	if set := a.sets.get(f); set != nil {
		return set
	}
	s := sightOf(a, f.view)
	set, own := f.attributes(a.index, &a.pairs, s)
	switch {
	case f.minConfidence == 0:
	case set != nil && set.GetCardinality() < scanBelow:
		set, own = roaring.BitmapOf(a.scan(f, s, set, 0)...), true
	default:
		confident, made := a.index.confident(&a.rows, f.minConfidence)
		if set == nil {
			set, own = confident, made
		} else {
			set, own = roaring.And(set, confident), true
		}
	}
	if own {
		a.sets.put(f, s, set)
	}
	return set
}

// scan returns the rows with numbers from on that f selects, out of set, or out of all
// rows if set is nil.
func (a *account) scan(f filter, s *sight, set *roaring.Bitmap, from uint32) []uint32 {
	var found []uint32
	if set == nil {
		for n := from; n < a.rows.next; n++ {
			if f.selects(a, s, a.rows.at(n)) {
				found = append(found, n)
			}
		}
		return found
	}
	it := set.Iterator()
	it.AdvanceIfNeeded(from)
	for it.HasNext() {
		if n := it.Next(); a.rows.at(n).conf >= f.minConfidence {
			found = append(found, n)
		}
	}
	return found
}

// filter returns q as a filter, or false if it cannot match any signal.
func (a *account) filter(q *Query) (filter, bool) {
	f := filter{direction: q.Direction, status: q.Status, minConfidence: minConfUnits(q.MinConfidence)}
	if !q.View.All() {
		f.view = q.View
	}
	if q.Asset != "" {
		f.byAsset = true
		f.asset, f.subject = a.assets.group(a.assets.key(q.Asset, false)), a.assets.group(a.assets.key(q.Asset, true))
		if f.asset == noGroup && f.subject == noGroup {
			return f, false
		}
	}
	f.agent, f.strategy = a.pairs.codes[string(q.Agent)], a.pairs.codes[q.Strategy]
	return f, (f.agent == 0) == (q.Agent == "") && (f.strategy == 0) == (q.Strategy == "")
}

// counts returns the number of signals by agent that a view has, among the rows with numbers from on.
func (a *account) counts(view *signal.View, from uint32) map[signal.AgentID]Count {
	f, _ := a.filter(&Query{View: view})
	s := sightOf(a, f.view)
	counts := map[signal.AgentID]Count{}
	add := func(pair, open, closed int) {
		agent := a.pairs.list[pair].agent
		c := counts[agent]
		counts[agent] = Count{c.Open + open, c.Closed + closed}
	}
	first, next, each := from, a.rows.next, 1
	if a.index != nil { // count all rows by the index, without those before from
		var seen *roaring.Bitmap
		if f.view != nil {
			seen = a.set(f)
		}
		for n, set := range a.index.pair {
			if !s.seesPair(n) {
				continue
			}
			if seen != nil {
				set = roaring.And(set, seen)
			}
			open := int(set.AndCardinality(a.index.open))
			add(n, open, int(set.GetCardinality())-open)
		}
		first, next, each = a.rows.first, from, -1
	}
	for n := first; n < next; n++ {
		switch v := a.rows.at(n); {
		case !s.sees(v.kind, a.assets.groupOf[v.asset]):
		case v.closed == 0:
			add(v.kind.pair(), each, 0)
		default:
			add(v.kind.pair(), 0, each)
		}
	}
	return counts
}

// page returns count rows after the offset newest ones, in the order of lists: by
// creation, then by identifier, both descending. Rows of one millisecond are in any
// order, so milliseconds at the ends of the page are read as a whole.
func (a *account) page(m matches, offset, count int) []uint32 {
	newest, oldest := m.at(m.total()-1-offset), m.at(m.total()-offset-count)
	first, next := a.rows.after(a.rows.at(oldest).created.ms()-1), a.rows.after(a.rows.at(newest).created.ms())
	numbers := m.between(make([]uint32, 0, 2*count), first, next)
	cut, _ := slices.BinarySearch(numbers, newest)
	skip := len(numbers) - 1 - cut // later rows of the newest one's millisecond
	candidates := make([]candidate, len(numbers))
	for i, n := range numbers {
		v := a.rows.at(n)
		high, low := binary.BigEndian.Uint64(v.id[:8]), binary.BigEndian.Uint64(v.id[8:])
		candidates[i] = candidate{v.created.ms(), high, low, n}
	}
	sortPart(candidates, skip, skip+count)
	page := numbers[:count]
	for i := range page {
		page[i] = candidates[skip+i].row
	}
	return page
}
