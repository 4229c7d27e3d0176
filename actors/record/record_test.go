package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// ledger is a record in memory: logs, and what opens their leaves.
type ledger struct {
	testing.TB
	keys  *Keys
	root  *log
	logs  []*log
	clock time.Time
}

// log is one Merkle log with its tiles.
type log struct {
	tree   *Tree
	tiles  map[[2]int64][]byte
	leaves []verify.Leaf
}

func newLog() *log { return &log{tree: &Tree{}, tiles: map[[2]int64][]byte{}} }

func newLedger(tb testing.TB, logs int) *ledger {
	tb.Helper()
	key, err := NewKey("")
	if err != nil {
		tb.Fatal(err)
	}
	l := &ledger{TB: tb, root: newLog(), clock: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	if l.keys, err = ParseKeys(key); err != nil {
		tb.Fatal(err)
	}
	for range logs {
		l.logs = append(l.logs, newLog())
	}
	return l
}

// write stores pieces at their offsets.
func (g *log) write(pieces []Piece) {
	for _, p := range pieces {
		key := [2]int64{int64(p.Level), p.Tile}
		tile := g.tiles[key]
		if len(tile) < p.Offset+len(p.Hashes) {
			tile = append(tile, make([]byte, p.Offset+len(p.Hashes)-len(tile))...)
		}
		copy(tile[p.Offset:], p.Hashes)
		g.tiles[key] = tile
	}
}

// read implements Tiles.
func (g *log) read(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		stored := g.tiles[[2]int64{int64(t.L), t.N}]
		data[i] = stored[:min(len(stored), t.W*tlog.HashSize)]
	}
	return data, nil
}

// add appends leaves of texts to a log.
func (l *ledger) add(n int, salt []byte, texts ...string) {
	g := l.logs[n]
	var hashes []tlog.Hash
	for _, text := range texts {
		g.leaves = append(g.leaves, verify.Leaf{Log: n, Index: g.tree.Size() + int64(len(hashes)), Text: text, Salt: salt})
		hashes = append(hashes, LeafHash(salt, text))
	}
	g.write(g.tree.Append(hashes))
}

// sign returns a checkpoint, signed and read.
func (l *ledger) sign() (*Signed, *verify.Checkpoint) {
	l.Helper()
	l.clock = l.clock.Add(time.Minute)
	heads := verify.Heads{At: l.clock}
	for _, g := range l.logs {
		head, err := g.tree.Head()
		if err != nil {
			l.Fatal(err)
		}
		heads.Logs = append(heads.Logs, head)
	}
	signed, pieces, err := l.keys.Sign(l.root.tree, heads)
	if err != nil {
		l.Fatal(err)
	}
	l.root.write(pieces)
	read, err := verify.Open(signed.Note, l.verifiers()...)
	if err == nil {
		err = read.ReadHeads(&signed.Entry)
	}
	if err != nil {
		l.Fatal(err)
	}
	return signed, read
}

func (l *ledger) verifiers() (list []note.Verifier) {
	for _, public := range l.keys.Public() {
		v, err := note.NewVerifier(public)
		if err != nil {
			l.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// prove returns leaf i of a log with its proof.
func (l *ledger) prove(c *verify.Checkpoint, n, i int) verify.Leaf {
	l.Helper()
	leaf := l.logs[n].leaves[i]
	leaf.Size = c.Logs[n].N
	var err error
	if leaf.Proof, err = Inclusion(c.Logs[n], int64(i), l.logs[n].read); err != nil {
		l.Fatal(err)
	}
	return leaf
}

// consistency returns the proof that a newer checkpoint begins with an older one.
func (l *ledger) consistency(older, newer *verify.Checkpoint) *verify.Growth {
	l.Helper()
	g, err := &verify.Growth{}, error(nil)
	if g.Root, err = Consistency(newer.Root, min(older.Root.N, newer.Root.N), l.root.read); err != nil {
		l.Fatal(err)
	}
	for i, was := range older.Logs {
		// A log that has become shorter has no proof.
		p, err := Consistency(newer.Logs[i], min(was.N, newer.Logs[i].N), l.logs[i].read)
		if err != nil {
			l.Fatal(err)
		}
		g.Logs = append(g.Logs, p)
	}
	return g
}

func price(v float64) *float64 { return &v }

// example returns a signal, closed if reason is not empty.
func example(id string, reason signal.CloseReason) *signal.Signal {
	at := time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)
	s := &signal.Signal{ID: signal.SignalID("sig_" + id), Account: "acc_1", Agent: "trading", Asset: `B"TC`,
		Strategy: "momentum", Timeframe: signal.H1, Risk: signal.LowRisk, Direction: signal.Long, Confidence: .4371,
		Levels: &signal.Levels{Entry: 100, Stop: 99, Target: 101.5}, CreatedAt: at, ExpiresAt: at.Add(time.Hour),
		MFE: 1.23456, MAE: -.5,
		Metadata: []byte(`{"source":"simulated","reasoning":"one \u2028 <two>"}`)}
	if reason != "" {
		s.Closing = &signal.Closing{
			Reason:          reason,
			At:              at.Add(time.Minute),
			ExitPrice:       price(99),
			PnLPercent:      price(-1),
			PnLAbsolute:     price(-1),
			DurationMinutes: 1,
		}
	}
	return s
}

// after returns the place of a leaf with which its account has created and closed so many signals.
func after(created, closed int64) Place {
	p := Place{Counts: Counts{created, closed}}
	if created > 1 {
		p.Previous = time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC) // as all examples
	}
	return p
}

func TestTextOfALeaf(t *testing.T) {
	t.Parallel()
	created := Text(example("a", ""), Metadata([]byte(`{ "cost_r":0.1,"a":-0.0, "source":"x" }`)), after(7, 5))
	if d := cmp.Diff(`{"v":2,"kind":"created","account":"acc_1","created":7,"closed":5,"signal_id":"sig_a",`+
		`"previous_created_at":"2026-11-23T09:30:00.000Z","agent_id":"trading","asset":"B\"TC",`+
		`"strategy":"momentum","timeframe":"1h","risk_level":"low",`+
		`"direction":"long","initial_confidence":0.4371,"entry_price":100,"stop_loss":99,"take_profit":101.5,`+
		`"created_at":"2026-11-23T09:30:00.000Z","expires_at":"2026-11-23T10:30:00.000Z",`+
		`"metadata":{"cost_r":0.1,"source":"x"},"metadata_sha256":"`+
		fmt.Sprintf("%x", sha256.Sum256([]byte(`{"a":0,"cost_r":0.1,"source":"x"}`)))+`"}`, created); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(`{"v":2,"kind":"closed","account":"acc_1","created":7,"closed":6,"signal_id":"sig_a",`+
		`"signed_leaves":5,"final_confidence":0.4371,"mfe_r":1.23456,"mae_r":-0.5,`+
		`"closed_at":"2026-11-23T09:31:00.000Z","close_reason":"stop_loss","exit_price":99,`+
		`"metadata":{"stale_exit":true}}`, Text(example("a", signal.StopLoss), ClosingMetadata([]byte(`{"stale_exit":true}`)),
		Place{Counts: Counts{7, 6}, Signed: 5})); d != "" {
		t.Error(d)
	}
	content := example("a", "")
	content.Levels = nil
	if text := Text(content, Metadata(nil), after(1, 0)); !strings.Contains(text, `"entry_price":null`) ||
		!json.Valid([]byte(text)) {
		t.Errorf("without prices: %s", text)
	}
	if text := UnreadableText([]byte("x")); !json.Valid([]byte(text)) {
		t.Error(text)
	}
}

// TestTheCanonicalForm is that of section 3.2.2 of RFC 8785.
func TestTheCanonicalForm(t *testing.T) {
	t.Parallel()
	var v any
	if err := json.Unmarshal([]byte(`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,`+
		`1e-7,1e100,-1e-300,1e21,123456789012345680000],`+
		`"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`), &v); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,`+
		`1e-7,1e+100,-1e-300,1e+21,123456789012345680000],`+
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`, string(verify.Canonical(v))); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{`{"\ufb33":1,"\ud83d\ude00":2}`: "{\"😀\":2,\"\ufb33\":1}",
		`["\u2028","\\u2028","<&>",-0]`: "[\"\u2028\",\"\\\\u2028\",\"<&>\",0]"} {
		if err := json.Unmarshal([]byte(text), &v); err != nil || string(verify.Canonical(v)) != want {
			t.Errorf("%s is %s, want %s: %v", text, verify.Canonical(v), want, err)
		}
	}
}

// TestTreesAreThoseOfTheLibrary compares head and proofs with those of hashes that tlog stores.
func TestTreesAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	g := &log{tree: &Tree{}, tiles: map[[2]int64][]byte{}}
	var stored []tlog.Hash
	all := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, stored[i])
		}
		return list, nil
	})
	r := rand.New(rand.NewPCG(1, 2))
	const most = 3*tileWidth*tileWidth/2 + 77 // a third level
	for size := 0; size < most; {
		n := min(1+r.IntN(1+r.IntN(3000)), most-size)
		var leaves []tlog.Hash
		for i := range n {
			leaf := tlog.RecordHash(fmt.Append(nil, size+i))
			hashes, err := tlog.StoredHashesForRecordHash(int64(size+i), leaf, all)
			if err != nil {
				t.Fatal(err)
			}
			stored, leaves = append(stored, hashes...), append(leaves, leaf)
		}
		g.write(g.tree.Append(leaves))
		size += n
		want, _ := tlog.TreeHash(int64(size), all)
		head, err := g.tree.Head()
		if err != nil || head.Hash != want || head.N != int64(size) {
			t.Fatalf("head of %d: %v %v, want %v", size, head, err, want)
		}
		loaded, err := LoadTree(int64(size), func(level int, n int64) ([]byte, error) {
			return g.tiles[[2]int64{int64(level), n}], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(g.tree, loaded, cmp.AllowUnexported(Tree{})); d != "" {
			t.Fatalf("edge of %d from its tiles: %s", size, d)
		}
		i := r.Int64N(int64(size))
		proof, err := Inclusion(head, i, g.read)
		if err == nil {
			err = tlog.CheckRecord(proof, head.N, head.Hash, i, stored[tlog.StoredHashIndex(0, i)])
		}
		if err != nil {
			t.Fatalf("leaf %d of %d: %v", i, size, err)
		}
		was := tlog.Tree{N: i}
		was.Hash, _ = tlog.TreeHash(i, all)
		grown, err := Consistency(head, i, g.read)
		if err == nil && i > 0 {
			err = tlog.CheckTree(grown, head.N, head.Hash, was.N, was.Hash)
		}
		if err != nil {
			t.Fatalf("%d leaves begin with %d: %v", size, i, err)
		}
	}
	if _, err := LoadTree(300, func(int, int64) ([]byte, error) { return nil, nil }); err == nil {
		t.Error("a tree is loaded from tiles that are missing")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 2)
	l.add(1, []byte("s"), "a")
	signed, c := l.sign()
	first := l.verifiers()[0]
	old := l.keys.signers[0]
	second, err := NewKey(l.keys.Name())
	if err != nil {
		t.Fatal(err)
	}
	if l.keys, err = ParseKeys(second); err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Open(signed.Note, l.verifiers()...); !errors.Is(err, verify.ErrNote) {
		t.Errorf("a checkpoint of another key: %v", err)
	}
	l.keys.signers = append(l.keys.signers, old)
	both, _ := l.sign() // the key that replaces signs with the replaced one
	for _, v := range []note.Verifier{first, l.verifiers()[0]} {
		if got, err := verify.Open(both.Note, v); err != nil || got.Origin != c.Origin {
			t.Errorf("by one key of two: %v %v", got, err)
		}
	}
	other, _ := NewKey("")
	for text, want := range map[string]string{
		"":                            "there are 0 keys",
		"nonsense":                    "key 1 is not",
		second + "," + other:          "key 2 has the name",
		strings.Repeat(second+" ", 6): "there are 6 keys",
		second[:len(second)-5]:        "key 1 is not",
	} {
		if _, err := ParseKeys(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if len(text) > 20 && strings.Contains(err.Error(), text[len(text)-20:]) {
			t.Errorf("the error contains a key: %v", err)
		}
	}
}

// history is a ledger with creations and closings of an account between those of others, and
// a checkpoint in the middle and one at the end.
func history(tb testing.TB) (l *ledger, older, newer *verify.Checkpoint) {
	l = newLedger(tb, 3)
	salt := bytes.Repeat([]byte{7}, SaltSize)
	for i := range 20 {
		l.add(0, []byte("other"), fmt.Sprint(i))
		l.add(1, salt, Text(example(fmt.Sprint(i), ""), Metadata(example("", "").Metadata), after(int64(i+1), int64(i))))
		l.add(1, []byte("another"), fmt.Sprint(i))
		l.add(1, salt, Text(example(fmt.Sprint(i), signal.StopLoss), "", after(int64(i+1), int64(i+1))))
		if i == 9 {
			_, older = l.sign()
		}
	}
	_, newer = l.sign()
	return l, older, newer
}

func TestARecordIsVerified(t *testing.T) {
	t.Parallel()
	l, older, newer := history(t)
	var entries []*verify.Recorded
	for i, leaf := range l.logs[1].leaves {
		if len(leaf.Salt) != SaltSize {
			continue
		}
		leaf = l.prove(newer, 1, i)
		e, err := newer.Holds(&leaf)
		if err != nil {
			t.Fatalf("leaf %d: %v", i, err)
		}
		entries = append(entries, e)
	}
	before, last, err := newer.Complete(entries)
	if err != nil || before["closed"] != 0 || last.Created != 20 || last.Closed != 20 {
		t.Errorf("complete: %v %+v %v", before, last, err)
	}
	before, _, err = newer.Complete(entries[8:])
	if err != nil || before["closed"] != 4 {
		t.Errorf("after what retention has cut: %v %v", before, err)
	}
	if err := l.consistency(older, newer).Consistent(older, newer); err != nil {
		t.Error(err)
	}
	unproved, err := verify.Matches(l.logs[1].leaves[0].Text, l.logs[1].leaves[2].Text, []byte(`{"signal_id":"sig_0",`+
		`"exit_price":99.0,"mfe_r":1.2346,"final_confidence":0.4371,"close_reason":"stop_loss","r":-1,"pnl_percent":-1,`+
		`"duration_minutes":1,"status":"closed","stars":5,"metadata":{"reasoning":"one \u2028 <two>","source":"simulated"}}`))
	if d := cmp.Diff([]string{"stars"}, unproved); d != "" || err != nil {
		t.Errorf("the signal of a leaf: %v, not proved %s", err, d)
	}
}

func TestAHasherIsLeafHash(t *testing.T) {
	t.Parallel()
	for _, salt := range []string{"", "a salt", strings.Repeat("long", 30)} {
		h := NewHasher([]byte(salt))
		for _, text := range []string{"", "one", strings.Repeat("two", 400), "one"} {
			if got, want := h.LeafHash(text), LeafHash([]byte(salt), text); got != want {
				t.Errorf("text %.10q under salt %.10q has the hash %v, want %v", text, salt, got, want)
			}
		}
	}
}

// TestRetentionMayRemoveAClosing that is newer than those of younger signals.
func TestRetentionMayRemoveAClosing(t *testing.T) {
	t.Parallel()
	created := func(created, closed int64) *verify.Recorded {
		return &verify.Recorded{Kind: "created", Created: created, Closed: closed, Previous: &time.Time{}}
	}
	closed := func(created, closed int64) *verify.Recorded {
		return &verify.Recorded{Kind: "closed", Created: created, Closed: closed}
	}
	// The first three signals were removed; one of them closed second, two were open when the
	// fourth was created.
	newer := &verify.Checkpoint{}
	entries := []*verify.Recorded{created(4, 1), created(5, 1), closed(5, 3), closed(5, 4)}
	if before, last, err := newer.Complete(entries); err != nil || before["created"] != 3 || last.Closed != 4 {
		t.Errorf("%v %+v %v", before, last, err)
	}
	if _, _, err := newer.Complete(append(entries, created(6, 6))); !errors.Is(err, verify.ErrMissing) {
		t.Errorf("three closings are missing, of two signals that were open: %v", err)
	}
}

// TestAStrangerCanReadTheVerification in one sitting.
func TestAStrangerCanReadTheVerification(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("verify/*.go")
	if err != nil || len(files) != 3 {
		t.Fatalf("files %q, %v, want three", files, err)
	}
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	if lines > 720 {
		t.Errorf("%d lines, want at most 720", lines)
	}
}

// TestTheLargestCheckpoint signs and reads one of as many logs, leaves and signatures as there may be.
func TestTheLargestCheckpoint(t *testing.T) {
	t.Parallel()
	heads := verify.Heads{At: time.Unix(0, 0)}
	for i := range verify.MaxLogs {
		heads.Logs = append(heads.Logs, tlog.Tree{N: 1 << 48, Hash: tlog.Hash{byte(i)}})
	}
	l := newLedger(t, 0)
	for len(l.keys.signers) < maxKeys {
		more := keysOf(t, l.keys.Name())
		l.keys.signers = append(l.keys.signers, more.signers...)
		l.keys.verifiers = append(l.keys.verifiers, more.verifiers...)
	}
	made, _, err := l.keys.Sign(&Tree{size: 1<<40 - 1, roots: make([]tlog.Hash, 40)}, heads)
	if err != nil {
		t.Fatal(err)
	}
	signed := made.Note
	for i := range MaxWitnesses {
		s, _ := witnessOf(t, fmt.Sprintf("%d.%s", i, strings.Repeat("w", 250)))
		signed = cosign(t, signed, s)
	}
	opened, err := verify.Open(signed, l.verifiers()...)
	if err == nil {
		err = opened.ReadHeads(&made.Entry)
	}
	if err != nil || cmp.Diff(heads.Logs, opened.Logs) != "" {
		t.Errorf("a checkpoint of %d bytes is not what was signed: %v", len(signed), err)
	}
	if stored, err := ReadCheckpoint(signed); err != nil || stored.Root != opened.Root {
		t.Errorf("the service cannot read its own checkpoint: %v", err)
	}
	if len(made.Entry.Text) > 1<<16-1 { // the longest entry that tlog-tiles can serve
		t.Errorf("an entry has %d bytes", len(made.Entry.Text))
	}
}
