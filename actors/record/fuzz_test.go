package record

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

func FuzzParse(f *testing.F) {
	_, older, _ := history(f)
	f.Add(older.Text())
	f.Add("a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\ntime 2026-11-23T12:00:00Z\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := verify.Parse(text); err == nil && c.Text() != text {
			t.Errorf("%q reads as %q", text, c.Text())
		} else if err != nil && !errors.Is(err, verify.ErrNote) {
			t.Error(err)
		}
	})
}

func FuzzLeaf(f *testing.F) {
	l, _, newer := history(f)
	p := l.prove(newer, 1, 5)
	b, _ := json.Marshal(p)
	f.Add(b)
	f.Fuzz(func(t *testing.T, text []byte) {
		var leaf verify.Leaf
		if json.Unmarshal(text, &leaf) != nil {
			return
		}
		e, err := newer.Holds(&leaf)
		if err != nil {
			return
		}
		if known := l.logs[leaf.Log].leaves[leaf.Index]; known.Text != leaf.Text {
			t.Errorf("%+v is proved by %s", e, text)
		}
		verify.Matches(leaf.Text, text)
	})
}

func FuzzMatches(f *testing.F) {
	f.Add(`{"signal_id":"a","x":{}}`, []byte(`{"signal_id":"a","x":{}}`))
	f.Add(`{"signal_id":"a","x_r":1}`, []byte(`{"signal_id":"a","x_r":1.00001}`))
	f.Fuzz(func(t *testing.T, text string, shown []byte) {
		if n, err := verify.Matches(text, shown); err == nil && n == 0 {
			t.Error("nothing was compared")
		}
	})
}

// FuzzComplete checks that any counts are compared in the time of their number.
func FuzzComplete(f *testing.F) {
	f.Add([]byte(`[{"kind":"created","created":4,"closed":1},{"kind":"closed","created":5,"closed":3}]`))
	f.Add(
		[]byte(
			`[{"kind":"created","created":1,"closed":9},{"kind":"closed","created":9223372036854775807,"closed":1}]`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		var entries []*verify.Entry
		if json.Unmarshal(text, &entries) != nil {
			return
		}
		for _, e := range entries {
			if e == nil || e.Kind != "created" && e.Kind != "closed" || e.Number() < 1 || min(e.Created, e.Closed) < 0 {
				return // Holds refuses it
			}
		}
		if before, last, err := verify.Complete(entries); err == nil &&
			last.Created-before["created"] > int64(len(entries)) {
			t.Errorf("%d creations of %d entries, %v were before", last.Created, len(entries), before)
		}
	})
}

func FuzzOpen(f *testing.F) {
	l := newLedger(f, 2)
	l.add(0, []byte("s"), "a")
	signed, c := l.sign()
	f.Add(signed)
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := verify.Open(text, l.verifiers()...); err == nil && got.Text() != c.Text() {
			t.Errorf("%q is accepted", text)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add("PRIVATE+KEY+a+00000000+AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ParseKeys(text); err == nil && (k.Name() == "" || len(k.Public()) == 0) {
			t.Errorf("keys without a name")
		}
	})
}
