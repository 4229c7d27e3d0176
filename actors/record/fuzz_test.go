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
