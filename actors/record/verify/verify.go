// Package verify checks a record of signals without the service that keeps it: two files, the
// standard library and golang.org/x/mod/sumdb, which checks Go's own checksum database.
//
// A service keeps Merkle logs, one for each partition of its accounts. Every creation and every
// closing of a signal is a leaf. A checkpoint is a signed note that lists the size and the root
// hash of each log. A leaf hides its text behind the salt of its account; a reader with text, salt
// and proof can check that this text, and no other, was a leaf at the time of the checkpoint. The
// text counts the creations and closings of the account, so a missing signal leaves a gap.
//
// Checkpoints are signed by the service alone, with times of its own clock, so a record proves that
// it is consistent with itself: nothing in it was changed or removed between two checkpoints. That
// it is as old as it claims follows only from a checkpoint that somebody else has kept or signed.
// Where prices came from, and that no second service ran with results that were kept back, is the
// operator's word.
package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Limits of what is read.
const (
	MaxNote = 128 << 10 // bytes of a checkpoint with its signatures
	MaxLogs = 1024      // logs of a checkpoint
	maxSize = 1 << 48   // leaves of a log
)

// Errors, each naming a kind of tampering or a wrong file.
var (
	ErrNote       = errors.New("not a checkpoint of this service")
	ErrNotIn      = errors.New("the leaf is not in the log: its text, salt, place or proof was changed")
	ErrTooNew     = errors.New("the leaf is newer than the checkpoint: take a later one")
	ErrRewritten  = errors.New("the logs of the two checkpoints are not the same: leaves were changed or removed")
	ErrOlder      = errors.New("an old head: the second checkpoint is older than the first")
	ErrOtherLog   = errors.New("the checkpoints are of different services")
	ErrMissing    = errors.New("signals are missing")
	ErrDiffers    = errors.New("the signal is not the one in the record")
	ErrLeaf       = errors.New("the text of the leaf is not readable")
	ErrIncomplete = errors.New("the file is cut short or not readable")
)

// Checkpoint is the text of a signed note.
type Checkpoint struct {
	Origin    string        // the name of the signer
	At        time.Time     // when it was signed, by the clock of the service
	Retention time.Duration // signals are kept so long, in whole seconds
	Logs      []tlog.Tree   // size and root hash of each log
}

// Size returns the number of leaves of all logs.
func (c *Checkpoint) Size() int64 {
	var n int64
	for _, l := range c.Logs {
		n += l.N
	}
	return n
}

// Root returns the root hash of a tree whose leaves are the lines of the logs.
func (c *Checkpoint) Root() tlog.Hash {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			hashes[i] = stored[index]
		}
		return hashes, nil
	})
	for i := range c.Logs {
		hashes, _ := tlog.StoredHashes(int64(i), []byte(c.line(i)), read) // read returns no errors
		stored = append(stored, hashes...)
	}
	root, _ := tlog.TreeHash(int64(len(c.Logs)), read)
	return root
}

func (c *Checkpoint) line(i int) string {
	return fmt.Sprintf("log %d %d %v\n", i, c.Logs[i].N, c.Logs[i].Hash)
}

// Text returns the text to sign: origin, size and root hash as in every checkpoint of a log, and
// then the time, the retention and a line for each log.
func (c *Checkpoint) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d\n%v\ntime %s\nretention %d\n", c.Origin, c.Size(), c.Root(),
		c.At.UTC().Format(time.RFC3339), int64(c.Retention.Seconds()))
	for i := range c.Logs {
		b.WriteString(c.line(i))
	}
	return b.String()
}

// Parse is the inverse of Text. It accepts nothing that Text would not write.
func Parse(text string) (*Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 6 || len(lines) > 6+MaxLogs {
		return nil, fmt.Errorf("%w: it has %d lines", ErrNote, len(lines))
	}
	at, err := time.Parse("time "+time.RFC3339, lines[3])
	if err != nil {
		return nil, fmt.Errorf("%w: its fourth line is not a time", ErrNote)
	}
	seconds, ok := strings.CutPrefix(lines[4], "retention ")
	retention, err := strconv.ParseUint(seconds, 10, 32)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: its fifth line is not a retention", ErrNote)
	}
	c := &Checkpoint{Origin: lines[0], At: at, Retention: time.Duration(retention) * time.Second}
	for i, line := range lines[5 : len(lines)-1] {
		words := strings.Split(line, " ")
		if len(words) != 4 {
			return nil, fmt.Errorf("%w: line %d is not a log", ErrNote, i+6)
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		hash, err2 := tlog.ParseHash(words[3])
		if err != nil || err2 != nil || size < 0 || size > maxSize {
			return nil, fmt.Errorf("%w: line %d has no size and hash", ErrNote, i+6)
		}
		c.Logs = append(c.Logs, tlog.Tree{N: size, Hash: hash})
	}
	if c.Text() != text {
		return nil, fmt.Errorf("%w: its lines do not belong together", ErrNote)
	}
	return c, nil
}

// Open checks the signatures of a checkpoint by the given public keys, of which one must have
// signed, and returns what it says.
func Open(signed []byte, keys ...note.Verifier) (*Checkpoint, error) {
	if len(signed) > MaxNote {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrNote, MaxNote)
	}
	n, err := note.Open(signed, note.VerifierList(keys...))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNote, err)
	}
	c, err := Parse(n.Text)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return s.Name == c.Origin }) {
		return nil, fmt.Errorf("%w: it is of %s, which has not signed it", ErrNote, c.Origin)
	}
	return c, nil
}

// Leaf is an opened leaf with the proof that a log has it.
type Leaf struct {
	Log   int              `json:"log"`
	Index int64            `json:"index"`
	Size  int64            `json:"size"` // of the log for which the proof holds
	Text  string           `json:"text"`
	Salt  []byte           `json:"salt"`
	Proof tlog.RecordProof `json:"proof"`
}

// Commit returns the data of a leaf: what the log stores of a text.
func Commit(salt []byte, text string) []byte {
	h := hmac.New(sha256.New, salt)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Entry is what verification needs of a leaf's text, a JSON object.
type Entry struct {
	Kind    string `json:"kind"` // "created" or "closed"
	Account string `json:"account"`
	Created int64  `json:"created"` // signals of the account created so far, this one included
	Closed  int64  `json:"closed"`  // as closed
	Signal  string `json:"signal_id"`
	// Previous is when the account had created the signal before; nil in its first, and in closings.
	Previous *time.Time `json:"previous_created_at"`
	// Signed is how many leaves of the log the newest checkpoint had when a signal closed: its
	// creation was committed before the end if it is among them.
	Signed int64 `json:"signed_leaves"`
}

// Number returns the number of the entry among those of its kind and account.
func (e *Entry) Number() int64 {
	if e.Kind == "created" {
		return e.Created
	}
	return e.Closed
}

// Holds checks that a log of the checkpoint has the leaf, and returns the leaf's text.
func (c *Checkpoint) Holds(l *Leaf) (*Entry, error) {
	if l.Log < 0 || l.Log >= len(c.Logs) || l.Index < 0 {
		return nil, fmt.Errorf("%w: there is no log %d", ErrNotIn, l.Log)
	}
	tree := c.Logs[l.Log]
	switch {
	case l.Index >= tree.N:
		return nil, ErrTooNew
	case l.Size != tree.N:
		return nil, fmt.Errorf("%w: the proof is for another checkpoint, with %d leaves", ErrNotIn, l.Size)
	}
	if tlog.CheckRecord(l.Proof, tree.N, tree.Hash, l.Index, tlog.RecordHash(Commit(l.Salt, l.Text))) != nil {
		return nil, ErrNotIn
	}
	var e Entry
	err := json.Unmarshal([]byte(l.Text), &e)
	if err != nil || e.Kind != "created" && e.Kind != "closed" || e.Number() < 1 || min(e.Created, e.Closed) < 0 ||
		e.Kind == "created" && (e.Created == 1) != (e.Previous == nil) || e.Signed < 0 || e.Signed > l.Index {
		return nil, ErrLeaf
	}
	return &e, nil
}

// Consistent checks that each log of the newer checkpoint begins with all leaves of the older one.
// proofs has a proof for each log.
func Consistent(older, newer *Checkpoint, proofs []tlog.TreeProof) error {
	if older.Origin != newer.Origin || len(older.Logs) != len(newer.Logs) {
		return ErrOtherLog
	}
	if newer.At.Before(older.At) {
		return ErrOlder
	}
	if len(proofs) != len(newer.Logs) {
		return fmt.Errorf("%w: %d proofs for %d logs", ErrIncomplete, len(proofs), len(newer.Logs))
	}
	for i, was := range older.Logs {
		is := newer.Logs[i]
		switch {
		case is.N < was.N:
			return fmt.Errorf("%w: log %d had %d leaves and has %d", ErrRewritten, i, was.N, is.N)
		case was.N == 0: // every log begins with nothing
		case tlog.CheckTree(proofs[i], is.N, is.Hash, was.N, was.Hash) != nil:
			return fmt.Errorf("%w: log %d", ErrRewritten, i)
		}
	}
	return nil
}

// Complete checks that the entries of an account, from proofs of this checkpoint in any order, are
// all its creations from the first one shown to the newest, and all closings since that first one,
// except for as many as older signals were open then: retention removes the oldest signals, also if
// they closed late. What it cannot have removed yet must be there. Complete returns how many were
// before the first one, and the newest entry by its counts; what has happened after it is not known.
func (c *Checkpoint) Complete(entries []*Entry) (before map[string]int64, last *Entry, err error) {
	numbers := map[string]map[int64]bool{"created": {}, "closed": {}}
	var first *Entry // creation
	for _, e := range entries {
		if e.Account != entries[0].Account || numbers[e.Kind][e.Number()] {
			return nil, nil, fmt.Errorf("%w: entries of two accounts, or two with one number", ErrDiffers)
		}
		numbers[e.Kind][e.Number()] = true
		if e.Kind == "created" && (first == nil || e.Created < first.Created) {
			first = e
		}
		if last == nil || e.Created+e.Closed > last.Created+last.Closed {
			last = e
		}
	}
	if first == nil {
		return nil, nil, fmt.Errorf("%w: there are no creations", ErrIncomplete)
	}
	before = map[string]int64{"created": first.Created - 1, "closed": first.Closed}
	if was := first.Previous; was != nil && was.After(c.At.Add(-c.Retention)) {
		return nil, nil, fmt.Errorf("%w: created number %d of %d, of %s, is younger than the retention of %s",
			ErrMissing, before["created"], last.Created, was.UTC().Format(time.RFC3339), c.Retention)
	}
	older := before["created"] - before["closed"] // that were open
	check := func(kind string, to, mayMiss int64) error {
		from, missing := before[kind], to-before[kind]
		for n := range numbers[kind] {
			if n > from {
				missing--
			}
		}
		for n := from + 1; missing > max(mayMiss, 0); n++ {
			if !numbers[kind][n] {
				return fmt.Errorf("%w: %s number %d of %d", ErrMissing, kind, n, to)
			}
		}
		return nil
	}
	err = errors.Join(check("created", last.Created, 0), check("closed", last.Closed, older))
	return before, last, err
}
