package export

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// sign returns the next checkpoint of a record.
func sign(tb testing.TB, s *Sample) *record.Signed {
	tb.Helper()
	c, err := s.Checkpoint()
	if err != nil {
		tb.Fatal(err)
	}
	s.Signed = c.Logs[ownLog].N
	return c
}

// cosigned returns a checkpoint with the signature of a witness, and its key.
func cosigned(tb testing.TB, c *record.Signed) (*record.Signed, note.Verifier) {
	tb.Helper()
	private, public, err := note.GenerateKey(nil, "witness")
	if err != nil {
		tb.Fatal(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		tb.Fatal(err)
	}
	n, err := note.Open(c.Note, note.VerifierList(v))
	unverified, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		tb.Fatal(n, err)
	}
	unverified.Note.Sigs, unverified.Note.UnverifiedSigs = unverified.Note.UnverifiedSigs, nil
	both := *c
	if both.Note, err = note.Sign(unverified.Note, s); err != nil {
		tb.Fatal(err)
	}
	return &both, v
}

// TestEvidenceIsCounted: what lies after it, and what lies between a creation and its closing.
func TestEvidenceIsCounted(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 10)
	first := sign(t, s)
	s.Add(5)
	second, witness := cosigned(t, sign(t, s))
	s.Add(5)
	s.Earlier = []*record.Signed{first, second}
	type counts struct{ Evidence, Later, Committed, Outside int64 }
	for name, row := range map[string]struct {
		by   Reader
		want counts
	}{
		// The tenth signal was open at the first checkpoint, the fifteenth at the second.
		"nothing":             {Reader{Keys: keys}, counts{0, 0, 2, 0}},
		"the first was kept":  {Reader{Keys: keys, Kept: [][]byte{first.Note}}, counts{1, 10, 2, 1}},
		"a witness of second": {Reader{Keys: keys, Witnesses: []note.Verifier{witness}}, counts{1, 5, 2, 1}},
		"both": {Reader{Keys: keys, Kept: [][]byte{second.Note, first.Note}, Witnesses: []note.Verifier{witness}},
			counts{3, 10, 2, 2}},
	} {
		r, err := Check(t.Context(), strings.NewReader(written(t, s)), row.by, &bytes.Buffer{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := counts{int64(len(r.Evidence)), r.Later, r.Committed, r.CommittedOutside}
		if d := cmp.Diff(row.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	r, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &bytes.Buffer{})
	if d := cmp.Diff(map[Origin]int64{{Source: "stream"}: 20}, r.Origins); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if d := cmp.Diff(map[string]int64{"status": 1, "updated_at": 19}, r.Unproved); d != "" {
		t.Error(d)
	}
}

// TestEvidenceThatContradictsARecord is named, as is what is no evidence for it.
func TestEvidenceThatContradictsARecord(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 10)
	kept := sign(t, s)
	text := written(t, s)
	other, _, _ := sample(t, 3)
	rewritten, err := NewSample(s.Keys) // a second service with the same key
	if err != nil {
		t.Fatal(err)
	}
	rewritten.Add(12)
	for range 9 {
		sign(t, rewritten)
	}
	rewritten.Earlier = []*record.Signed{kept}
	s.Add(3)
	grown := written(t, s)
	newer := sign(t, s)
	for name, row := range map[string]struct {
		text string
		kept []byte
		want string
		is   error
	}{
		"without its proof": {grown, kept.Note, "the export has no proof for it, number", errForm},
		"of another service": {grown, sign(t, other).Note, "the checkpoint that you kept: not a checkpoint of this service",
			verify.ErrNote},
		"of a rewritten past": {written(t, rewritten), kept.Note, "the logs of the two checkpoints are not the same",
			verify.ErrRewritten},
		"newer than it": {text, newer.Note, "make a newer export", verify.ErrOlder},
		"no checkpoint": {text, []byte("x"), "not a checkpoint", verify.ErrNote},
	} {
		_, err := Check(t.Context(), strings.NewReader(row.text), Reader{Keys: keys, Kept: [][]byte{row.kept}}, &bytes.Buffer{})
		if !errors.Is(err, row.is) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
}

// TestSignalsYoungerThanTheRetention cannot have been removed by it.
func TestSignalsYoungerThanTheRetention(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 60)
	s.Retention = 45 * time.Minute
	s.signals = s.signals[10:]
	r, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &bytes.Buffer{})
	if err != nil || r.Before != 10 {
		t.Errorf("%+v, %v", r, err)
	}
	s.signals = s.signals[20:]
	_, err = Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &bytes.Buffer{})
	if !errors.Is(err, verify.ErrMissing) || !strings.Contains(err.Error(), "created number 30 of 60") ||
		!strings.Contains(err.Error(), "is younger than the retention of 45m0s") {
		t.Error(err)
	}
}

// TestEvidenceOfLaterThanTheEnd shows nothing of what came first, whatever the order of the leaves.
func TestEvidenceOfLaterThanTheEnd(t *testing.T) {
	t.Parallel()
	for later, want := range map[time.Duration]int64{0: 1, 2 * time.Hour: 0} {
		s, _, keys := sample(t, 10)
		s.Now = s.Now.Add(later)
		kept := sign(t, s)
		s.Now = s.Now.Add(-later)
		s.Add(1) // and the one before closes
		s.Now = s.Now.Add(3 * time.Hour)
		s.Earlier = []*record.Signed{kept}
		by := Reader{Keys: keys, Kept: [][]byte{kept.Note}}
		r, err := Check(t.Context(), strings.NewReader(written(t, s)), by, &bytes.Buffer{})
		if err != nil || r.CommittedOutside != want {
			t.Errorf("%v later: %d before their end, %v, want %d", later, r.CommittedOutside, err, want)
		}
	}
}
