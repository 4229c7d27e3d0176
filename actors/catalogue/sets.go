package catalogue

import (
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// keptSets is the number of cached sets per account: dashboards ask for the same few
// filters repeatedly. A set of a million rows takes 125 KB.
const keptSets = 16

// sets caches the rows that recent filters select. Every change of a row updates them, so
// a repeated filter costs no more than one that selects everything.
type sets struct {
	mu   sync.Mutex // guards kept against other readers; the account's lock guards the rows
	kept []keptSet  // the last used first
}

type keptSet struct {
	filter filter
	sight  *sight // of its view
	rows   *roaring.Bitmap
}

// get returns the rows that f selects, or nil if they are not cached. The caller may read
// the set while it holds the account's lock.
func (s *sets) get(f filter) *roaring.Bitmap {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.kept, func(k keptSet) bool { return k.filter == f })
	if i < 0 {
		return nil
	}
	found := s.kept[i]
	copy(s.kept[1:i+1], s.kept[:i])
	s.kept[0] = found
	return found.rows
}

// put caches rows as those that f selects, unless another reader has done so. The set and the sight
// belong to s afterwards.
func (s *sets) put(f filter, of *sight, rows *roaring.Bitmap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.kept, func(k keptSet) bool { return k.filter == f }) {
		return
	}
	if len(s.kept) == keptSets {
		s.kept = s.kept[:keptSets-1]
	}
	s.kept = slices.Insert(s.kept, 0, keptSet{f, of, rows})
}

// update adds row n to the sets that select it and removes it from the others. The caller
// holds the account's lock for writing.
func (s *sets) update(a *account, n uint32, v *row) {
	for _, k := range s.kept {
		k.sight.grow(a, k.filter.view)
		if k.filter.selects(a, k.sight, v) {
			k.rows.Add(n)
		} else {
			k.rows.Remove(n)
		}
	}
}

// drop removes the rows with numbers below n. The caller holds the account's lock for
// writing.
func (s *sets) drop(n uint32) {
	for _, k := range s.kept {
		k.rows.RemoveRange(0, uint64(n))
	}
}
