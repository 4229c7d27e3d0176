package record

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"golang.org/x/mod/sumdb/note"
)

// TestTamperingIsNamed does to a record what must not go unnoticed.
func TestTamperingIsNamed(t *testing.T) {
	t.Parallel()
	// rebuild returns the ledger with other leaves in log 1, signed by the same key.
	rebuild := func(l *ledger, change func([]verify.Leaf) []verify.Leaf) *verify.Checkpoint {
		leaves := change(append([]verify.Leaf(nil), l.logs[1].leaves...))
		l.logs[1] = newLog()
		for _, leaf := range leaves {
			l.add(1, leaf.Salt, leaf.Text)
		}
		_, c := l.sign()
		return c
	}
	grown := func(change func([]verify.Leaf) []verify.Leaf) func(*ledger, *verify.Checkpoint, *verify.Checkpoint) error {
		return func(l *ledger, older, _ *verify.Checkpoint) error {
			c := rebuild(l, change)
			return l.consistency(older, c).Consistent(older, c)
		}
	}
	leaf := func(change func(*verify.Leaf)) func(*ledger, *verify.Checkpoint, *verify.Checkpoint) error {
		return func(l *ledger, _, newer *verify.Checkpoint) error {
			p := l.prove(newer, 1, 5)
			change(&p)
			_, err := newer.Holds(&p)
			return err
		}
	}
	entries := func(l *ledger, c *verify.Checkpoint, keep func(*verify.Recorded) bool) error {
		var list []*verify.Recorded
		for i, leaf := range l.logs[1].leaves {
			if len(leaf.Salt) == SaltSize {
				p := l.prove(c, 1, i)
				e, err := c.Holds(&p)
				if err != nil {
					return err
				}
				if keep(e) {
					list = append(list, e)
				}
			}
		}
		_, _, err := c.Complete(list)
		return err
	}
	shown := func(text string) func(*ledger, *verify.Checkpoint, *verify.Checkpoint) error {
		return func(l *ledger, _, _ *verify.Checkpoint) error {
			_, err := verify.Matches(l.logs[1].leaves[0].Text, l.logs[1].leaves[2].Text, []byte(text))
			return err
		}
	}
	otherClosing := func(l *ledger, _, _ *verify.Checkpoint) error {
		_, err := verify.Matches(l.logs[1].leaves[0].Text, l.logs[1].leaves[5].Text, []byte(`{"signal_id":"sig_0"}`))
		return err
	}
	for name, row := range map[string]struct {
		do   func(l *ledger, older, newer *verify.Checkpoint) error
		want error
	}{
		"a leaf dropped": {grown(func(list []verify.Leaf) []verify.Leaf {
			return append(list[:8:8], list[9:]...)
		}), verify.ErrRewritten},
		"two leaves swapped": {grown(func(list []verify.Leaf) []verify.Leaf {
			list[3], list[4] = list[4], list[3]
			return list
		}), verify.ErrRewritten},
		"the end cut off": {grown(func(list []verify.Leaf) []verify.Leaf { return list[:9] }), verify.ErrRewritten},
		"a loser's closing changed in the log": {grown(func(list []verify.Leaf) []verify.Leaf {
			list[5].Text = strings.Replace(list[5].Text, "stop_loss", "take_profit", 1)
			return list
		}), verify.ErrRewritten},
		"a loser's closing changed, and nothing recorded since": {func(l *ledger, _, newer *verify.Checkpoint) error {
			c := rebuild(l, func(list []verify.Leaf) []verify.Leaf {
				list[5].Text = strings.Replace(list[5].Text, "stop_loss", "take_profit", 1)
				return list
			})
			return l.consistency(newer, c).Consistent(newer, c)
		}, verify.ErrRewritten},
		"a loser's closing changed in its proof": {leaf(func(p *verify.Leaf) {
			p.Text = strings.Replace(p.Text, `"close_reason":"stop_loss"`, `"close_reason":"take_profit"`, 1)
		}), verify.ErrNotIn},
		"a confidence shifted": {leaf(func(p *verify.Leaf) {
			p.Text = strings.Replace(p.Text, "0.4371", "0.439", 1)
		}), verify.ErrNotIn},
		"another salt":      {leaf(func(p *verify.Leaf) { p.Salt = []byte("another") }), verify.ErrNotIn},
		"another place":     {leaf(func(p *verify.Leaf) { p.Index++ }), verify.ErrNotIn},
		"another log":       {leaf(func(p *verify.Leaf) { p.Log = 0 }), verify.ErrNotIn},
		"no log":            {leaf(func(p *verify.Leaf) { p.Log = 3 }), verify.ErrNotIn},
		"before the log":    {leaf(func(p *verify.Leaf) { p.Index = -1 }), verify.ErrNotIn},
		"a proof cut short": {leaf(func(p *verify.Leaf) { p.Proof = p.Proof[1:] }), verify.ErrNotIn},
		"no proof":          {leaf(func(p *verify.Leaf) { p.Proof = nil }), verify.ErrNotIn},
		"not yet signed":    {leaf(func(p *verify.Leaf) { p.Index = 60 }), verify.ErrTooNew},
		"of another head":   {leaf(func(p *verify.Leaf) { p.Size-- }), verify.ErrNotIn},
		"an old head served": {func(l *ledger, older, newer *verify.Checkpoint) error {
			return l.consistency(newer, newer).Consistent(newer, older)
		}, verify.ErrOlder},
		"a clock set back": {func(l *ledger, _, newer *verify.Checkpoint) error {
			l.clock = l.clock.Add(-time.Hour)
			_, back := l.sign()
			return l.consistency(newer, back).Consistent(newer, back)
		}, verify.ErrOlder},
		"a log of another instance": {func(_ *ledger, older, _ *verify.Checkpoint) error {
			other, _, newer := history(t)
			return other.consistency(older, newer).Consistent(older, newer)
		}, verify.ErrOtherLog},
		"fewer logs": {func(l *ledger, older, newer *verify.Checkpoint) error {
			g := l.consistency(older, newer)
			newer.Logs, g.Logs = newer.Logs[:2], g.Logs[:2]
			return g.Consistent(older, newer)
		}, verify.ErrOtherLog},
		"another root log": {func(l *ledger, older, _ *verify.Checkpoint) error {
			l.root = newLog()
			for range 2 {
				l.sign()
			}
			_, c := l.sign()
			return l.consistency(older, c).Consistent(older, c)
		}, verify.ErrRewritten},
		"heads of another checkpoint": {func(l *ledger, _, newer *verify.Checkpoint) error {
			signed, _ := l.sign()
			return newer.ReadHeads(&signed.Entry)
		}, verify.ErrEntry},
		"other heads": {func(l *ledger, _, _ *verify.Checkpoint) error {
			signed, c := l.sign()
			signed.Entry.Text = strings.Replace(signed.Entry.Text, "retention 0", "retention 9", 1)
			return c.ReadHeads(&signed.Entry)
		}, verify.ErrEntry},
		"a closing with a forecast": {func(l *ledger, _, _ *verify.Checkpoint) error {
			closed := strings.Replace(l.logs[1].leaves[2].Text, `"exit_price"`, `"direction":"short","exit_price"`, 1)
			_, err := verify.Matches(l.logs[1].leaves[0].Text, closed, []byte(`{"signal_id":"sig_0"}`))
			return err
		}, verify.ErrLeaf},
		"a leaf with a member twice": {func(l *ledger, _, _ *verify.Checkpoint) error {
			closed := strings.Replace(l.logs[1].leaves[2].Text, `"exit_price"`, `"exit_price":101,"exit_price"`, 1)
			_, err := verify.Matches(l.logs[1].leaves[0].Text, closed, []byte(`{"signal_id":"sig_0"}`))
			return err
		}, verify.ErrLeaf},
		"a leaf with a member in capitals": {func(l *ledger, _, _ *verify.Checkpoint) error {
			closed := strings.Replace(l.logs[1].leaves[2].Text, `"exit_price"`, `"Exit_price":101,"exit_price"`, 1)
			_, err := verify.Matches(l.logs[1].leaves[0].Text, closed, []byte(`{"signal_id":"sig_0"}`))
			return err
		}, verify.ErrLeaf},
		"a leaf with a source twice": {func(l *ledger, _, _ *verify.Checkpoint) error {
			created := strings.Replace(l.logs[1].leaves[0].Text, `"source"`, `"Source":"binance","source"`, 1)
			_, err := verify.Matches(created, "", []byte(`{"signal_id":"sig_0"}`))
			return err
		}, verify.ErrLeaf},
		"a time of the signal before that it was not": {func(l *ledger, _, newer *verify.Checkpoint) error {
			was := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			_, _, err := newer.Complete([]*verify.Recorded{{Kind: "created", Created: 1, At: was},
				{Kind: "created", Created: 2, Previous: &time.Time{}}})
			return err
		}, verify.ErrDiffers},
		"an account less": {func(l *ledger, older, newer *verify.Checkpoint) error {
			older.Accounts = 1
			return l.consistency(older, newer).Consistent(older, newer)
		}, verify.ErrRewritten},
		"no heads": {func(_ *ledger, _, newer *verify.Checkpoint) error { return newer.ReadHeads(nil) }, verify.ErrEntry},
		"a proof of consistency left out": {func(l *ledger, older, newer *verify.Checkpoint) error {
			g := l.consistency(older, newer)
			g.Logs = g.Logs[:2]
			return g.Consistent(older, newer)
		}, verify.ErrIncomplete},
		"a loser left out": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(e *verify.Recorded) bool { return e.Kind != "closed" || e.Closed != 8 })
		}, verify.ErrMissing},
		"the last losers left out": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(e *verify.Recorded) bool { return e.Kind != "closed" || e.Closed < 18 })
		}, verify.ErrMissing},
		"a month left out": {func(l *ledger, _, newer *verify.Checkpoint) error {
			_, err := newer.Months(monthsOf(l, &newer)[1:])
			return err
		}, verify.ErrMissing},
		"months in another order": {func(l *ledger, _, newer *verify.Checkpoint) error {
			months := monthsOf(l, &newer)
			_, err := newer.Months([]*verify.Leaf{months[0], months[2], months[1]})
			return err
		}, verify.ErrMissing},
		"a month of another account": {func(l *ledger, _, newer *verify.Checkpoint) error {
			months := monthsOf(l, &newer)
			_, err := newer.Months([]*verify.Leaf{months[0], months[3]})
			return err
		}, verify.ErrDiffers},
		"a better month": {func(l *ledger, _, newer *verify.Checkpoint) error {
			months := monthsOf(l, &newer)
			months[0].Text = strings.Replace(months[0].Text, `"losses":2`, `"losses":1`, 1)
			_, err := newer.Months(months[:3])
			return err
		}, verify.ErrNotIn},
		"a closing as a month": {func(l *ledger, _, newer *verify.Checkpoint) error {
			leaf := l.prove(newer, 1, 5)
			_, err := newer.Months([]*verify.Leaf{&leaf})
			return err
		}, verify.ErrLeaf},
		"a month as a signal": {func(l *ledger, _, newer *verify.Checkpoint) error {
			_, err := newer.Holds(monthsOf(l, &newer)[0])
			return err
		}, verify.ErrLeaf},
		"nothing shown": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(*verify.Recorded) bool { return false })
		}, verify.ErrIncomplete},
		"the first loser shown as open": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(e *verify.Recorded) bool { return e.Kind != "closed" || e.Closed > 1 })
		}, verify.ErrMissing},
		"a loser left out after what retention has cut": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(e *verify.Recorded) bool {
				return e.Created > 4 && (e.Kind != "closed" || e.Closed != 8)
			})
		}, verify.ErrMissing},
		"closings alone": {func(l *ledger, _, newer *verify.Checkpoint) error {
			return entries(l, newer, func(e *verify.Recorded) bool { return e.Kind == "closed" })
		}, verify.ErrIncomplete},
		"two signals with one number": {func(_ *ledger, _, newer *verify.Checkpoint) error {
			_, _, err := newer.Complete([]*verify.Recorded{{Kind: "closed", Closed: 1, Signal: "a"},
				{Kind: "closed", Closed: 1, Signal: "b"}})
			return err
		}, verify.ErrDiffers},
		"a leaf that is no entry": {func(l *ledger, _, newer *verify.Checkpoint) error {
			p := l.prove(newer, 0, 3)
			_, err := newer.Holds(&p)
			return err
		}, verify.ErrLeaf},
		"a signal of the retention left out": {func(l *ledger, _, newer *verify.Checkpoint) error {
			newer.Retention = time.Hour
			newer.At = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
			return entries(l, newer, func(e *verify.Recorded) bool { return e.Created > 4 })
		}, verify.ErrMissing},
		"another signal's leaf":             {shown(`{"signal_id":"sig_1"}`), verify.ErrDiffers},
		"the closing of another signal":     {otherClosing, verify.ErrDiffers},
		"a signal that is shown better":     {shown(`{"signal_id":"sig_0","final_confidence":0.439}`), verify.ErrDiffers},
		"a result that is shown better":     {shown(`{"signal_id":"sig_0","r":9}`), verify.ErrDiffers},
		"a percentage that is shown better": {shown(`{"signal_id":"sig_0","pnl_percent":-0.9999}`), verify.ErrDiffers},
		"a duration that is shown better":   {shown(`{"signal_id":"sig_0","duration_minutes":0}`), verify.ErrDiffers},
		"a confidence that is shown better": {shown(`{"signal_id":"sig_0","confidence":0.9}`), verify.ErrDiffers},
		"another source of prices":          {shown(`{"signal_id":"sig_0","metadata":{"source":"binance"}}`), verify.ErrDiffers},
		"other words": {shown(`{"signal_id":"sig_0","metadata":{"source":"simulated","reasoning":"sure"}}`),
			verify.ErrDiffers},
		"a member that the metadata had not": {shown(`{"signal_id":"sig_0","metadata":{"source":"simulated","edge":0.2}}`),
			verify.ErrDiffers},
		"a signal that is cut short": {shown(`{"signal_id":"sig_0","fin`), verify.ErrIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, older, newer := history(t)
			if err := row.do(l, older, newer); !errors.Is(err, row.want) {
				t.Errorf("%v, want: %v", err, row.want)
			}
		})
	}
}

func TestAForgedCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 2)
	l.add(0, []byte("s"), "a", "b")
	own, c := l.sign()
	signed := own.Note
	forger := newLedger(t, 2)
	byOther, _, err := forger.keys.Sign(&Tree{}, c.Heads) // under its own name
	if err != nil {
		t.Fatal(err)
	}
	named, err := NewKey(l.keys.Name())
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := ParseKeys(named)
	if err != nil {
		t.Fatal(err)
	}
	sameName, _, err := impostor.Sign(&Tree{}, c.Heads)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(signed), "\n")
	for name, note := range map[string][]byte{
		"by another service":       byOther.Note,
		"by a key of that name":    sameName.Note,
		"with another size":        []byte(strings.Replace(string(signed), "\n1\n", "\n2\n", 1)),
		"without its signature":    []byte(strings.Join(lines[:len(lines)-2], "")),
		"cut short":                signed[:len(signed)-10],
		"empty":                    nil,
		"with a line after":        append(bytes.Clone(signed), "more\n"...),
		"larger than any":          bytes.Repeat([]byte("x"), 1<<20),
		"with a changed signature": bytes.Replace(signed, signed[len(signed)-8:], []byte("AAAAAA==\n")[1:], 1),
	} {
		if got, err := verify.Open(note, l.verifiers()...); !errors.Is(err, verify.ErrNote) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	// What one of the trusted keys has signed under another name is not this service's.
	forged := *c
	forged.Origin = "somebody-else"
	other, err := sumdbSign(l.keys.signers[0], forged.Text())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := verify.Open(other, l.verifiers()...); !errors.Is(err, verify.ErrNote) {
		t.Errorf("of another origin: %v %v", got, err)
	}
}

func sumdbSign(s note.Signer, text string) ([]byte, error) {
	return note.Sign(&note.Note{Text: text}, s)
}

// monthsOf adds leaves of months to log 1, three of one account and one of another, and returns them for a new checkpoint.
func monthsOf(l *ledger, c **verify.Checkpoint) (list []*verify.Leaf) {
	first := len(l.logs[1].leaves)
	for _, m := range []verify.Month{{Account: "a", Closed: 2, Month: "2026-08"}, {Account: "a", Closed: 4, Month: "2026-09"},
		{Account: "a", Closed: 6, Month: "2026-10"}, {Account: "b", Closed: 4, Month: "2026-10"}} {
		m.Created, m.Agents = m.Closed, []verify.AgentSum{{Agent: "mine", Closed: 2, Priced: 2, Losses: 2, Targets: 3}}
		l.add(1, []byte("salt"), m.Text())
	}
	_, *c = l.sign()
	for i := range 4 {
		leaf := l.prove(*c, 1, first+i)
		list = append(list, &leaf)
	}
	return list
}
