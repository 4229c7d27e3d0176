package catalogue

import (
	"github.com/RoaringBitmap/roaring/v2"
)

// indexedRows is the number of signals from which an account has bitmaps. A scan of fewer
// rows is as fast, and thousands of small accounts stay small.
const indexedRows = 8192

// scanBelow is the number of candidates below which a scan is cheaper than intersecting
// them with the bitmap of a confidence.
const scanBelow = 20_000

const (
	// bucketUnits is the width of a confidence bucket in the unit of rows: 0.01.
	bucketUnits = 100
	buckets     = confScale/bucketUnits + 1
	// stepBuckets is the width of a step of the cumulative bitmaps: 0.05.
	stepBuckets = 5
	steps       = (buckets + stepBuckets - 1) / stepBuckets
)

// index holds the sets of row numbers by attribute.
type index struct {
	pair   []*roaring.Bitmap // by number of the pair of agent and strategy
	asset  []*roaring.Bitmap // by group of spellings
	short  *roaring.Bitmap
	open   *roaring.Bitmap
	bucket [buckets]*roaring.Bitmap
	// atLeast[i] holds the rows of bucket i*stepBuckets and all above.
	atLeast [steps]*roaring.Bitmap
}

func newIndex() *index {
	x := &index{short: roaring.New(), open: roaring.New()}
	for i := range x.bucket {
		x.bucket[i] = roaring.New()
	}
	for i := range x.atLeast {
		x.atLeast[i] = roaring.New()
	}
	return x
}

// indexOf returns the index of all rows. A row is in ten of the cumulative bitmaps on
// average, so they are united from whole buckets.
func indexOf(r *rows, t *assets) *index {
	x := newIndex()
	for n := r.first; n < r.next; n++ {
		v := r.at(n)
		x.addAttributes(n, v, t.groupOf[v.asset])
		x.bucket[v.conf/bucketUnits].Add(n)
	}
	for i := steps - 1; i >= 0; i-- {
		if i+1 < steps {
			x.atLeast[i].Or(x.atLeast[i+1])
		}
		for _, b := range x.bucket[i*stepBuckets : min((i+1)*stepBuckets, buckets)] {
			x.atLeast[i].Or(b)
		}
	}
	return x
}

// add adds row n, a new one, with the group of its asset.
func (x *index) add(n uint32, v *row, group uint32) {
	x.addAttributes(n, v, group)
	b := int(v.conf) / bucketUnits
	x.bucket[b].Add(n)
	for i := b / stepBuckets; i >= 0; i-- {
		x.atLeast[i].Add(n)
	}
}

// addAttributes adds row n to all sets except those by confidence.
func (x *index) addAttributes(n uint32, v *row, group uint32) {
	addTo(&x.pair, v.kind.pair(), n)
	addTo(&x.asset, int(group), n)
	if v.kind&shortBit != 0 {
		x.short.Add(n)
	}
	if v.closed == 0 {
		x.open.Add(n)
	}
}

// addTo adds row n to set i of the list, which has as many sets as needed.
func addTo(list *[]*roaring.Bitmap, i int, n uint32) {
	for len(*list) <= i {
		*list = append(*list, roaring.New())
	}
	(*list)[i].Add(n)
}

// moveConfidence changes the confidence of row n.
func (x *index) moveConfidence(n uint32, from, to uint16) {
	a, b := int(from)/bucketUnits, int(to)/bucketUnits
	if a == b {
		return
	}
	x.bucket[a].Remove(n)
	x.bucket[b].Add(n)
	for i := b/stepBuckets + 1; i <= a/stepBuckets; i++ {
		x.atLeast[i].Remove(n)
	}
	for i := a/stepBuckets + 1; i <= b/stepBuckets; i++ {
		x.atLeast[i].Add(n)
	}
}

// drop removes the rows with numbers below n.
func (x *index) drop(n uint32) {
	sets := append([]*roaring.Bitmap{x.short, x.open}, x.pair...)
	sets = append(append(append(sets, x.asset...), x.bucket[:]...), x.atLeast[:]...)
	for _, s := range sets {
		s.RemoveRange(0, uint64(n))
	}
}

// confident returns the rows with at least the given confidence. If own is false, the set
// is part of the index and must not be changed.
func (x *index) confident(r *rows, minimum uint16) (set *roaring.Bitmap, own bool) {
	full := (int(minimum) + bucketUnits - 1) / bucketUnits // the first bucket that counts whole
	step := (full + stepBuckets - 1) / stepBuckets         // the first cumulative set that does
	if full*bucketUnits == int(minimum) && full == step*stepBuckets {
		return x.atLeast[step], false
	}
	set = roaring.New()
	if step < steps {
		set.Or(x.atLeast[step])
	}
	for b := full; b < min(step*stepBuckets, buckets); b++ {
		set.Or(x.bucket[b])
	}
	if full*bucketUnits > int(minimum) {
		set.Or(filterConfidence(r, x.bucket[full-1], minimum))
	}
	return set, true
}

// filterConfidence returns the rows of set with at least the given confidence.
func filterConfidence(r *rows, set *roaring.Bitmap, minimum uint16) *roaring.Bitmap {
	var buf [256]uint32
	kept := roaring.New()
	for it := set.ManyIterator(); ; {
		n := it.NextMany(buf[:])
		if n == 0 {
			return kept
		}
		k := 0
		for _, v := range buf[:n] {
			if r.at(v).conf >= minimum {
				buf[k] = v
				k++
			}
		}
		kept.AddMany(buf[:k])
	}
}
