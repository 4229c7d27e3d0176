package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func FuzzParse(f *testing.F) {
	_, older, _ := history(f)
	f.Add(older.Text())
	f.Add("a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := verify.Parse(text); err == nil && c.Text() != text {
			t.Errorf("%q reads as %q", text, c.Text())
		} else if err != nil && !errors.Is(err, verify.ErrNote) {
			t.Error(err)
		}
	})
}

func FuzzParseHeads(f *testing.F) {
	_, older, _ := history(f)
	f.Add(older.Heads.Text())
	f.Add("heads\ntime 2026-11-23T12:00:00Z\nretention 60\naccounts 2 1\n0 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := verify.ParseHeads(text); err == nil && h.Text() != text {
			t.Errorf("%q reads as %q", text, h.Text())
		} else if err != nil && !errors.Is(err, verify.ErrEntry) {
			t.Error(err)
		}
	})
}

func FuzzParseMonth(f *testing.F) {
	f.Add((&verify.Month{Account: "a", Created: 3, Closed: 2, Month: "2026-11",
		Agents: []verify.AgentSum{{Agent: "a", Closed: 1, Priced: 1, Won: 1, Gains: 1.5, Costs: 1e-7}, {Agent: "b", Closed: 1}}}).Text())
	f.Fuzz(func(t *testing.T, text string) {
		m, err := verify.ParseMonth(text)
		if err != nil {
			if !errors.Is(err, verify.ErrLeaf) {
				t.Error(err)
			}
			return
		}
		if all := m.Sum(); m.Text() != text || all.Closed < 1 || all.Closed > m.Closed || all.Won > all.Priced {
			t.Errorf("%q reads as %q", text, m.Text())
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
		_, _ = verify.Matches(leaf.Text, "", text)
	})
}

func FuzzMatches(f *testing.F) {
	created, closed := Text(example("a", ""), Metadata(nil), after(1, 0)), Text(example("a", signal.StopLoss), "", after(1, 1))
	f.Add(created, closed, []byte(`{"signal_id":"sig_a","r":-1,"mfe_r":1.2346}`))
	f.Add(created, "", []byte(`{"signal_id":"sig_a","metadata":{},"x":{}}`))
	f.Fuzz(func(t *testing.T, created, closed string, shown []byte) {
		if unproved, _ := verify.Matches(created, closed, shown); slices.Contains(unproved, "signal_id") {
			t.Error("the identifier of a signal is not compared")
		}
	})
}

// FuzzCanonical checks that the canonical form reads as the value, and is its own canonical form.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1e21,-0.0,0.1,1e-7,"\u2028\\u2028<\u0001"],"a":{"\ud83d\ude00":null,"\ufb33":true}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v, again any
		if json.Unmarshal(text, &v) != nil {
			return
		}
		c := verify.Canonical(v)
		if err := json.Unmarshal(c, &again); err != nil || !bytes.Equal(verify.Canonical(again), c) {
			t.Errorf("%s has the canonical form %s, which is %s: %v", text, c, verify.Canonical(again), err)
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
		var entries []*verify.Recorded
		if json.Unmarshal(text, &entries) != nil {
			return
		}
		for _, e := range entries {
			if e == nil || e.Kind != "created" && e.Kind != "closed" || e.Number() < 1 || min(e.Created, e.Closed) < 0 {
				return // Holds refuses it
			}
		}
		if before, last, err := (&verify.Heads{}).Complete(entries); err == nil &&
			last.Created-before["created"] > int64(len(entries)) {
			t.Errorf("%d creations of %d entries, %v were before", last.Created, len(entries), before)
		}
	})
}

func FuzzOpen(f *testing.F) {
	l := newLedger(f, 2)
	l.add(0, []byte("s"), "a")
	signed, c := l.sign()
	f.Add(signed.Note)
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

// FuzzMetadata checks that the hash in a leaf is that of the canonical form by which a reader checks it.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"source":"simulated","cost_r":1e-7,"parameters":{"b":[1e21,-0.0,"\u2028"],"a":"\u00e9\\<"}}`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		members := map[string]any{}
		if jsonobject.Check(metadata) != nil || json.Unmarshal(metadata, &members) != nil || !jsontext.Value(metadata).IsValid() {
			return
		}
		want := fmt.Sprintf(`"metadata_sha256":"%x"`, sha256.Sum256(verify.Canonical(members)))
		if text := Metadata(metadata); !strings.HasSuffix(text, want) || !json.Valid([]byte("{"+text[1:]+"}")) {
			t.Errorf("the members of %s are %s, want %s", metadata, text, want)
		}
	})
}
