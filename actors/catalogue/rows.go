package catalogue

import (
	"math"
	"sort"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// blockRows is the number of rows that are allocated at once after the first block. The
// oldest blocks are freed as a whole.
const blockRows = 1024

// row is one signal. Its number is its rank in the order of creation.
type row struct {
	id      [16]byte // the ULID
	entry   float64  // NaN without prices
	created place
	closed  place // 0 while it is open
	asset   uint32
	conf    uint16 // listed confidence in 1/10,000: the current one, once closed the initial one
	kind    kind   // fills what would be padding
}

// place is a position in 64 bits: 48 for the milliseconds and 16 for the sequence number.
// Larger sequence numbers are kept in rows.far.
type place uint64

const (
	seqBits = 16
	seqMax  = 1<<seqBits - 1
	msMax   = 1<<(64-seqBits) - 1
)

func (p place) ms() int64 { return int64(p >> seqBits) }

// kind holds the number of the pair of agent and strategy, and the direction.
type kind uint16

const shortBit kind = 1 << 15

func (k kind) pair() int { return int(k &^ shortBit) }

func (k kind) direction() signal.Direction {
	if k&shortBit != 0 {
		return signal.Short
	}
	return signal.Long
}

// block is up to blockRows consecutive rows.
type block struct {
	rows []row
	last place // of the creation of its newest row
	// minID and maxID bound the times in the block's ULIDs, in milliseconds.
	minID, maxID int64
}

// rows holds an account's signals in the order of creation. Row numbers count from the
// first signal ever held; rows below first have been dropped.
type rows struct {
	blocks []block
	first  uint32 // number of the first row of blocks[0]; a multiple of blockRows
	next   uint32 // number of the next row
	open   int    // rows that are not closed
	openOf map[kind]int
	// far holds the sequence numbers that do not fit into a place: 2n is the key of the
	// creation of row n, 2n+1 that of its closing. It is only used while the clock of
	// Redis stands still.
	far map[uint64]int64
	// initial holds the confidence at creation of open rows whose current one has changed.
	initial map[uint32]uint16
}

func (r *rows) at(n uint32) *row {
	n -= r.first
	return &r.blocks[n/blockRows].rows[n%blockRows]
}

func (r *rows) add(v row) uint32 {
	n := r.next
	if (n-r.first)/blockRows == uint32(len(r.blocks)) {
		size := 0
		if len(r.blocks) > 0 {
			size = blockRows
		}
		r.blocks = append(r.blocks, block{rows: make([]row, 0, size), minID: math.MaxInt64})
	}
	b := &r.blocks[len(r.blocks)-1]
	b.rows = append(b.rows, v)
	ms := ulidTime(v.id)
	b.minID, b.maxID = min(b.minID, ms), max(b.maxID, ms)
	b.last = v.created
	r.next++
	r.countOpen(&v, 1)
	return n
}

// countOpen adds to the numbers of open rows like v.
func (r *rows) countOpen(v *row, n int) {
	if r.openOf == nil {
		r.openOf = map[kind]int{}
	}
	r.open += n
	if r.openOf[v.kind] += n; r.openOf[v.kind] == 0 {
		delete(r.openOf, v.kind)
	}
}

// pack returns p as a place, and stores a sequence number that does not fit in far.
func (r *rows) pack(p signal.Position, n uint32, closing uint64) place {
	if p.Seq > seqMax {
		if r.far == nil {
			r.far = map[uint64]int64{}
		}
		r.far[uint64(n)<<1|closing] = p.Seq
	}
	return packed(p)
}

// packed returns p as a place, with the largest sequence number that fits.
func packed(p signal.Position) place {
	return place(uint64(p.MS)<<seqBits | uint64(min(p.Seq, seqMax)))
}

func (r *rows) unpack(p place, n uint32, closing uint64) signal.Position {
	if p == 0 {
		return signal.Position{}
	}
	seq := int64(p & seqMax)
	if far, ok := r.far[uint64(n)<<1|closing]; ok {
		seq = far
	}
	return signal.Position{MS: p.ms(), Seq: seq}
}

func (r *rows) created(n uint32) signal.Position { return r.unpack(r.at(n).created, n, 0) }
func (r *rows) closed(n uint32) signal.Position  { return r.unpack(r.at(n).closed, n, 1) }

// rescore sets the current confidence of an open row.
func (r *rows) rescore(n uint32, conf uint16) {
	v := r.at(n)
	if v.conf == conf {
		return
	}
	if _, ok := r.initial[n]; !ok {
		if r.initial == nil {
			r.initial = map[uint32]uint16{}
		}
		r.initial[n] = v.conf
	}
	v.conf = conf
}

// close closes an open row at p and restores its initial confidence, because the last one
// before the end already reflects the outcome.
func (r *rows) close(n uint32, p signal.Position) {
	v := r.at(n)
	if conf, ok := r.initial[n]; ok {
		v.conf = conf
		delete(r.initial, n)
	}
	v.closed = r.pack(p, n, 1)
	r.countOpen(v, -1)
}

// after returns the number of the first row created after ms, or next.
func (r *rows) after(ms int64) uint32 {
	switch {
	case ms < 0:
		return r.first
	case ms >= msMax:
		return r.next
	}
	return r.from(place(ms+1) << seqBits)
}

// from returns the number of the first row created at p or later, or next.
func (r *rows) from(p place) uint32 {
	b := sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].last >= p })
	if b == len(r.blocks) {
		return r.next
	}
	in := r.blocks[b].rows
	i := sort.Search(len(in), func(i int) bool { return in[i].created >= p })
	return r.first + uint32(b*blockRows+i)
}

// findAt is like find, with the position of the creation if known: without it, a pass over a
// log with a million changes would search for seconds.
func (r *rows) findAt(id [16]byte, created signal.Position) (uint32, bool) {
	if !created.IsZero() {
		p := packed(created)
		for n := r.from(p); n < r.next && r.at(n).created == p; n++ { // more than one only if r.far has them
			if r.at(n).id == id {
				return n, true
			}
		}
	}
	return r.find(id)
}

// find returns the number of the row of a signal.
func (r *rows) find(id [16]byte) (uint32, bool) {
	ms := ulidTime(id)
	for b := len(r.blocks) - 1; b >= 0; b-- {
		if ms < r.blocks[b].minID || ms > r.blocks[b].maxID {
			continue
		}
		in := r.blocks[b].rows
		for i := range in {
			if in[i].id == id {
				return r.first + uint32(b*blockRows+i), true
			}
		}
	}
	return 0, false
}

// drop frees the blocks that contain only rows with numbers below n. It returns the
// number of the first row left.
func (r *rows) drop(n uint32) uint32 {
	whole := int(n-r.first) / blockRows
	if whole == 0 {
		return r.first
	}
	for _, b := range r.blocks[:whole] {
		for i := range b.rows {
			if b.rows[i].closed == 0 {
				r.countOpen(&b.rows[i], -1)
			}
		}
	}
	r.blocks = append([]block(nil), r.blocks[whole:]...)
	r.first += uint32(whole * blockRows)
	for key := range r.far {
		if uint32(key>>1) < r.first {
			delete(r.far, key)
		}
	}
	for n := range r.initial {
		if n < r.first {
			delete(r.initial, n)
		}
	}
	return r.first
}

// ulidTime returns the time in a ULID, in milliseconds.
func ulidTime(id [16]byte) int64 {
	return int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
}

// confUnits returns a confidence in the unit of rows.
func confUnits(c float64) uint16 {
	return uint16(math.Round(min(max(c, 0), 1) * confScale))
}

const confScale = 10_000

// minConfUnits returns the smallest confidence in the unit of rows that is not below c.
func minConfUnits(c float64) uint16 {
	// The product of a decimal such as 0.57 may come out just above a whole number.
	const tolerance = 1e-9
	return uint16(math.Ceil(c*confScale - tolerance))
}

// noGroup stands for an asset without signals.
const noGroup = math.MaxUint32

// assets numbers the spellings of assets and groups those with the same key.
type assets struct {
	name      func(asset string) string // see Options.Name
	spellings []string
	numbers   map[spelt]uint32
	groups    map[string]uint32 // key: number of its group
	groupOf   []uint32          // by spelling
	names     []string          // by group: its key as views compare it
}

// spelt is an asset as spelled by a signal, or a subject of content, which differs from an
// asset of the same text.
type spelt struct {
	name    string
	content bool
}

func (a *assets) number(text string, content bool) uint32 {
	if n, ok := a.numbers[spelt{text, content}]; ok {
		return n
	}
	if a.numbers == nil {
		a.numbers, a.groups = map[spelt]uint32{}, map[string]uint32{}
	}
	text = strings.Clone(text) // it may be part of a larger string
	n := uint32(len(a.spellings))
	a.spellings = append(a.spellings, text)
	a.numbers[spelt{text, content}] = n
	key := a.key(text, content)
	g, ok := a.groups[key]
	if !ok {
		g = uint32(len(a.groups))
		a.groups[key] = g
		a.names = append(a.names, strings.TrimPrefix(key, subjectKey))
	}
	a.groupOf = append(a.groupOf, g)
	return n
}

// subjectKey begins the keys of subjects of content: assets have no control characters.
const subjectKey = "\x00"

// key returns the key by which the signals of an asset are found, ignoring ASCII case:
// its catalogue name, or for content the subject itself. The two never coincide.
func (a *assets) key(asset string, content bool) string {
	if content {
		return subjectKey + spelling.Fold(asset)
	}
	return spelling.Fold(a.name(asset))
}

// group returns the number of the group with the given key, or noGroup.
func (a *assets) group(key string) uint32 {
	if g, ok := a.groups[key]; ok {
		return g
	}
	return noGroup
}

// unixMilli returns t in milliseconds, and the smallest integer for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMilli()
}
