package signal

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Position is the place of an event in its partition's event log and the time of the
// event: the ID of its Redis Stream entry. The zero value lies before every event.
type Position struct {
	MS  int64 // milliseconds since 1970 by the clock of Redis
	Seq int64 // counts the entries of one millisecond
}

// Time returns the time of the event at p, in UTC.
func (p Position) Time() time.Time { return time.UnixMilli(p.MS).UTC() }

// IsZero reports whether p is the zero value, before every event.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns -1 if p lies before q, 0 if they are equal, and +1 if p lies after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.MS, q.MS), cmp.Compare(p.Seq, q.Seq))
}

// Later returns the one of p and q that does not lie before the other.
func (p Position) Later(q Position) Position {
	if p.Compare(q) < 0 {
		return q
	}
	return p
}

// Plus returns the position of the n-th entry after p in the same append.
func (p Position) Plus(n int) Position { return Position{p.MS, p.Seq + int64(n)} }

// String returns p as "ms-seq", the form that Redis and clients use.
func (p Position) String() string {
	var b [41]byte
	return string(p.Append(b[:0]))
}

// Append appends p to b in the form of String.
func (p Position) Append(b []byte) []byte {
	b = strconv.AppendInt(b, p.MS, 10)
	b = append(b, '-')
	return strconv.AppendInt(b, p.Seq, 10)
}

// ParsePosition parses the form of String. Signs and spaces are refused.
func ParsePosition(s string) (Position, bool) {
	ms, seq, ok := strings.Cut(s, "-")
	if !ok {
		return Position{}, false
	}
	m, err := strconv.ParseUint(ms, 10, 63)
	if err != nil {
		return Position{}, false
	}
	n, err := strconv.ParseUint(seq, 10, 63)
	if err != nil {
		return Position{}, false
	}
	return Position{int64(m), int64(n)}, true
}
