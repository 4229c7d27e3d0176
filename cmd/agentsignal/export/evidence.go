package export

import (
	"bytes"
	"cmp"
	"context"
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
	Public    Public          // where proofs for Kept are taken from that an export does not have; may be nil
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
func (r *Reader) evidence(ctx context.Context, h *head, x *Record) ([]Evidence, error) {
	newest := x.Checkpoint
	var list []Evidence
	all := append(h.Earlier, earlier{signed: h.signed})
	for _, own := range r.Kept {
		if slices.ContainsFunc(all, func(e earlier) bool { return sameNote(own, []byte(e.Checkpoint)) }) {
			continue
		}
		e, err := r.prove(ctx, own, newest)
		if err != nil {
			return nil, fmt.Errorf("the checkpoint that you kept: %w", err)
		}
		all = append(all, *e)
	}
	for _, e := range all {
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
		if before, parsed := record.ParseTallies(c.Gone); err == nil && (parsed != nil || x.Gone.Shrunk(before)) {
			err = fmt.Errorf("%w: erased accounts had %q and have %q", verify.ErrRewritten, c.Gone, newest.Gone)
		}
		if err != nil {
			return nil, fmt.Errorf("earlier checkpoint of %v: %w", c.At, err)
		}
		if slices.ContainsFunc(r.Kept, func(own []byte) bool { return sameNote(own, []byte(e.Checkpoint)) }) {
			list = append(list, Evidence{Checkpoint: c})
		}
		for _, w := range r.Witnesses {
			if n, err := note.Open([]byte(e.Checkpoint), note.VerifierList(w)); err == nil {
				list = append(list, Evidence{c, w.Name(), record.CosignedAt(n, w)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(a.Checkpoint.Size(), b.Checkpoint.Size()) })
	return list, nil
}

// prove returns a kept checkpoint for which an export has no proof, with one from the public tiles.
func (r *Reader) prove(ctx context.Context, own []byte, newest *verify.Checkpoint) (*earlier, error) {
	c, err := r.Keys.Open(own)
	switch {
	case err != nil:
		return nil, err
	case c.Origin != newest.Origin:
		return nil, verify.ErrOtherLog
	case c.Root.N > newest.Root.N:
		return nil, fmt.Errorf("%w: it is number %d, and that of the export number %d: make a newer export",
			verify.ErrOlder, c.Root.N, newest.Root.N)
	case r.Public == nil:
		return nil, fmt.Errorf("%w: the export has no proof for it, number %d: give --url, by which it is taken from the "+
			"public tiles, or make an export by agentsignal record export --since with its file", errForm, c.Root.N)
	}
	return proveByTiles(ctx, r.Public, own, c, newest)
}

// sameNote reports whether two notes have the same text, whoever has signed them.
func sameNote(a, b []byte) bool {
	a, _, _ = bytes.Cut(a, []byte("\n\n"))
	b, _, _ = bytes.Cut(b, []byte("\n\n"))
	return bytes.Equal(a, b)
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
