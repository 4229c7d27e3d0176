package service

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/notary"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// signOften makes a service sign a checkpoint a second after each leaf.
func signOften(p *process) {
	p.notary = notary.New(p.store.Leaves, p.recordKeys, notary.Options{
		Every: time.Second, MaxLeaves: 1, Now: p.store.Client.Now, Log: p.log,
		Subscribers: p.webhooks, Events: p.events,
	})
}

// wireProof is the answer to GET /v1/signals/{id}/proof.
type wireProof struct {
	Checkpoint      string
	Created, Closed *verify.Leaf
}

// verifier returns a public key of the service, as a stranger gets it.
func (c *client) verifier() note.Verifier {
	c.tb.Helper()
	line, _, _ := bytes.Cut([]byte(c.get("/v1/log/key").ok(c.tb).Body), []byte("\n"))
	v, err := note.NewVerifier(string(line))
	must(c.tb, err)
	return v
}

// proof returns the proof of a signal once a checkpoint has it.
func (c *client) proof(id string) (p wireProof) {
	c.tb.Helper()
	eventually(c.tb, "a checkpoint has "+id, func() bool {
		a := c.get("/v1/signals/" + id + "/proof")
		if a.Status == 409 {
			return false
		}
		p = decode[wireProof](c.tb, a.ok(c.tb).Body)
		return true
	})
	return p
}

// checkpoint returns the newest checkpoint, verified.
func (c *client) checkpoint() *verify.Checkpoint {
	c.tb.Helper()
	p, err := verify.Open([]byte(c.get("/v1/log/checkpoint").ok(c.tb).Body), c.verifier())
	must(c.tb, err)
	return p
}

// sizes returns the sizes of the logs, as parameters have them.
func sizes(c *verify.Checkpoint) string {
	var list []string
	for _, l := range c.Logs {
		list = append(list, strconv.FormatInt(l.N, 10))
	}
	return strings.Join(list, ",")
}

// holds checks a leaf offline.
func holds(tb testing.TB, c *verify.Checkpoint, l *verify.Leaf, kind, id string) *verify.Entry {
	tb.Helper()
	if l == nil {
		tb.Fatalf("%s has no leaf that is %s", id, kind)
	}
	e, err := c.Holds(l)
	must(tb, err)
	if e.Kind != kind || e.Signal != id {
		tb.Fatalf("the leaf of %s says %+v, want %s", id, e, kind)
	}
	return e
}

// consistent checks offline that the newer checkpoint, and the newest, begin with the older one.
func (c *client) consistent(older, newer *verify.Checkpoint) {
	c.tb.Helper()
	var between, now struct {
		Checkpoint string
		Proofs     []tlog.TreeProof
	}
	must(c.tb, json.Unmarshal([]byte(c.get("/v1/log/consistency?from="+sizes(older)+"&to="+sizes(newer)).ok(c.tb).Body),
		&between))
	must(c.tb, verify.Consistent(older, newer, between.Proofs))
	must(c.tb, json.Unmarshal([]byte(c.get("/v1/log/consistency?from="+sizes(older)).ok(c.tb).Body), &now))
	newest, err := verify.Open([]byte(now.Checkpoint), c.verifier())
	must(c.tb, err)
	must(c.tb, verify.Consistent(older, newest, now.Proofs))
}

// roots checks that the tiles of a log have the root of a checkpoint, as a verifier of another
// maker reads them.
func (c *client) roots(log int, tree tlog.Tree) {
	c.tb.Helper()
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			tile := tlog.TileForIndex(8, index)
			path := strings.ReplaceAll(strings.TrimPrefix(tile.Path(), "tile/"), "/", "%2F")
			data := c.get(fmt.Sprintf("/v1/log/tiles/%d/%s", log, path), "Accept: application/octet-stream").ok(c.tb).Body
			var err error
			if hashes[i], err = tlog.HashFromTile(tile, []byte(data), index); err != nil {
				return nil, err
			}
		}
		return hashes, nil
	})
	root, err := tlog.TreeHash(tree.N, read)
	must(c.tb, err)
	if root != tree.Hash {
		c.tb.Errorf("the tiles of log %d have the root %v, the checkpoint says %v", log, root, tree.Hash)
	}
}

// TestSignalIsProved checks offline what the service says of a signal, from its creation to the
// end of its account.
func TestSignalIsProved(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()), signOften)
	newMarket(t, redis.Client()).hours("BTC", 400)
	s.awaitPrices(t, "BTC", signal.H1)
	trader, account := s.account(t)
	path := func(id string) string { return "/v1/signals/" + id + "/proof" }

	first := trader.run("BTC", "momentum")
	p := trader.proof(first.ID)
	older, err := verify.Open([]byte(p.Checkpoint), trader.verifier())
	must(t, err)
	e := holds(t, older, p.Created, "created", first.ID)
	if p.Closed != nil || e.Created != 1 || e.Closed != 0 {
		t.Errorf("the proof of the first signal is %+v", e)
	}
	compared, err := verify.Matches(p.Created.Text, []byte(trader.get("/v1/signals/"+first.ID).ok(t).Body))
	if err != nil || compared < 10 {
		t.Errorf("%d members of the leaf were compared, %v", compared, err)
	}

	second := trader.run("BTC", "breakout")
	log := trader.proof(second.ID).Created.Log
	size := strconv.FormatInt(older.Logs[log].N, 10)
	a := trader.get(path(second.ID) + "?log_size=" + size)
	if a.fails(t, "not_signed"); !strings.Contains(a.Body, "take a newer checkpoint") {
		t.Errorf("a signal that the log did not have: %s", a.Body)
	}
	s.change(t, account.ID, first.ID, signal.SignalClosed, "{}", func(s *signal.Signal) {
		closing := strategy.Close(s, strategy.Exit{Reason: signal.StopLoss, Price: *first.Stop}, s.CreatedAt)
		s.Closing = &closing
	})
	eventually(t, "the closing is signed", func() bool { return trader.proof(first.ID).Closed != nil })
	p = trader.proof(first.ID)
	newer, err := verify.Open([]byte(p.Checkpoint), trader.verifier())
	must(t, err)
	entries := []*verify.Entry{
		holds(t, newer, p.Created, "created", first.ID),
		holds(t, newer, p.Closed, "closed", first.ID),
		holds(t, newer, trader.proof(second.ID).Created, "created", second.ID),
	}
	if before, last, err := verify.Complete(entries); err != nil || before["created"] != 0 || last.Closed != 1 {
		t.Errorf("the entries are %v, %+v, %v", before, last, err)
	}
	if _, err := verify.Matches(p.Closed.Text, []byte(trader.get("/v1/signals/"+first.ID).ok(t).Body)); err != nil {
		t.Error(err)
	}
	// A checkpoint of one's own still serves when the log has grown.
	old := decode[wireProof](t, trader.get(path(first.ID)+"?log_size="+size).ok(t).Body)
	holds(t, older, old.Created, "created", first.ID)
	if old.Checkpoint != "" || old.Closed != nil {
		t.Errorf("the proof for the older checkpoint is %+v", old)
	}
	trader.consistent(older, newer)
	trader.roots(log, newer.Logs[log])

	stranger, _ := s.account(t)
	stranger.get(path(first.ID)).fails(t, "not_found")
	agents, _ := s.account(t, "agents:read")
	for _, target := range []string{path(first.ID), "/v1/log/checkpoint", "/v1/log/key", "/v1/log/witness",
		"/v1/log/consistency?from=" + sizes(older), "/v1/log/tiles/0/8%2F0%2F000"} {
		agents.get(target).fails(t, "insufficient_scope")
		s.client(t).get(target).fails(t, "missing_credentials")
	}

	must(t, s.process.credentials.DeleteAccount(t.Context(), account.ID))
	trader.await(path(first.ID), 401)
	if n := stranger.checkpoint().Logs[log].N; n < newer.Logs[log].N {
		t.Errorf("the log had %d leaves, and has %d after the account was erased", newer.Logs[log].N, n)
	}
	stranger.roots(log, stranger.checkpoint().Logs[log])
}

// TestTilesHaveTheRoot has more leaves than one tile.
func TestTilesHaveTheRoot(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()), signOften)
	reader, account := s.account(t)
	log := s.process.store.Client.Partition(account.ID)
	const leaves = 300
	for range leaves {
		_, err := s.process.events.Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		must(t, err)
	}
	eventually(t, "all leaves are signed", func() bool { return reader.checkpoint().Logs[log].N == leaves })
	reader.roots(log, reader.checkpoint().Logs[log])
	var all []tlog.Hash
	for _, path := range []string{"8/0/000", "8/0/001.p/44"} { // slashes, which the description cannot have
		r, err := http.NewRequest(http.MethodGet, s.url+"/v1/log/tiles/"+strconv.Itoa(log)+"/"+path, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+reader.token)
		w, err := reader.base.RoundTrip(r)
		must(t, err)
		all = append(all, decode[struct{ Hashes []tlog.Hash }](t, readAnswer(w).ok(t).Body).Hashes...)
	}
	if len(all) != leaves {
		t.Errorf("two tiles have %d hashes", len(all))
	}
}

// TestWitnessCountersigns has a checkpoint signed by a witness, and shows it.
func TestWitnessCountersigns(t *testing.T) {
	t.Parallel()
	private, public, err := note.GenerateKey(rand.Reader, "witness.example")
	must(t, err)
	signer, err := note.NewSigner(private)
	must(t, err)
	c := testConfig(t, redistest.New(t).URL())
	c.Record.Witnesses = []string{public}
	s := start(t, c) // the next checkpoint is signed after the test, a minute from the first
	witness, _ := s.account(t, "signals:read")
	witness.await("/v1/log/checkpoint", 200)
	signed := witness.get("/v1/log/checkpoint").ok(t).Body
	n, err := note.Open([]byte(signed), note.VerifierList(witness.verifier()))
	must(t, err)
	both, err := note.Sign(n, signer)
	must(t, err)
	witness.post("/v1/log/witness", fmt.Sprintf(`{"note":%q}`, signed)).fails(t, "invalid_request")
	got := witness.post("/v1/log/witness", fmt.Sprintf(`{"note":%q}`, both)).ok(t).Body
	if witness.get("/v1/log/witness").ok(t).Body != got || !strings.Contains(got, public) {
		t.Errorf("the witnesses are %s", got)
	}
	if shown := witness.get("/v1/log/checkpoint").ok(t).Body; shown != string(both) {
		t.Errorf("the checkpoint is %s, want %s", shown, both)
	}
	v, err := note.NewVerifier(public)
	must(t, err)
	if n, err := note.Open(both, note.VerifierList(v)); err != nil || len(n.Sigs) != 1 {
		t.Errorf("by the witness's key: %v", err)
	}
}

// TestTheMostPartitions has a record of as many logs as there may be partitions, before and after a restart.
func TestTheMostPartitions(t *testing.T) {
	t.Parallel()
	if verify.MaxLogs != redisclient.MaxPartitions {
		t.Fatalf("a checkpoint has up to %d logs, an installation %d partitions", verify.MaxLogs, redisclient.MaxPartitions)
	}
	c := testConfig(t, redistest.New(t).URL())
	c.Partitions = redisclient.MaxPartitions
	s := start(t, c, signOften)
	reader, account := s.account(t, "signals:read")
	eventually(t, "a signal is stored, while all partitions are taken", func() bool {
		_, err := s.process.events.Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		return err == nil
	})
	reader.await("/v1/log/checkpoint", http.StatusOK)
	older := reader.checkpoint()
	if n := len(older.Logs); n != redisclient.MaxPartitions {
		t.Errorf("a checkpoint has %d logs", n)
	}
	s.stop(t)
	s = start(t, c, signOften)
	reader = reader.at(s.url)
	eventually(t, "another checkpoint is signed after a restart", func() bool { return reader.checkpoint().At.After(older.At) })
	reader.consistent(older, reader.checkpoint())
}

// TestCheckpointsReachAWebhook has a webhook that subscribes to checkpoints alone.
func TestCheckpointsReachAWebhook(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Webhooks.AllowedNetworks, c.Webhooks.AllowHTTP = []string{"127.0.0.0/8"}, true
	s := start(t, c, signOften)
	owner, account := s.account(t)
	other, _ := s.account(t)
	end, plain := newHookEndpoint(t, nil), newHookEndpoint(t, nil)
	w := owner.hook(end.url, "log.checkpoint")
	other.hook(plain.url)
	var checkpoints []*verify.Checkpoint
	for range 2 {
		_, err := s.process.events.Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		must(t, err)
		all := end.await(t, len(checkpoints)+1)
		e := all[len(checkpoints)].verify(t, w.Secret)
		data := decode[struct {
			Checkpoint string
			Leaves     int64
		}](t, string(e.Data))
		p, err := verify.Open([]byte(data.Checkpoint), owner.verifier())
		must(t, err)
		if e.Type != "log.checkpoint" || data.Leaves != p.Size() {
			t.Errorf("the event is %+v", e)
		}
		checkpoints = append(checkpoints, p)
	}
	owner.consistent(checkpoints[0], checkpoints[1])
}
