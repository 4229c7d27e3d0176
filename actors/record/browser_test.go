package record

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

var update = flag.Bool("update", false, "rewrite the cases of the console")

// browserCases is read by the tests of the console, whose verifier must judge as package verify.
const browserCases = "../../http/console/src/record/verify.json"

// browserKeys returns keys made of a byte, so that the cases are the same each time.
func browserKeys(tb testing.TB, seed byte) *Keys {
	tb.Helper()
	const name = "agentsignal-test"
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	public, err := note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // by its doc
	if err != nil {
		tb.Fatal(err)
	}
	hash := strings.Split(public, "+")[1]
	k, err := ParseKeys("PRIVATE+KEY+" + name + "+" + hash + "+" +
		base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...)))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// The console reads as long checkpoints as package verify.
func TestTheConsoleHasTheSameLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../http/console/src/record/verify.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("const maxLogs = %d;", verify.MaxLogs),
		fmt.Sprintf("const maxNote = %d << 10;", verify.MaxNote>>10),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it does not have %q", want)
		}
	}
}

// makeBrowserCases returns the cases: honest proofs, and one for each kind of tampering.
func makeBrowserCases(tb testing.TB) []browserCase {
	tb.Helper()
	salt := bytes.Repeat([]byte{7}, SaltSize)
	l := newLedger(tb, 3)
	l.keys = browserKeys(tb, 1)
	keys := strings.Join(l.keys.Public(), "\n") + "\n"
	opened, closed := example("a", ""), example("a", signal.StopLoss)
	text := []string{Text(opened, Metadata(opened.Metadata), after(7, 5)), Text(closed, "", after(7, 6))}
	var cases []browserCase
	// proof returns the proof of the leaves, at places of log 1; less than 0: none.
	proof := func(created, ended int) browserProof {
		signed, c := l.sign()
		p := browserProof{Checkpoint: string(signed.Note), Heads: signed.Entry}
		leaf := l.prove(c, 1, created)
		p.Created = &leaf
		if ended >= 0 {
			leaf := l.prove(c, 1, ended)
			p.Closed = &leaf
		}
		return p
	}
	shown := func(s *signal.Signal) map[string]any {
		m := map[string]any{"signal_id": s.ID, "agent_id": s.Agent, "asset": s.Asset, "strategy": s.Strategy,
			"direction": s.Direction, "confidence": s.Confidence, "initial_confidence": s.Confidence,
			"entry_price": 100, "stop_loss": 99, "take_profit": 101.5, "created_at": "2026-11-23T09:30:00.000Z",
			"expires_at": "2026-11-23T10:30:00.000Z", "closed_at": nil, "close_reason": nil, "exit_price": nil,
			"pnl_percent": nil, "pnl_absolute": nil, "duration_minutes": nil, "final_confidence": nil,
			"mfe_r": nil, "mae_r": nil, "r": nil, "metadata": s.Metadata}
		if c := s.Closing; c != nil {
			for name, value := range map[string]any{"closed_at": "2026-11-23T09:31:00.000Z", "close_reason": c.Reason,
				"exit_price": 99, "pnl_percent": -1, "pnl_absolute": -1, "duration_minutes": 1,
				"final_confidence": s.Confidence, "mfe_r": 1.2346, "mae_r": -.5, "r": -1} {
				m[name] = value
			}
		}
		return m
	}
	// Each size has another shape of the tree.
	for i := range 9 {
		others := make([]string, i)
		for j := range others {
			others[j] = UnreadableText([]byte{byte(i), byte(j)})
		}
		l.add(1, salt, append(others, text...)...)
		n := len(l.logs[1].leaves)
		cases = append(cases, browserCase{Name: fmt.Sprintf("closed, in a log of %d leaves", n), Keys: keys,
			Proof: proof(n-2, n-1), Signal: shown(closed), Want: "proved"})
	}
	for i := range len(l.logs[1].leaves) / 2 { // from the other side of the tree
		if l.logs[1].leaves[i].Text == text[0] {
			cases = append(cases, browserCase{Name: fmt.Sprintf("created at %d", i), Keys: keys,
				Proof: proof(i, -1), Signal: shown(opened), Want: "proved"})
		}
	}
	l.add(1, nil, text...)
	last := len(l.logs[1].leaves) - 1
	good := func(name, want string) *browserCase {
		cases = append(cases, browserCase{Name: name, Keys: keys, Proof: proof(0, 1), Signal: shown(closed), Want: want})
		return &cases[len(cases)-1]
	}
	good("the salt was erased", "proved").Proof = proof(last-1, last)
	good("the closing is not yet in a checkpoint", "proved").Proof.Closed = nil
	lies := map[string]any{"exit_price": 101.5, "pnl_percent": 1.5, "close_reason": "take_profit",
		"initial_confidence": .5, "created_at": "2026-11-23T09:30:00.001Z", "mfe_r": 1.2348, "closed_at": nil,
		"signal_id": "sig_b", "r": 1.5, "duration_minutes": 2,
		"metadata": json.RawMessage(`{"source":"simulated","reasoning":"because"}`)}
	for _, name := range slices.Sorted(maps.Keys(lies)) {
		b := good(name+" is shown otherwise", "differs")
		b.Signal[name], b.Member = lies[name], name
	}
	b := good("the source is shown otherwise", "differs")
	b.Signal["metadata"], b.Member = json.RawMessage(`{"source":"binance","reasoning":"one \u2028 <two>"}`), "metadata.source"
	good("a member that is not covered", "proved").Signal["stars"] = 5
	broken := func(part, name string, change func(p *browserProof)) *browserCase {
		b := good(name, "broken")
		b.Part = part
		change(&b.Proof)
		return b
	}
	broken("leaf", "the text was changed", func(p *browserProof) {
		p.Closed.Text = strings.Replace(p.Closed.Text, "stop_loss", "take_profit", 1)
	})
	broken("leaf", "the salt was changed", func(p *browserProof) { p.Created.Salt = make([]byte, SaltSize) })
	broken("leaf", "a hash of the proof was changed", func(p *browserProof) { p.Created.Proof[2][31] ^= 1 })
	broken("leaf", "a hash of the proof is missing", func(p *browserProof) { p.Created.Proof = p.Created.Proof[1:] })
	broken("leaf", "the proof has a hash too many", func(p *browserProof) {
		p.Created.Proof = append(p.Created.Proof, tlog.Hash{})
	})
	broken("leaf", "the place was changed", func(p *browserProof) { p.Created.Index++ })
	broken("leaf", "the place is beyond the log", func(p *browserProof) { p.Created.Index = p.Created.Size })
	broken("leaf", "the proof is for another size", func(p *browserProof) { p.Created.Size-- })
	broken("leaf", "the leaf is of another log", func(p *browserProof) { p.Created.Log = 0 })
	broken("leaf", "there is no such log", func(p *browserProof) { p.Created.Log = 3 })
	broken("leaf", "the creation stands for the closing", func(p *browserProof) { p.Closed = p.Created })
	// resign signs a text that no service signs.
	resign := func(p *browserProof, old, replacement string) {
		signed := strings.SplitAfter(p.Checkpoint, "\n\n")[0]
		text := strings.Replace(strings.TrimSuffix(signed, "\n"), old, replacement, 1)
		again, err := note.Sign(&note.Note{Text: text}, l.keys.signers...)
		if err != nil {
			tb.Fatal(err)
		}
		p.Checkpoint = string(again)
	}
	broken("checkpoint", "it has another size", func(p *browserProof) { resign(p, "test\n", "test\n1") })
	broken("checkpoint", "its root is not a hash", func(p *browserProof) { resign(p, "=\n", "\n") })
	broken("checkpoint", "it has a line more", func(p *browserProof) { resign(p, "=\n", "=\nmore\n") })
	broken("checkpoint", "the heads were changed", func(p *browserProof) {
		p.Heads.Text = strings.Replace(p.Heads.Text, "time 2026", "time 2025", 1)
	})
	broken("checkpoint", "the proof of the heads is cut short", func(p *browserProof) { p.Heads.Proof = p.Heads.Proof[1:] })
	broken("checkpoint", "the proof of the heads has a hash too many", func(p *browserProof) {
		p.Heads.Proof = append(p.Heads.Proof, tlog.Hash{})
	})
	broken("checkpoint", "the heads are missing", func(p *browserProof) { p.Heads = verify.Entry{} })
	broken("signature", "its origin is another service", func(p *browserProof) { resign(p, "test\n", "else\n") })
	broken("signature", "the size of the checkpoint was changed", func(p *browserProof) {
		p.Checkpoint = strings.Replace(p.Checkpoint, "test\n", "test\n1", 1)
	})
	broken("signature", "the key is another one", func(*browserProof) {}).Keys = browserKeys(tb, 2).Public()[0] + "\n"
	broken("signature", "the signatures are missing", func(p *browserProof) {
		p.Checkpoint = p.Checkpoint[:strings.Index(p.Checkpoint, "\n\n")+2] + "\u2014 witness AAAAAAAA\n"
	})
	months := []*verify.Month{
		{Account: string(opened.Account), Created: 5, Closed: 4, Month: "2026-08", Agents: []verify.AgentSum{
			{Agent: "a", Closed: 1, Priced: 1, Losses: 1, Costs: .1, Targets: 1.5}, {Agent: "b", Closed: 3}}},
		{Account: string(opened.Account), Created: 7, Closed: 6, Month: "2026-10", Agents: []verify.AgentSum{
			{Agent: "a", Closed: 2, Priced: 2, Won: 2, Gains: 1e21, Costs: 1e-7, Targets: 3.000001}}},
	}
	n := len(l.logs[1].leaves)
	for i := range months { // one before the closing, and one after it
		l.add(1, salt, months[i].Text())
		if i == 0 {
			l.add(1, salt, text...)
		}
	}
	signed, c := l.sign()
	prove := func(i int) *verify.Leaf { leaf := l.prove(c, 1, i); return &leaf }
	return append(cases, browserCase{Name: "with months", Keys: keys, Signal: shown(closed), Want: "proved",
		Proof:  browserProof{string(signed.Note), signed.Entry, prove(n + 1), prove(n + 2)},
		Months: []*verify.Leaf{prove(n), prove(n + 3)}})
}

type browserProof struct {
	Checkpoint string       `json:"checkpoint"`
	Heads      verify.Entry `json:"heads"`
	Created    *verify.Leaf `json:"created"`
	Closed     *verify.Leaf `json:"closed"`
}

// browserCase is a proof with what a verifier must find: proved, broken or differs.
type browserCase struct {
	Name   string         `json:"name"`
	Keys   string         `json:"keys"`
	Proof  browserProof   `json:"proof"`
	Signal map[string]any `json:"signal"`
	Want   string         `json:"want"`
	Part   string         `json:"part,omitempty"`   // broken: checkpoint, signature or leaf
	Member string         `json:"member,omitempty"` // differs
	Months []*verify.Leaf `json:"months,omitempty"` // of the account, up to the closing
}

// judge returns what package verify finds.
func (b *browserCase) judge(tb testing.TB) (want, part, member string) {
	tb.Helper()
	var verifiers []note.Verifier
	for key := range strings.Lines(b.Keys) {
		v, err := note.NewVerifier(strings.TrimSpace(key))
		if err != nil {
			tb.Fatal(err)
		}
		verifiers = append(verifiers, v)
	}
	c, err := verify.Open([]byte(b.Proof.Checkpoint), verifiers...)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	if errors.As(err, &unverified) || errors.As(err, &invalid) {
		return "broken", "signature", ""
	} else if err != nil {
		if strings.Contains(err.Error(), "has not signed it") {
			return "broken", "signature", ""
		}
		return "broken", "checkpoint", ""
	}
	if c.ReadHeads(&b.Proof.Heads) != nil {
		return "broken", "checkpoint", ""
	}
	shown, err := json.Marshal(b.Signal)
	if err != nil {
		tb.Fatal(err)
	}
	leaves := map[string]*verify.Leaf{"created": b.Proof.Created}
	if b.Proof.Closed != nil {
		leaves["closed"] = b.Proof.Closed
	}
	for kind, l := range leaves {
		e, err := c.Holds(l)
		if err != nil || e.Kind != kind {
			return "broken", "leaf", ""
		}
	}
	if months, err := c.Months(b.Months); err != nil || len(months) != len(b.Months) {
		tb.Fatal(months, err)
	}
	closed := ""
	if b.Proof.Closed != nil {
		closed = b.Proof.Closed.Text
	}
	if _, err := verify.Matches(b.Proof.Created.Text, closed, shown); err != nil {
		for _, name := range append(slices.Collect(maps.Keys(b.Signal)), "metadata.source") {
			if strings.Contains(err.Error(), " "+name+" is ") ||
				name == "signal_id" && strings.HasSuffix(err.Error(), " "+name) {
				return "differs", "", name
			}
		}
		tb.Fatal(err)
	}
	return "proved", "", ""
}

// TestCasesOfTheConsole compares the file of the console's tests with what this package writes.
// Run it with -update after a change of the formats, and the console's tests after it.
func TestCasesOfTheConsole(t *testing.T) {
	t.Parallel()
	cases := makeBrowserCases(t)
	for _, b := range cases {
		if want, part, member := b.judge(t); want != b.Want || part != b.Part || member != b.Member {
			t.Errorf("%s: verify finds %s %s%s, want %s %s%s", b.Name, want, part, member, b.Want, b.Part, b.Member)
		}
	}
	var made bytes.Buffer
	e := json.NewEncoder(&made)
	e.SetEscapeHTML(false)
	made.WriteString("[\n")
	for i, b := range cases {
		if i > 0 {
			made.WriteString(",")
		}
		if err := e.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	made.WriteString("]\n")
	if *update {
		if err := os.WriteFile(browserCases, made.Bytes(), 0o644); err != nil { //nolint:gosec // a source file
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(browserCases)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, made.Bytes()) {
		t.Errorf("%s is not what this package writes: run with -update, and the tests of the console", browserCases)
	}
}
