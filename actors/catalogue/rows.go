package catalogue

import (
	"math"
	"sort"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// blockRows is how many rows are allocated at once, once an account has that
// many. Blocks of the oldest signals are given back whole.
const blockRows = 1024

// row is one signal. Its number is its place in the order of creation.
type row struct {
	id      [16]byte // the ULID
	entry   float64  // NaN without prices
	created place
	closed  place // 0 while it is open
	asset   uint32
	conf    uint16 // confidence in 1/10,000
	kind    kind
}

// place is a position in 64 bits: 48 of milliseconds and 16 of the sequence
// number. A greater sequence number is kept aside, see rows.far.
type place uint64

const (
	seqBits = 16
	seqMax  = 1<<seqBits - 1
)

func (p place) ms() int64 { return int64(p >> seqBits) }

// kind holds the strategy, from which the agent follows, and the direction.
type kind uint8

const shortBit kind = 1 << 7

func (k kind) strategy() int { return int(k &^ shortBit) }

func (k kind) direction() signal.Direction {
	if k&shortBit != 0 {
		return signal.Short
	}
	return signal.Long
}

// block is up to blockRows consecutive rows.
type block struct {
	rows []row
	// minID and maxID bound the times, in milliseconds, inside the ULIDs.
	minID, maxID int64
}

// rows holds an account's signals in the order of creation. Numbers of rows count
// from the first signal ever held; those below first have been given back.
type rows struct {
	blocks []block
	first  uint32 // number of the first row of blocks[0]; a multiple of blockRows
	next   uint32 // number of the next row
	open   int    // rows that are not closed
	// far has the sequence numbers that do not fit a place: 2n for the creation of
	// row n, 2n+1 for its closing. It stays empty unless the clock of Redis stood.
	far map[uint64]int64
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
	r.next++
	r.open++
	return n
}

// pack makes a place of p and keeps aside what does not fit.
func (r *rows) pack(p signal.Position, n uint32, closing uint64) place {
	if p.Seq > seqMax {
		if r.far == nil {
			r.far = map[uint64]int64{}
		}
		r.far[uint64(n)<<1|closing] = p.Seq
		return place(uint64(p.MS)<<seqBits | seqMax)
	}
	return place(uint64(p.MS)<<seqBits | uint64(p.Seq))
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

// after returns the number of the first row created after ms; next if none was.
func (r *rows) after(ms int64) uint32 {
	b := sort.Search(len(r.blocks), func(i int) bool {
		rows := r.blocks[i].rows
		return rows[len(rows)-1].created.ms() > ms
	})
	if b == len(r.blocks) {
		return r.next
	}
	in := r.blocks[b].rows
	i := sort.Search(len(in), func(i int) bool { return in[i].created.ms() > ms })
	return r.first + uint32(b*blockRows+i)
}

// findAt is find with a guess: a pass over a log of a million changes knows where
// their signals were created, and searching their ids would take it seconds.
func (r *rows) findAt(id [16]byte, created signal.Position) (uint32, bool) {
	if !created.IsZero() {
		for n := r.after(created.MS - 1); n < r.next && r.at(n).created.ms() == created.MS; n++ {
			if r.at(n).id == id {
				return n, true
			}
		}
	}
	return r.find(id)
}

// find returns the number of the signal with the given id.
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

// drop gives back the blocks whose rows all have numbers below n, and returns the
// number below which it did.
func (r *rows) drop(n uint32) uint32 {
	whole := int(n-r.first) / blockRows
	if whole == 0 {
		return r.first
	}
	for _, b := range r.blocks[:whole] {
		for i := range b.rows {
			if b.rows[i].closed == 0 {
				r.open--
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
	return r.first
}

// ulidTime returns the milliseconds inside a ULID.
func ulidTime(id [16]byte) int64 {
	return int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
}

// confUnits returns a confidence in the unit of rows.
func confUnits(c float64) uint16 {
	return uint16(math.Round(min(max(c, 0), 1) * confScale))
}

const confScale = 10_000

// least returns the least confidence, in the unit of rows, that is at least c.
func least(c float64) uint16 {
	// The product of a decimal such as 0.57 may come out just above a whole number.
	const tolerance = 1e-9
	return uint16(math.Ceil(c*confScale - tolerance))
}

// noGroup is the number of no group.
const noGroup = math.MaxUint32

// assets gives each spelling of an asset a number, and groups the spellings that have
// the same key. See strategies.key.
type assets struct {
	spellings []string
	numbers   map[spelt]uint32
	groups    map[string]uint32 // key: number of its group
	groupOf   []uint32          // by spelling
}

// spelt is an asset as signals name it; that of content is another thing.
type spelt struct {
	name    string
	content bool
}

func (a *assets) number(t *strategies, spelling string, content bool) uint32 {
	if n, ok := a.numbers[spelt{spelling, content}]; ok {
		return n
	}
	if a.numbers == nil {
		a.numbers, a.groups = map[spelt]uint32{}, map[string]uint32{}
	}
	spelling = strings.Clone(spelling) // it may be part of a larger text
	n := uint32(len(a.spellings))
	a.spellings = append(a.spellings, spelling)
	a.numbers[spelt{spelling, content}] = n
	key := t.key(spelling, content)
	g, ok := a.groups[key]
	if !ok {
		g = uint32(len(a.groups))
		a.groups[key] = g
	}
	a.groupOf = append(a.groupOf, g)
	return n
}

// group returns the number of the group with a key, or noGroup.
func (a *assets) group(key string) uint32 {
	if g, ok := a.groups[key]; ok {
		return g
	}
	return noGroup
}

// fold maps ASCII letters to lower case and leaves all else.
func fold(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// unixMilli is the millisecond of t; the least integer for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMilli()
}
