package record

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// witness holds files of what a service has served, and runs agentsignal verify on them.
type witness struct {
	testing.TB
	s      *e2e.Service
	redis  *redistest.Server
	trader *e2e.Client
	dir    string
	id     signal.AccountID
	log    int // of the account
	made   []e2e.WireSignal
	older  *verify.Checkpoint
}

// newWitness makes a service with closed signals and fetches their proofs: an older checkpoint, the
// key, the scorecard and the export.
func newWitness(t *testing.T) *witness {
	t.Helper()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.SigningConfig(t, redis.URL()))
	prices := e2e.NewMarket(t, redis.Client())
	trader, account := s.Account(t)
	w := &witness{TB: t, s: s, redis: redis, trader: trader, dir: t.TempDir(), id: account.ID,
		log: s.Store().Client.Partition(account.ID)}
	for i, asset := range []string{"ACME", "GLOBEX"} {
		prices.Give(asset, signal.H1, wander(uint64(i+1), 400, time.Now().Truncate(time.Hour))...)
		s.AwaitPrices(t, asset, signal.H1)
		for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
			w.made = append(w.made, trader.Run(asset, name))
		}
	}
	w.older = w.await("older.note", len(w.made))
	for i, m := range w.made {
		w.end(m, i%3 == 0, time.Duration(i+1)*time.Millisecond)
	}
	w.write("scorecard.json", trader.Get("/v1/scorecard").Ok(t).Body)
	w.await("newer.note", 2*len(w.made))
	w.write("key", trader.Get("/v1/log/key").Ok(t).Body)
	w.export("record.jsonl", "--since", w.path("older.note"))
	return w
}

// end closes a signal after a time.
func (w *witness) end(made e2e.WireSignal, wins bool, after time.Duration) {
	w.Helper()
	w.s.Change(w, w.id, made.ID, signal.SignalClosed, `{}`, func(s *signal.Signal) {
		e := strategy.Exit{Reason: signal.StopLoss, Price: s.Levels.Stop}
		if wins {
			e = strategy.Exit{Reason: signal.TakeProfit, Price: s.Levels.Target}
		}
		closing := strategy.Close(s, e, s.CreatedAt.Add(after))
		s.Closing = &closing
	})
}

func (w *witness) path(name string) string { return filepath.Join(w.dir, name) }

func (w *witness) write(name, text string) string {
	w.Helper()
	e2e.Must(w, os.WriteFile(w.path(name), []byte(text), 0o600))
	return w.path(name)
}

func (w *witness) read(name string) string {
	w.Helper()
	text, err := os.ReadFile(w.path(name))
	e2e.Must(w, err)
	return string(text)
}

// await writes the first checkpoint in which the account's log has so many leaves.
func (w *witness) await(name string, leaves int) (c *verify.Checkpoint) {
	w.Helper()
	e2e.Eventually(w, fmt.Sprintf("a checkpoint has %d leaves", leaves), func() bool {
		a := w.trader.Get("/v1/log/checkpoint")
		if a.Status != 200 {
			return false
		}
		w.write(name, a.Body)
		c = w.trader.Checkpoint()
		return c.Logs[w.log].N == int64(leaves) && strings.HasPrefix(a.Body, c.Text())
	})
	return c
}

// export writes an export by the command, with more arguments.
func (w *witness) export(name string, more ...string) string {
	w.Helper()
	text := e2e.Operator(w).Do(append([]string{"record", "export", "--url", w.s.URL, "--key", w.trader.Token}, more...)...)
	return w.write(name, text)
}

// verify runs a command of verify on files, and returns what it prints.
func (w *witness) verify(what string, args ...string) (string, error) {
	w.Helper()
	return e2e.Operator(w).Try("", append([]string{"verify", what, "--key", "@" + w.path("key")}, args...)...)
}

// forge writes the answer to GET /v1/log/consistency of a service that has changed the hashes of the
// account's log, and has signed the result at a time.
func (w *witness) forge(at time.Time, change func([]tlog.Hash) []tlog.Hash) string {
	w.Helper()
	ctx, store := w.Context(), w.s.Store()
	newest, err := store.Leaves.Checkpoint(ctx)
	e2e.Must(w, err)
	stored, err := w.redis.Client().Get(ctx, store.Client.TileKey(w.log, 0, 0)).Bytes()
	e2e.Must(w, err)
	var leaves []tlog.Hash
	for len(stored) >= tlog.HashSize {
		leaves, stored = append(leaves, tlog.Hash(stored[:tlog.HashSize])), stored[tlog.HashSize:]
	}
	changed := newMemoryLog(w, change(leaves))
	heads := newest.Heads
	heads.At, heads.Logs = at, slices.Clone(heads.Logs)
	heads.Logs[w.log] = changed.head
	entries, err := store.Leaves.Entries(ctx, 0, int(newest.Root.N), newest.Checkpoint)
	e2e.Must(w, err)
	var roots []tlog.Hash
	for _, text := range append(entries, heads.Text()) {
		roots = append(roots, tlog.RecordHash([]byte(text)))
	}
	tree := &record.Tree{}
	tree.Append(roots[:len(entries)])
	signed, _, err := w.s.RecordKeys().Sign(tree, heads)
	e2e.Must(w, err)
	answer := e2e.Decode[map[string]any](w, w.trader.Get(fmt.Sprint("/v1/log/consistency?from=", w.older.Root.N)).Ok(w).Body)
	answer["checkpoint"] = string(signed.Note)
	answer["to"] = map[string]any{"size": signed.Root.N, "heads": signed.Entry}
	answer["root"] = newMemoryLog(w, roots).begin(w.older.Root.N)
	answer["proofs"].([]any)[w.log] = changed.begin(w.older.Logs[w.log].N)
	return w.write("forged.json", e2e.JsonOf(w, answer))
}

// memoryLog is a Merkle log in memory.
type memoryLog struct {
	testing.TB
	stored []tlog.Hash
	head   tlog.Tree
}

func newMemoryLog(tb testing.TB, leaves []tlog.Hash) *memoryLog {
	tb.Helper()
	l := &memoryLog{TB: tb}
	for i, leaf := range leaves {
		more, err := tlog.StoredHashesForRecordHash(int64(i), leaf, l)
		e2e.Must(tb, err)
		l.stored = append(l.stored, more...)
	}
	root, err := tlog.TreeHash(int64(len(leaves)), l)
	e2e.Must(tb, err)
	l.head = tlog.Tree{N: int64(len(leaves)), Hash: root}
	return l
}

// ReadHashes implements tlog.HashReader.
func (l *memoryLog) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		list = append(list, l.stored[i])
	}
	return list, nil
}

// begin returns the proof that the log begins with n leaves.
func (l *memoryLog) begin(n int64) tlog.TreeProof {
	l.Helper()
	p, err := tlog.ProveTree(l.head.N, min(n, l.head.N), l)
	e2e.Must(l, err)
	return p
}

// rewrite stores the entries of the account's signal log with a change, under their identifiers.
func (w *witness) rewrite(change func(entry string) string) {
	w.Helper()
	ctx, rdb, key := context.Background(), w.redis.Client(), w.s.Store().Client.SignalsKey(w.log)
	entries, err := rdb.Do(ctx, "XRANGE", key, "-", "+").Slice()
	e2e.Must(w, err)
	e2e.Must(w, rdb.Del(ctx, key).Err())
	for _, e := range entries {
		args := []any{"XADD", key, e.([]any)[0]}
		for _, field := range e.([]any)[1].([]any) {
			args = append(args, change(field.(string)))
		}
		e2e.Must(w, rdb.Do(ctx, args...).Err())
	}
}

// remove removes the entries of a signal from the signal log.
func (w *witness) remove(id string) {
	w.Helper()
	created, closed, err := w.s.Catalogue().Find(w.Context(), w.id, nil, signal.SignalID(id))
	e2e.Must(w, err)
	n, err := w.redis.Client().
		XDel(w.Context(), w.s.Store().Client.SignalsKey(w.log), created.String(), closed.String()).
		Result()
	if e2e.Must(w, err); n != 2 {
		w.Fatalf("%d entries of %s were removed, want 2", n, id)
	}
}

// later writes an export that has one signal more, and returns its name.
func (w *witness) later() string {
	w.Helper()
	w.trader.Run("ACME", "momentum")
	w.await("later.note", 2*len(w.made)+1)
	w.export("later.jsonl")
	return "later.jsonl"
}

// TestARecordIsVerifiedOffline by a stranger, with nothing but the files of the service.
func TestARecordIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	n := len(w.made)
	kept := w.path("older.note")
	out, err := w.verify("record", w.path("record.jsonl"), "--scorecard", w.path("scorecard.json"), "--max-age", "1h",
		"--since", kept)
	for _, want := range []string{fmt.Sprintf("%d signals: all that", n), fmt.Sprintf("%d closed signals: all", n),
		fmt.Sprintf("that of the first %d closed", n), "you kept the checkpoint of",
		"of them were in a checkpoint of the service before they ended",
		fmt.Sprintf("%d of %d closed signals were in one of these before they ended", n, n),
		fmt.Sprintf("the prices of %d signals (100 %%): stream in real time", n), "no other account and no other service",
		fmt.Sprintf("has %d of the service's %[1]d leaves; it is one of 1 accounts with leaves, 0 of them erased", 2*n),
		"\nverified\n"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("the record: %v, without %q:\n%s", err, want, out)
		}
	}
	counts := e2e.Decode[scorecard.Recorded](t, w.trader.Get("/v1/scorecard").Ok(t).Body)
	if want := (scorecard.Recorded{Recorded: n, Committed: n}); counts != want {
		t.Errorf("the scorecard counts %+v, want %+v", counts, want)
	}
	id := w.made[0].ID
	proof := w.write("proof.json", w.trader.Get("/v1/signals/"+id+"/proof").Ok(t).Body)
	shown := w.write("signal.json", w.trader.Get("/v1/signals/"+id).Ok(t).Body)
	if out, err := w.verify("signal", proof, shown); err != nil || !strings.Contains(out, "as signal 1 of its account") ||
		!strings.Contains(out, "shown as it was recorded") ||
		!strings.Contains(out, id+" was closed at") {
		t.Errorf("the signal: %v\n%s", err, out)
	}
	request, err := w.verify("consistency", w.path("older.note"))
	path, ok := strings.CutPrefix(strings.TrimSpace(request), "GET ")
	if err != nil || !ok {
		t.Fatalf("the request: %v %s", err, request)
	}
	answer := w.write("answer.json", w.trader.Get(path).Ok(t).Body)
	if out, err := w.verify("consistency", w.path("older.note"), answer); err != nil ||
		!strings.Contains(out, fmt.Sprintf("%d leaves in", n)) || !strings.Contains(out, "begins with all leaves") {
		t.Errorf("the checkpoints: %v\n%s", err, out)
	}
	w.trader.Run("ACME", "momentum") // later than the export
	w.export("later.jsonl")
	if out, err := w.verify("record", w.path("later.jsonl"), "--scorecard", w.path("scorecard.json"),
		"--since", kept, "--url", w.s.URL); err != nil || !strings.Contains(out, "you kept the checkpoint of") {
		t.Errorf("a later record, with the same scorecard and the proof from public tiles: %v\n%s", err, out)
	}
	w.end(w.trader.Run("ACME", "momentum"), true, time.Millisecond)
	w.export("latest.jsonl", "--scorecard", w.path("latest.json"))
	if out, err := w.verify("record", w.path("latest.jsonl"), "--scorecard", w.path("latest.json"),
		"--allow-unwitnessed"); err != nil {
		t.Errorf("a record that was written with its scorecard: %v\n%s", err, out)
	}
}

// TestTamperingIsNamedByTheCommand: each kind of tampering, in what is served or in Redis, is named.
// Decision 39 has the table.
func TestTamperingIsNamedByTheCommand(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	honest := w.read("record.jsonl")
	lines := strings.SplitAfter(honest, "\n")
	n := len(w.made)
	loser := -1
	for i, l := range lines {
		if strings.Contains(l, `"close_reason":"stop_loss"`) {
			loser = i
		}
	}
	if loser < 0 {
		t.Fatal("no signal has lost")
	}
	edited := func(old, with string, i int) string {
		changed := append([]string(nil), lines...)
		if changed[i] = strings.Replace(lines[i], old, with, 1); changed[i] == lines[i] {
			t.Fatalf("%q is not in line %d", old, i+1)
		}
		return strings.Join(changed, "")
	}
	shifted := honest
	for _, s := range w.made {
		const name = `"initial_confidence":`
		shifted = strings.ReplaceAll(
			shifted,
			fmt.Sprint(name, s.Confidence),
			fmt.Sprintf("%s%.4f", name, s.Confidence+.0019),
		)
	}
	removed := strings.Replace(strings.Join(append(append([]string(nil), lines[:loser]...), lines[loser+1:]...), ""),
		fmt.Sprintf(`"signals":%d`, n), fmt.Sprintf(`"signals":%d`, n-1), 1)
	signature := strings.LastIndex(strings.TrimSpace(w.read("newer.note")), " ")
	forged := []byte(w.read("newer.note"))
	if at := signature + 20; forged[at] != 'A' { // some other digit of base64
		forged[at] = 'A'
	} else {
		forged[at] = 'B'
	}
	now := time.Now()
	same := func(l []tlog.Hash) []tlog.Hash { return l }
	instance := newWitness(t)
	for _, row := range []struct {
		kind, want string
		run        func() (string, error)
	}{
		{"a signal removed", "signals are missing: created number", func() (string, error) {
			return w.verify("record", w.write("x", removed))
		}},
		{"a loser's closing changed", "close_reason is take_profit and was recorded as stop_loss", func() (string, error) {
			return w.verify("record", w.write("x", edited(`"close_reason":"stop_loss"`, `"close_reason":"take_profit"`, loser)))
		}},
		{"a loser's closing changed with its leaf", "the leaf is not in the log", func() (string, error) {
			won := edited(`\"close_reason\":\"stop_loss\"`, `\"close_reason\":\"take_profit\"`, loser)
			return w.verify("record", w.write("x", won))
		}},
		{"a confidence shifted by .0019 in all", fmt.Sprintf("%d of %d signals do not verify", n, n), func() (string, error) {
			return w.verify("record", w.write("x", shifted))
		}},
		{"a leaf dropped", "the logs of the two checkpoints are not the same", func() (string, error) {
			return w.verify("consistency", w.path("older.note"), w.forge(now.Add(time.Hour), func(l []tlog.Hash) []tlog.Hash {
				return append(l[:2:2], l[3:]...)
			}))
		}},
		{"two leaves swapped", "the logs of the two checkpoints are not the same", func() (string, error) {
			return w.verify("consistency", w.path("older.note"), w.forge(now.Add(time.Hour), func(l []tlog.Hash) []tlog.Hash {
				l[2], l[3] = l[3], l[2]
				return l
			}))
		}},
		{"an old head served", "an old head: the second checkpoint is older", func() (string, error) {
			newer, err := record.ReadCheckpoint([]byte(w.read("newer.note")))
			e2e.Must(t, err)
			get := func(from, to int64) map[string]any {
				path := fmt.Sprintf("/v1/log/consistency?from=%d&to=%d", from, to)
				return e2e.Decode[map[string]any](t, w.trader.Get(path).Ok(t).Body)
			}
			a := get(w.older.Root.N, newer.Root.N)
			a["checkpoint"], a["from"], a["to"] = w.read("older.note"), a["to"], a["from"]
			return w.verify("consistency", w.path("newer.note"), w.write("x", e2e.JsonOf(t, a)))
		}},
		{"a clock set back", "an old head: the second checkpoint is older", func() (string, error) {
			return w.verify("consistency", w.path("older.note"), w.forge(now.Add(-time.Hour), same))
		}},
		{"a forged signature", "the signature is forged", func() (string, error) {
			return w.verify("consistency", w.write("x", string(forged)))
		}},
		{"a log of another instance", "it is of another instance", func() (string, error) {
			return w.verify("record", instance.path("record.jsonl"))
		}},
		{"a truncated export", "the last line of the export is missing", func() (string, error) {
			return w.verify("record", w.write("x", strings.Join(lines[:n], "")))
		}},
		{"a better scorecard", "the scorecard is not that of the record: wins", func() (string, error) {
			var card map[string]any
			e2e.Must(t, json.Unmarshal([]byte(w.read("scorecard.json")), &card))
			card["statistics"].(map[string]any)["wins"] = n
			return w.verify("record", w.path("record.jsonl"), "--scorecard", w.write("x", e2e.JsonOf(t, card)))
		}},
		{"more committed signals in it", "the scorecard is not that of the record: committed", func() (string, error) {
			var card map[string]any
			e2e.Must(t, json.Unmarshal([]byte(w.read("scorecard.json")), &card))
			card["committed"] = n + 1
			return w.verify("record", w.path("record.jsonl"), "--scorecard", w.write("x", e2e.JsonOf(t, card)))
		}},
		{"an invented record", "exit status 3", func() (string, error) {
			return w.verify("record", w.path("record.jsonl"))
		}},
		{"another source of prices", "metadata.source is binance and was recorded as stream", func() (string, error) {
			return w.verify("record", w.write("x", edited(`"source":"stream"`, `"source":"binance"`, loser)))
		}},
		{"another speed", "the metadata is not what was recorded", func() (string, error) {
			return w.verify("record", w.write("x", edited(`"source":"stream"`, `"source":"stream","time_compression":60`, loser)))
		}},
		{"a better result in R", "r is 9 and was recorded as -1", func() (string, error) {
			return w.verify("record", w.write("x", edited(`"r":-1`, `"r":9`, loser)))
		}},
		{"another expectation", "metadata.expected_r_net is 9", func() (string, error) {
			return w.verify("record", w.write("x", edited(`"expected_r_net":`, `"expected_r_net":9,"was":`, loser)))
		}},
		{"the oldest signal dropped", "is younger than the retention of 2160h0m0s", func() (string, error) {
			return w.verify("record", w.write("x", strings.Replace(lines[0]+strings.Join(lines[2:], ""),
				fmt.Sprintf(`"signals":%d`, n), fmt.Sprintf(`"signals":%d`, n-1), 1)))
		}},
		{"exports of two times glued together", "the proof is for another checkpoint", func() (string, error) {
			later := strings.SplitAfter(w.read(w.later()), "\n")
			return w.verify("record", w.write("x", strings.Join(lines[:n], "")+strings.Join(later[n:], "")))
		}},
		{"a checkpoint of another service as evidence", "the checkpoint that you kept: not a checkpoint", func() (string, error) {
			return w.verify("record", w.path("record.jsonl"), "--since", instance.path("older.note"))
		}},
		// From here on in Redis.
		{"a signal removed in Redis", "signals are missing: created number 2 of", func() (string, error) {
			w.remove(w.made[1].ID)
			return w.verify("record", w.export("removed.jsonl"))
		}},
		{"a loser's closing changed in Redis", "the leaf is not in the log", func() (string, error) {
			const flags = "\x3f" // of the members of a closing, behind its reason
			lost, won := codec.AppendText(nil, "stop_loss"), codec.AppendText(nil, "take_profit")
			w.rewrite(func(field string) string { return strings.Replace(field, string(lost)+flags, string(won)+flags, 1) })
			return w.verify("record", w.export("changed.jsonl"))
		}},
	} {
		out, err := row.run()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s\n%s", row.kind, err, row.want, out)
		} else {
			t.Logf("| %s | %s |", row.kind, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
