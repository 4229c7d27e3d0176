// Package verify checks a record of signals without the service that keeps it: two files, the
// standard library and golang.org/x/mod/sumdb, which checks Go's own checksum database.
//
// A service keeps Merkle logs, one for each partition of its accounts. Every creation and every
// closing of a signal is a leaf. The root log has an entry for each checkpoint, with the size and the
// root hash of each log; a checkpoint is a signed note with the size and the root hash of the root
// log, as every log's. A leaf hides its text behind the salt of its account; a reader with text, salt
// and proof can check that this text, and no other, was a leaf at the time of the checkpoint. The
// text counts the creations and closings of the account, so a missing signal leaves a gap. When a month is over, a leaf gets
// the sums of its results by agent, which outlive the signals.
//
// Checkpoints are signed by the service alone, with times of its own clock, so a record proves that
// it is consistent with itself: nothing in it was changed or removed between two checkpoints. That
// it is as old as it claims follows only from a checkpoint that a third party has kept or signed.
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
	MaxNote = 16 << 10 // bytes of a checkpoint with its signatures
	MaxLogs = 1024     // logs of a service
	maxSize = 1 << 48  // leaves of a log

	// retentionSlack is how much younger than the retention a signal may be when it is removed, at most
	// a tenth of it: clocks differ, and a checkpoint is older than what is read beside it.
	retentionSlack = time.Hour
)

// Errors, each naming a kind of tampering or a wrong file.
var (
	ErrNote       = errors.New("not a checkpoint of this service")
	ErrEntry      = errors.New("not the entry of the root log that belongs to the checkpoint")
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

// Heads is an entry of the root log.
type Heads struct {
	At        time.Time     // when it was made, by the clock of the service
	Retention time.Duration // signals are kept so long, in whole seconds
	Accounts  int64         // that ever had a leaf
	Erased    int64         // of these
	Gone      string        // AGENT=SIGNALS/WON/LOST of each agent of erased accounts, separated by spaces
	Logs      []tlog.Tree   // size and root hash of each log
}

// Size returns the number of leaves of all logs.
func (h *Heads) Size() int64 {
	var n int64
	for _, l := range h.Logs {
		n += l.N
	}
	return n
}

// Text returns the text of the entry.
func (h *Heads) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "heads\ntime %s\nretention %d\naccounts %d %d", h.At.UTC().Format(time.RFC3339),
		int64(h.Retention.Seconds()), h.Accounts, h.Erased)
	b.WriteString(strings.TrimRight(" "+h.Gone, " ") + "\n")
	for _, l := range h.Logs {
		fmt.Fprintf(&b, "%d %v\n", l.N, l.Hash)
	}
	return b.String()
}

// ParseHeads is the inverse of Heads.Text. It accepts nothing that Text would not write.
func ParseHeads(text string) (*Heads, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 5 || len(lines) > 5+MaxLogs {
		return nil, fmt.Errorf("%w: it has %d lines", ErrEntry, len(lines))
	}
	h := &Heads{}
	at, err1 := time.Parse("time "+time.RFC3339, lines[1])
	seconds, err2 := strconv.ParseUint(strings.TrimPrefix(lines[2], "retention "), 10, 32)
	_, err3 := fmt.Sscanf(lines[3], "accounts %d %d", &h.Accounts, &h.Erased)
	if words := strings.SplitN(lines[3], " ", 4); len(words) == 4 {
		h.Gone = words[3]
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	h.At, h.Retention = at, time.Duration(seconds)*time.Second
	for i, line := range lines[4 : len(lines)-1] {
		size, root, _ := strings.Cut(line, " ")
		tree, err := parseTree(size, root)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrEntry, i+5, err)
		}
		h.Logs = append(h.Logs, tree)
	}
	if h.Text() != text {
		return nil, fmt.Errorf("%w: its lines do not belong together", ErrEntry)
	}
	return h, nil
}

func parseTree(size, root string) (tlog.Tree, error) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 || n > maxSize {
		return tlog.Tree{}, fmt.Errorf("%.40q is not a size", size)
	}
	hash, err := tlog.ParseHash(root)
	return tlog.Tree{N: n, Hash: hash}, err
}

// Checkpoint is a signed note, with the last entry of the root log that it is of.
type Checkpoint struct {
	Origin string    // the name of the signer
	Root   tlog.Tree // size and root hash of the root log
	Heads
}

// Text returns the text to sign, that of any log (C2SP tlog-checkpoint).
func (c *Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%v\n", c.Origin, c.Root.N, c.Root.Hash)
}

// Parse is the inverse of Text. It accepts nothing that Text would not write.
func Parse(text string) (*Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return nil, fmt.Errorf("%w: it has %d lines", ErrNote, len(lines))
	}
	tree, err := parseTree(lines[1], lines[2])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNote, err)
	}
	c := &Checkpoint{Origin: lines[0], Root: tree}
	if c.Text() != text {
		return nil, fmt.Errorf("%w: it is not of the written form", ErrNote)
	}
	return c, nil
}

// Open checks the signatures of a checkpoint by the given public keys, of which one must have
// signed, and returns what it says. Its heads are not known before ReadHeads.
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

// Entry is the text of the last entry of a root log, with the proof that the log has it.
type Entry struct {
	Text  string           `json:"text"`
	Proof tlog.RecordProof `json:"proof"`
}

// ReadHeads checks that the root log ends with an entry, and takes the heads of the logs from it.
func (c *Checkpoint) ReadHeads(e *Entry) error {
	if e == nil || c.Root.N < 1 {
		return fmt.Errorf("%w: it is missing", ErrEntry)
	}
	if tlog.CheckRecord(e.Proof, c.Root.N, c.Root.Hash, c.Root.N-1, tlog.RecordHash([]byte(e.Text))) != nil {
		return fmt.Errorf("%w: the root log does not end with it", ErrEntry)
	}
	h, err := ParseHeads(e.Text)
	if err == nil {
		c.Heads = *h
	}
	return err
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

// Recorded is what verification needs of a leaf's text, a JSON object.
type Recorded struct {
	Kind    string `json:"kind"` // "created" or "closed"
	Account string `json:"account"`
	Created int64  `json:"created"` // signals of the account created so far, this one included
	Closed  int64  `json:"closed"`  // as closed
	Signal  string `json:"signal_id"`
	// At is when the signal was created; zero in closings.
	At time.Time `json:"created_at"`
	// Previous is when the account had created the signal before; nil in its first, and in closings.
	Previous *time.Time `json:"previous_created_at"`
	// Signed is how many leaves of the log the newest checkpoint had when a signal closed: its
	// creation was committed before the end if it is among them.
	Signed int64 `json:"signed_leaves"`
}

// Number returns the number of the entry among those of its kind and account.
func (e *Recorded) Number() int64 {
	if e.Kind == "created" {
		return e.Created
	}
	return e.Closed
}

// Holds checks that a log of the checkpoint has the leaf of a creation or a closing, and returns its
// text.
func (h *Heads) Holds(l *Leaf) (*Recorded, error) {
	if err := h.contains(l); err != nil {
		return nil, err
	}
	var e Recorded
	_, err := parseLeaf(l.Text)
	if err == nil {
		err = json.Unmarshal([]byte(l.Text), &e)
	}
	if err != nil || e.Kind != "created" && e.Kind != "closed" || e.Number() < 1 || min(e.Created, e.Closed) < 0 ||
		e.Kind == "created" && (e.Created == 1) != (e.Previous == nil) || e.Signed < 0 || e.Signed > l.Index {
		return nil, ErrLeaf
	}
	return &e, nil
}

// Growth proves that logs begin with what they were before.
type Growth struct {
	Root tlog.TreeProof   `json:"root"`   // of the root log
	Logs []tlog.TreeProof `json:"proofs"` // of each log
}

// Consistent checks that the root log and each log of the newer checkpoint begin with all that they
// had in the older one.
func (g *Growth) Consistent(older, newer *Checkpoint) error {
	if older.Origin != newer.Origin || len(older.Logs) != len(newer.Logs) {
		return ErrOtherLog
	}
	if newer.At.Before(older.At) || newer.Root.N < older.Root.N {
		return ErrOlder
	}
	if len(g.Logs) != len(newer.Logs) {
		return fmt.Errorf("%w: %d proofs for %d logs", ErrIncomplete, len(g.Logs), len(newer.Logs))
	}
	if err := begins(older.Root, newer.Root, g.Root); err != nil {
		return fmt.Errorf("%w: the root log %w", ErrRewritten, err)
	}
	if newer.Accounts < older.Accounts || newer.Erased < older.Erased {
		return fmt.Errorf("%w: there were %d accounts, %d of them erased, and are %d and %d", ErrRewritten,
			older.Accounts, older.Erased, newer.Accounts, newer.Erased)
	}
	for i, was := range older.Logs {
		if err := begins(was, newer.Logs[i], g.Logs[i]); err != nil {
			return fmt.Errorf("%w: log %d %w", ErrRewritten, i, err)
		}
	}
	return nil
}

// begins checks that a log begins with the leaves that it had.
func begins(was, is tlog.Tree, proof tlog.TreeProof) error {
	switch {
	case is.N < was.N:
		return fmt.Errorf("had %d leaves and has %d", was.N, is.N)
	case was.N == 0: // every log begins with nothing
	case tlog.CheckTree(proof, is.N, is.Hash, was.N, was.Hash) != nil:
		return fmt.Errorf("does not begin with its %d leaves of then", was.N)
	}
	return nil
}

// Complete checks that the entries of an account, from proofs of this checkpoint in any order, are
// all its creations from the first one shown to the newest, and all closings since that first one,
// except for as many as older signals were open then: retention removes the oldest signals, also if
// they closed late. What it cannot have removed yet must be there. Complete returns how many were
// before the first one, and the newest entry by its counts; what has happened after it is not known.
func (h *Heads) Complete(entries []*Recorded) (before map[string]int64, last *Recorded, err error) {
	numbers := map[string]map[int64]bool{"created": {}, "closed": {}}
	created := map[int64]time.Time{} // by number
	var first *Recorded              // creation
	for _, e := range entries {
		if e.Account != entries[0].Account || numbers[e.Kind][e.Number()] {
			return nil, nil, fmt.Errorf("%w: entries of two accounts, or two with one number", ErrDiffers)
		}
		if numbers[e.Kind][e.Number()] = true; e.Kind == "created" {
			created[e.Created] = e.At
		}
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
	for _, e := range entries {
		if was, ok := created[e.Created-1]; ok && e.Kind == "created" && (e.Previous == nil || !e.Previous.Equal(was)) {
			return nil, nil, fmt.Errorf("%w: created number %d names another time for the one before", ErrDiffers, e.Created)
		}
	}
	if was := first.Previous; was != nil && was.After(h.At.Add(min(retentionSlack, h.Retention/10)-h.Retention)) {
		return nil, nil, fmt.Errorf("%w: created number %d of %d, of %s, is younger than the retention of %s",
			ErrMissing, before["created"], last.Created, was.UTC().Format(time.RFC3339), h.Retention)
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
