package recordpage

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/publicrecord"
)

// proofOf returns what the steps on the page check a signal with: lines of a name and a value. Of a proof there is a line for
// each hash, from the leaf to the root, behind "left" or "right", its side. It returns nil for a signal without leaves.
func proofOf(r *publicrecord.Record, s *publicrecord.Signal) []byte {
	if s.CreatedLeaf == nil {
		return nil
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", name, value) }
	base64Of := func(text []byte) string { return base64.StdEncoding.EncodeToString(text) }
	steps := func(name string, n, leaf int64, proof tlog.RecordProof) {
		for i, left := range sides(n, leaf) {
			side := "right"
			if left {
				side = "left"
			}
			line(name, side+" "+proof[i].String())
		}
	}
	line("note", base64Of(r.Note))
	line("heads", base64Of([]byte(r.Checkpoint.Entry.Text)))
	steps("heads-step", r.Checkpoint.Root.N, r.Checkpoint.Root.N-1, r.Checkpoint.Entry.Proof)
	for _, name := range []string{"created", "closed"} {
		l := s.CreatedLeaf
		if name == "closed" {
			l = s.ClosedLeaf
		}
		if l == nil {
			continue
		}
		line(name, base64Of([]byte(l.Text)))
		line(name+"-salt", hex.EncodeToString(l.Salt))
		line(name+"-log", fmt.Sprint(l.Log))
		steps(name+"-step", l.Size, l.Index, l.Proof)
	}
	return []byte(b.String())
}

// sides reports for each hash of the proof of a leaf, from the leaf to the root of a tree of n leaves, whether it is that of
// the part to the left.
func sides(n, leaf int64) []bool {
	if n <= 1 {
		return nil
	}
	half := int64(1)
	for half*2 < n {
		half *= 2
	}
	if leaf < half {
		return append(sides(half, leaf), false)
	}
	return append(sides(n-half, leaf-half), true)
}
