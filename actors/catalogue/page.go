package catalogue

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// matches are the rows that a query selects, in ascending order.
type matches interface {
	total() int
	// at returns the row that has i matches before it.
	at(i int) uint32
	// between appends the matches from first up to but not including next to rows.
	between(rows []uint32, first, next uint32) []uint32
}

// all is every row from first up to but not including next.
type all struct{ first, next uint32 }

func (m all) total() int      { return int(m.next - m.first) }
func (m all) at(i int) uint32 { return m.first + uint32(i) }
func (m all) between(rows []uint32, first, next uint32) []uint32 {
	for n := first; n < next; n++ {
		rows = append(rows, n)
	}
	return rows
}

// some is the rows of a set without the first skip ones.
type some struct {
	set   *roaring.Bitmap
	skip  int
	count int
}

func (m some) total() int { return m.count }
func (m some) at(i int) uint32 {
	n, err := m.set.Select(uint32(m.skip + i))
	if err != nil {
		panic("select a row beyond the total: " + err.Error())
	}
	return n
}
func (m some) between(rows []uint32, first, next uint32) []uint32 {
	var it roaring.IntIterator
	it.Initialize(m.set)
	for it.AdvanceIfNeeded(first); it.HasNext(); {
		n := it.Next()
		if n >= next {
			break
		}
		rows = append(rows, n)
	}
	return rows
}

// few is a list of rows found by a scan.
type few []uint32

func (m few) total() int      { return len(m) }
func (m few) at(i int) uint32 { return m[i] }
func (m few) between(rows []uint32, first, next uint32) []uint32 {
	from, _ := slices.BinarySearch(m, first)
	to, _ := slices.BinarySearch(m, next)
	return append(rows, m[from:to]...)
}

// candidate is a row with the values that determine its place in a list.
type candidate struct {
	ms            int64
	idHigh, idLow uint64
	row           uint32
}

// before reports whether x comes before y in a list.
func (x *candidate) before(y *candidate) bool {
	if x.ms != y.ms {
		return x.ms > y.ms
	}
	if x.idHigh != y.idHigh {
		return x.idHigh > y.idHigh
	}
	return x.idLow > y.idLow
}

// sortPart sorts the candidates that belong at the indexes from up to but not including
// to. It is a quicksort that leaves the others unsorted: a page is a small part of a
// millisecond in which hundreds of signals were created.
func sortPart(c []candidate, from, to int) {
	for from < len(c) && to > 0 && len(c) > 1 {
		p := split(c)
		if from < p {
			sortPart(c[:p], from, to)
		}
		c, from, to = c[p+1:], max(from-p-1, 0), to-p-1
	}
}

// split partitions c around the median of three candidates and returns the index of that
// one.
func split(c []candidate) int {
	last := len(c) - 1
	x, y := 0, last/2
	if c[y].before(&c[x]) {
		x, y = y, x
	}
	if c[last].before(&c[x]) {
		y = x
	} else if c[last].before(&c[y]) {
		y = last
	}
	c[y], c[last] = c[last], c[y]
	p := 0
	for i := range c[:last] {
		if c[i].before(&c[last]) {
			c[i], c[p] = c[p], c[i]
			p++
		}
	}
	c[p], c[last] = c[last], c[p]
	return p
}
