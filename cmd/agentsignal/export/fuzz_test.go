package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzExport checks that what is accepted of a changed export is what the sample recorded.
func FuzzExport(f *testing.F) {
	s, text, keys := sample(f, 4)
	f.Add([]byte(text))
	f.Add([]byte(`{"export":1,"checkpoint":"x"}` + "\n" + `{"end":{"signals":0}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Check(t.Context(), bytes.NewReader(text), Reader{Keys: keys}, io.Discard)
		if err == nil && (r.Signals+r.Before != int64(len(s.signals)) || r.Closed != 3) {
			t.Errorf("%+v of %s", r, text)
		}
	})
}

func FuzzProof(f *testing.F) {
	s, _, keys := sample(f, 4)
	c := sign(f, s)
	l, err := s.line(c.Checkpoint, 1)
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(proof{signed{string(c.Note), c.Entry}, l.Created, l.Closed})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, []byte(l.Signal))
	f.Fuzz(func(t *testing.T, text, shown []byte) {
		p, err := CheckProof(text, shown, "", keys)
		if err == nil && p.Created.Account != "acc_sample" {
			t.Errorf("%+v of %s", p, text)
		}
	})
}

func FuzzConsistency(f *testing.F) {
	s, _, keys := sample(f, 4)
	older := sign(f, s)
	s.Add(3)
	text, err := s.Consistency(older)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		was, is, err := CheckConsistency(older.Note, text, nil, keys)
		if err == nil && is.Size() < was.Size() {
			t.Errorf("%+v and %+v of %s", was, is, text)
		}
	})
}

func FuzzScorecard(f *testing.F) {
	s, text, keys := sample(f, 12)
	r, err := Check(f.Context(), strings.NewReader(text), Reader{Keys: keys}, io.Discard)
	if err != nil {
		f.Fatal(err)
	}
	card, err := s.Scorecard(.1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(card)
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := r.Card(text)
		if err == nil && c.Count > len(r.results) || err != nil && !errors.Is(err, errScorecard) && !Unreadable(err) {
			t.Errorf("%+v, %v of %s", c, err, text)
		}
	})
}

func FuzzKeys(f *testing.F) {
	s, _, _ := sample(f, 1)
	f.Add(s.Keys.Public()[0])
	f.Add("PRIVATE+KEY+a+00000000+AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "@") {
			return // a file
		}
		if k, err := ParseKeys([]string{text}); err == nil && len(k) == 0 {
			t.Error("no keys, and no error")
		}
	})
}
