package codec

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// LogHead is the state of a partition's Merkle log: its size and root hash, the position of the
// signal log up to which entries have leaves, how many leaves are those of months, how many accounts ever
// had one, how many of these were erased, and the tallies of the signals of these (verify.Tallies).
type LogHead struct {
	Size             int64
	Root             [32]byte
	UpTo             signal.Position
	Months           int64
	Accounts, Erased int64
	Gone             string
}

// String returns the stored form of h, "SIZE ROOT POSITION MONTHS ACCOUNTS ERASED GONE".
func (h LogHead) String() string {
	return fmt.Sprintf("%d %s %s %d %d %d %s", h.Size, base64.StdEncoding.EncodeToString(h.Root[:]), h.UpTo, h.Months,
		h.Accounts, h.Erased, h.Gone)
}

// ParseLogHead is the inverse of String. An empty text is the head of a log without leaves, whose
// Root is zero.
func ParseLogHead(text string) (h LogHead, err error) {
	if text == "" {
		return h, nil
	}
	words := strings.SplitN(text, " ", 7)
	if len(words) != 7 {
		return h, fmt.Errorf("head of a log %q has %d words", text, len(words))
	}
	size, err := strconv.ParseInt(words[0], 10, 64)
	root, err2 := base64.StdEncoding.Strict().DecodeString(words[1])
	position, ok := signal.ParsePosition(words[2])
	months, err3 := strconv.ParseInt(words[3], 10, 64)
	accounts, err4 := strconv.ParseInt(words[4], 10, 64)
	erased, err5 := strconv.ParseInt(words[5], 10, 64)
	if errors.Join(err, err2, err3, err4, err5) != nil || !ok || size < 1 || len(root) != len(h.Root) {
		return h, fmt.Errorf("head of a log %q is not valid", text)
	}
	h = LogHead{Size: size, Root: [32]byte(root), UpTo: position, Months: months, Accounts: accounts, Erased: erased,
		Gone: words[6]}
	if h.String() != text {
		return LogHead{}, fmt.Errorf("head of a log %q is not of the written form", text)
	}
	return h, nil
}

// LeafPlace is where the leaf of an entry of the signal log is, and what its text counts.
type LeafPlace struct {
	Index           int64
	Created, Closed int64 // signals of the account
	// Prev is the leaf before it of the same account, its index plus 1; 0 for the first. It names
	// the account of an entry that is no longer stored, as long as the account exists.
	Prev int64
	// Previous is when the account had created the signal before a creation, in milliseconds; else 0.
	Previous int64
	// Signed is how many leaves the newest checkpoint had when a signal closed; of a creation 0.
	Signed int64
	// Months is how many leaves of months the log has before this one. They have no place.
	Months int64
}

// AppendLeafPlace appends the stored form of p.
func AppendLeafPlace(b []byte, p LeafPlace) []byte {
	b = binary.AppendUvarint(append(b, Version), uint64(p.Index))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Created)), uint64(p.Closed))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Prev)), uint64(p.Previous))
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.Signed)), uint64(p.Months))
}

// DecodeLeafPlace is the inverse of AppendLeafPlace.
func DecodeLeafPlace(b []byte) (LeafPlace, error) {
	d := Decode(b)
	p := LeafPlace{Index: d.count(), Created: d.count(), Closed: d.count(), Prev: d.count(), Previous: d.count(),
		Signed: d.count(), Months: d.count()}
	return p, d.Err
}

// LeafAccount is what opens the leaves of an account, and how many there are.
type LeafAccount struct {
	Salt            []byte
	Created, Closed int64 // signals
	Last            int64 // the newest leaf: its index plus 1; 0 without leaves
	Newest          int64 // when the newest signal was created, in milliseconds; 0 without one
	Months          int64 // leaves of months
	// Running is the text that the next leaf of a month would have now, by verify.Month; empty without closings since the last.
	Running string
}

// AppendLeafAccount appends the stored form of a.
func AppendLeafAccount(b []byte, a LeafAccount) []byte {
	b = binary.AppendUvarint(append(b, Version), uint64(a.Created))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.Closed)), uint64(a.Last))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.Newest)), uint64(a.Months))
	return append(AppendString(b, a.Running), a.Salt...)
}

// DecodeLeafAccount is the inverse of AppendLeafAccount. The salt is not empty.
func DecodeLeafAccount(b []byte) (LeafAccount, error) {
	d := Decode(b)
	a := LeafAccount{Created: d.count(), Closed: d.count(), Last: d.count(), Newest: d.count(),
		Months: d.count(), Running: string(d.TextBytes(d.Byte()))}
	if a.Salt = append([]byte(nil), d.B...); len(a.Salt) == 0 {
		d.Fail(ErrShort)
	}
	return a, d.Err
}

// LeafMonth is a leaf with the sums of a month of an account.
type LeafMonth struct {
	Index int64
	Text  string
}

// AppendLeafMonth appends the stored form of m.
func AppendLeafMonth(b []byte, m LeafMonth) []byte {
	return append(binary.AppendUvarint(append(b, Version), uint64(m.Index)), m.Text...)
}

// DecodeLeafMonth is the inverse of AppendLeafMonth.
func DecodeLeafMonth(b []byte) (LeafMonth, error) {
	d := Decode(b)
	return LeafMonth{d.count(), string(d.B)}, d.Err
}

// RootEntry is what is stored of an entry of the root log: the rest of it follows from the tiles of
// the logs.
type RootEntry struct {
	At        time.Time     // in whole seconds
	Retention time.Duration // in whole seconds
	Accounts  int64         // with leaves
	Erased    int64         // of these
	Gone      string        // of the signals of erased accounts: verify.Tallies
	Sizes     []int64       // of the logs
}

// Rollback is an accepted rollback in the root log.
type Rollback struct {
	At   time.Time // in whole seconds
	Lost int64     // entries that the root log had
	Root [32]byte  // the root of these
}

// Kinds of entries of the root log.
const (
	kindHeads = iota
	kindRollback
)

// AppendRollback appends the stored form of r.
func AppendRollback(b []byte, r *Rollback) []byte {
	b = binary.AppendUvarint(append(b, Version, kindRollback), uint64(r.At.Unix()))
	return append(binary.AppendUvarint(b, uint64(r.Lost)), r.Root[:]...)
}

// AppendRootEntry appends the stored form of e.
func AppendRootEntry(b []byte, e *RootEntry) []byte {
	b = binary.AppendUvarint(append(b, Version, kindHeads), uint64(e.At.Unix()))
	b = binary.AppendUvarint(b, uint64(e.Retention/time.Second))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.Accounts)), uint64(e.Erased))
	b = binary.AppendUvarint(AppendText(b, e.Gone), uint64(len(e.Sizes)))
	for _, n := range e.Sizes {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// DecodeRootEntry is the inverse of AppendRootEntry and of AppendRollback: it returns one of both.
func DecodeRootEntry(b []byte) (*RootEntry, *Rollback, error) {
	d := Decode(b)
	switch kind := d.Byte(); kind {
	case kindHeads:
	case kindRollback:
		r := &Rollback{At: time.Unix(d.count(), 0).UTC(), Lost: d.count()}
		if d.Err == nil && len(d.B) != len(r.Root) {
			d.Fail(ErrShort)
		}
		copy(r.Root[:], d.B)
		return nil, r, d.Err
	default:
		d.Fail(fmt.Errorf("entry of the root log has the kind %d", kind))
		return nil, nil, d.Err
	}
	e := &RootEntry{At: time.Unix(d.count(), 0).UTC(), Retention: time.Duration(min(d.count(), math.MaxUint32)) * time.Second,
		Accounts: d.count(), Erased: d.count(), Gone: d.Text()}
	for n := d.count(); n > 0 && d.Err == nil; n-- {
		e.Sizes = append(e.Sizes, d.count())
	}
	return e, nil, d.Err
}
