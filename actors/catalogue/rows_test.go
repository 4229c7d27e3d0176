package catalogue

import (
	"encoding/binary"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Rows of one millisecond, more than their place can number, lie in many blocks.
func TestRowsAreFoundByTheirPosition(t *testing.T) {
	t.Parallel()
	var r rows
	const ms, together = 1_795_253_400_000, seqMax + 3000
	at := func(n uint32) signal.Position {
		if n < together {
			return signal.Position{MS: ms, Seq: int64(n)}
		}
		return signal.Position{MS: ms + int64(n), Seq: 0}
	}
	id := func(n uint32) (id [16]byte) {
		binary.BigEndian.PutUint32(id[12:], n)
		return id
	}
	const rows = together + 2000
	for n := range uint32(rows) {
		r.add(row{id: id(n), created: r.pack(at(n), n, 0)})
	}
	for _, n := range []uint32{0, 1, blockRows - 1, blockRows, 5000, seqMax - 1, seqMax, together, rows - 1} {
		if got := r.from(packed(at(n))); got != n {
			t.Errorf("row %d begins at %d", n, got)
		}
	}
	for _, n := range []uint32{0, 5000, seqMax, seqMax + 1, together - 1, together, rows - 1} {
		if got, ok := r.findAt(id(n), at(n)); got != n || !ok {
			t.Errorf("row %d is found as %d, %t", n, got, ok)
		}
	}
	for p, want := range map[int64]uint32{-1: 0, ms - 1: 0, ms: together, ms + rows: rows, msMax: rows, 1 << 62: rows} {
		if got := r.after(p); got != want {
			t.Errorf("the first row after %d ms is %d, want %d", p, got, want)
		}
	}
}
