package export

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Reader is what somebody who checks an export knows from elsewhere.
type Reader struct {
	Keys      Keys            // of the service
	Kept      [][]byte        // checkpoints that the reader has kept
	Witnesses []note.Verifier // whose signatures the reader trusts
}

// Evidence is a checkpoint that the service cannot have made up later.
type Evidence struct {
	Checkpoint *verify.Checkpoint
	By         string // the name of a witness; empty: the reader kept it
}

// evidence returns the checkpoints of an export behind which others than the service stand, the
// oldest first. It checks that the logs of the newest begin with those of each.
func (r *Reader) evidence(h *head, newest *verify.Checkpoint) ([]Evidence, error) {
	var list []Evidence
	kept := make([]bool, len(r.Kept))
	for _, e := range append(h.Earlier, earlier{Checkpoint: h.Checkpoint}) {
		c, err := r.Keys.open(e.Checkpoint)
		if err != nil {
			return nil, fmt.Errorf("earlier checkpoint: %w", err)
		}
		if e.Checkpoint != h.Checkpoint {
			if err := verify.Consistent(c, newest, e.Proofs); err != nil {
				return nil, fmt.Errorf("earlier checkpoint of %v: %w", c.At, err)
			}
		}
		for i, own := range r.Kept {
			if bytes.Equal(textOf(own), textOf([]byte(e.Checkpoint))) {
				kept[i] = true
				list = append(list, Evidence{Checkpoint: c})
			}
		}
		for _, w := range r.Witnesses {
			if _, err := note.Open([]byte(e.Checkpoint), note.VerifierList(w)); err == nil {
				list = append(list, Evidence{c, w.Name()})
			}
		}
	}
	for i, own := range r.Kept {
		if kept[i] {
			continue
		}
		c, err := r.Keys.open(string(own))
		if err != nil {
			return nil, fmt.Errorf("the checkpoint that you kept: %w", err)
		}
		if c.At.After(newest.At) {
			return nil, fmt.Errorf("%w: the checkpoint that you kept is of %v, and the export of %v: make a newer export",
				verify.ErrOlder, c.At, newest.At)
		}
		return nil, fmt.Errorf("%w: the export has no proof for the checkpoint of %v that you kept: "+
			"make one by agentsignal record export --since with its file", errForm, c.At)
	}
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(a.Checkpoint.Size(), b.Checkpoint.Size()) })
	return list, nil
}

// textOf returns what was signed of a note.
func textOf(signed []byte) []byte {
	text, _, _ := bytes.Cut(signed, []byte("\n\n"))
	return text
}

// Origin is where the prices of a signal came from, and how fast time went.
type Origin struct {
	Source string  `json:"source"`           // empty: it has no prices
	Speed  float64 `json:"time_compression"` // times real time; 0: real time
}

// String returns o in words.
func (o Origin) String() string {
	switch {
	case o.Source == "":
		return "no prices"
	case o.Speed > 1:
		return fmt.Sprintf("%s at %g times real time", o.Source, o.Speed)
	}
	return o.Source + " in real time"
}

// count counts what the order of the leaves shows of a signal. closed is nil while it is open.
func (r *Record) count(created, closed *verify.Leaf, end *verify.Entry, from Origin) {
	r.Origins[from]++
	if len(r.Evidence) > 0 && created.Index >= r.Evidence[0].Checkpoint.Logs[created.Log].N {
		r.Later++
	}
	if closed == nil {
		return
	}
	if created.Index < end.Signed {
		r.Committed++
	}
	if slices.ContainsFunc(r.Evidence, func(e Evidence) bool {
		n := e.Checkpoint.Logs[created.Log].N
		return created.Index < n && n <= closed.Index
	}) {
		r.CommittedOutside++
	}
}

// Simulated returns the number of signals whose prices the service has made itself.
func (r *Record) Simulated() (n int64) {
	for o, count := range r.Origins {
		if o.Source == "simulated" {
			n += count
		}
	}
	return n
}
