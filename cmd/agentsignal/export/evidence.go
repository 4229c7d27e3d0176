package export

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record"
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
	By         string    // the name of a witness; empty: the reader kept it
	Seen       time.Time // by the clock of the witness; zero if it does not sign that
}

// at returns when the checkpoint was there for sure.
func (e *Evidence) at() time.Time {
	if e.Seen.After(e.Checkpoint.At) {
		return e.Seen
	}
	return e.Checkpoint.At
}

// evidence returns the checkpoints of an export behind which others than the service stand, the
// oldest first. It checks that the logs of the newest begin with those of each.
func (r *Reader) evidence(h *head, newest *verify.Checkpoint) ([]Evidence, error) {
	var list []Evidence
	kept := make([]bool, len(r.Kept))
	for _, e := range append(h.Earlier, earlier{signed: h.signed}) {
		c, err := r.Keys.open(&e.signed)
		if errors.Is(err, verify.ErrEntry) { // its own log had other entries
			err = fmt.Errorf("%w: %w", verify.ErrRewritten, err)
		}
		if err != nil {
			return nil, fmt.Errorf("earlier checkpoint: %w", err)
		}
		if e.Growth != nil {
			err = e.Consistent(c, newest)
		} else if c.Root != newest.Root {
			err = fmt.Errorf("%w: its proof is missing", verify.ErrIncomplete)
		}
		if err != nil {
			return nil, fmt.Errorf("earlier checkpoint of %v: %w", c.At, err)
		}
		for i, own := range r.Kept {
			if bytes.Equal(textOf(own), textOf([]byte(e.Checkpoint))) {
				kept[i] = true
				list = append(list, Evidence{Checkpoint: c})
			}
		}
		for _, w := range r.Witnesses {
			if n, err := note.Open([]byte(e.Checkpoint), note.VerifierList(w)); err == nil {
				list = append(list, Evidence{c, w.Name(), record.CosignedAt(n, w)})
			}
		}
	}
	for i, own := range r.Kept {
		if kept[i] {
			continue
		}
		c, err := r.Keys.Open(own)
		if err != nil {
			return nil, fmt.Errorf("the checkpoint that you kept: %w", err)
		}
		if c.Root.N > newest.Root.N {
			return nil, fmt.Errorf("%w: the checkpoint that you kept is number %d, and that of the export number %d: "+
				"make a newer export", verify.ErrOlder, c.Root.N, newest.Root.N)
		}
		return nil, fmt.Errorf("%w: the export has no proof for checkpoint number %d that you kept: "+
			"make one by agentsignal record export --since with its file", errForm, c.Root.N)
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
