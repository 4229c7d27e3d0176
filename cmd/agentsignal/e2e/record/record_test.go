package record

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// holds checks a leaf offline.
func holds(tb testing.TB, c *verify.Checkpoint, l *verify.Leaf, kind, id string) *verify.Recorded {
	tb.Helper()
	if l == nil {
		tb.Fatalf("%s has no leaf that is %s", id, kind)
	}
	e, err := c.Holds(l)
	e2e.Must(tb, err)
	if e.Kind != kind || e.Signal != id {
		tb.Fatalf("the leaf of %s says %+v, want %s", id, e, kind)
	}
	return e
}

// TestSignalIsProved checks offline what the service says of a signal, from its creation to the
// end of its account.
func TestSignalIsProved(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.SigningConfig(t, redis.URL()))
	e2e.NewMarket(t, redis.Client()).Hours("BTC", 400)
	s.AwaitPrices(t, "BTC", signal.H1)
	trader, account := s.Account(t)
	path := func(id string) string { return "/v1/signals/" + id + "/proof" }

	first := trader.Run("BTC", "momentum")
	p := trader.Proof(first.ID)
	older := trader.Open(&p)
	e := holds(t, older, p.Created, "created", first.ID)
	if p.Closed != nil || e.Created != 1 || e.Closed != 0 {
		t.Errorf("the proof of the first signal is %+v", e)
	}
	unproved, err := verify.Matches(p.Created.Text, "", []byte(trader.Get("/v1/signals/"+first.ID).Ok(t).Body))
	if d := cmp.Diff([]string{"status", "updated_at"}, unproved); d != "" || err != nil {
		t.Errorf("of an open signal the leaf does not cover %s, %v", d, err)
	}

	second := trader.Run("BTC", "breakout")
	log := trader.Proof(second.ID).Created.Log
	size := strconv.FormatInt(older.Root.N, 10)
	a := trader.Get(path(second.ID) + "?log_size=" + size)
	if a.Fails(t, "not_signed"); !strings.Contains(a.Body, "take a newer one") {
		t.Errorf("a signal that the log did not have: %s", a.Body)
	}
	s.Change(t, account.ID, first.ID, signal.SignalClosed, "{}", func(s *signal.Signal) {
		closing := strategy.Close(s, strategy.Exit{Reason: signal.StopLoss, Price: *first.Stop}, s.CreatedAt)
		s.Closing = &closing
	})
	e2e.Eventually(t, "the closing is signed", func() bool { return trader.Proof(first.ID).Closed != nil })
	p = trader.Proof(first.ID)
	newer := trader.Open(&p)
	entries := []*verify.Recorded{
		holds(t, newer, p.Created, "created", first.ID),
		holds(t, newer, p.Closed, "closed", first.ID),
		holds(t, newer, trader.Proof(second.ID).Created, "created", second.ID),
	}
	if before, last, err := newer.Complete(entries); err != nil || before["created"] != 0 || last.Closed != 1 {
		t.Errorf("the entries are %v, %+v, %v", before, last, err)
	}
	unproved, err = verify.Matches(p.Created.Text, p.Closed.Text, []byte(trader.Get("/v1/signals/"+first.ID).Ok(t).Body))
	if d := cmp.Diff([]string{"updated_at"}, unproved); d != "" || err != nil {
		t.Errorf("of a closed signal the leaves do not cover %s, %v", d, err)
	}
	// A checkpoint of one's own still serves when the log has grown.
	old := e2e.Decode[e2e.WireProof](t, trader.Get(path(first.ID)+"?log_size="+size).Ok(t).Body)
	holds(t, older, old.Created, "created", first.ID)
	if old.Checkpoint != "" || old.Closed != nil {
		t.Errorf("the proof for the older checkpoint is %+v", old)
	}
	trader.Consistent(older, newer)
	trader.Roots(log, newer.Logs[log])

	stranger, _ := s.Account(t)
	stranger.Get(path(first.ID)).Fails(t, "not_found")
	agents, _ := s.Account(t, "agents:read")
	for _, target := range []string{path(first.ID), "/v1/log/checkpoint", "/v1/log/key", "/v1/log/witness",
		fmt.Sprint("/v1/log/consistency?from=", older.Root.N), "/v1/log/tiles/0/8%2F0%2F000"} {
		agents.Get(target).Fails(t, "insufficient_scope")
		s.Client(t).Get(target).Fails(t, "missing_credentials")
	}

	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), account.ID))
	trader.Await(path(first.ID), 401)
	if n := stranger.Checkpoint().Logs[log].N; n < newer.Logs[log].N {
		t.Errorf("the log had %d leaves, and has %d after the account was erased", newer.Logs[log].N, n)
	}
	stranger.Roots(log, stranger.Checkpoint().Logs[log])
}

// TestTilesHaveTheRoot has more leaves than one tile.
func TestTilesHaveTheRoot(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.SigningConfig(t, redis.URL()))
	reader, account := s.Account(t)
	log := s.Store().Client.Partition(account.ID)
	const leaves = 300
	for range leaves {
		_, err := s.Events().Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		e2e.Must(t, err)
	}
	e2e.Eventually(t, "all leaves are signed", func() bool { return reader.Checkpoint().Logs[log].N == leaves })
	reader.Roots(log, reader.Checkpoint().Logs[log])
	var all []tlog.Hash
	for _, path := range []string{"8/0/000", "8/0/001.p/44"} { // slashes, which the description cannot have
		r, err := http.NewRequest(http.MethodGet, s.URL+"/v1/log/tiles/"+strconv.Itoa(log)+"/"+path, nil)
		e2e.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+reader.Token)
		w, err := reader.Base.RoundTrip(r)
		e2e.Must(t, err)
		all = append(all, e2e.Decode[struct{ Hashes []tlog.Hash }](t, e2e.ReadAnswer(w).Ok(t).Body).Hashes...)
	}
	if len(all) != leaves {
		t.Errorf("two tiles have %d hashes", len(all))
	}
}

// TestWitnessCountersigns has a checkpoint signed by a witness, and shows it.
func TestWitnessCountersigns(t *testing.T) {
	t.Parallel()
	private, public, err := note.GenerateKey(rand.Reader, "witness.example")
	e2e.Must(t, err)
	signer, err := note.NewSigner(private)
	e2e.Must(t, err)
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Record.Witnesses = []string{public}
	s := e2e.Start(t, c) // the next checkpoint is signed after the test, a minute from the first
	witness, _ := s.Account(t, "signals:read")
	witness.Await("/v1/log/checkpoint", 200)
	signed := witness.Get("/v1/log/checkpoint").Ok(t).Body
	n, err := note.Open([]byte(signed), note.VerifierList(witness.Verifier()))
	e2e.Must(t, err)
	both, err := note.Sign(n, signer)
	e2e.Must(t, err)
	witness.Post("/v1/log/witness", fmt.Sprintf(`{"note":%q}`, signed)).Fails(t, "invalid_request")
	got := witness.Post("/v1/log/witness", fmt.Sprintf(`{"note":%q}`, both)).Ok(t).Body
	if witness.Get("/v1/log/witness").Ok(t).Body != got || !strings.Contains(got, public) {
		t.Errorf("the witnesses are %s", got)
	}
	if shown := witness.Get("/v1/log/checkpoint").Ok(t).Body; shown != string(both) {
		t.Errorf("the checkpoint is %s, want %s", shown, both)
	}
	v, err := note.NewVerifier(public)
	e2e.Must(t, err)
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
	c := e2e.SigningConfig(t, redistest.New(t).URL())
	c.Partitions = redisclient.MaxPartitions
	s := e2e.Start(t, c)
	reader, account := s.Account(t, "signals:read")
	e2e.Eventually(t, "a signal is stored, while all partitions are taken", func() bool {
		_, err := s.Events().Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		return err == nil
	})
	reader.Await("/v1/log/checkpoint", http.StatusOK)
	older := reader.Checkpoint()
	if n := len(older.Logs); n != redisclient.MaxPartitions {
		t.Errorf("a checkpoint has %d logs", n)
	}
	s.Stop(t)
	s = e2e.Start(t, c)
	reader = reader.At(s.URL)
	e2e.Eventually(t, "another checkpoint is signed after a restart", func() bool {
		return reader.Checkpoint().At.After(older.At)
	})
	reader.Consistent(older, reader.Checkpoint())
}

// TestCheckpointsReachAWebhook has a webhook that subscribes to checkpoints alone.
func TestCheckpointsReachAWebhook(t *testing.T) {
	t.Parallel()
	c := e2e.SigningConfig(t, redistest.New(t).URL())
	c.Webhooks.AllowedNetworks, c.Webhooks.AllowHTTP = []string{"127.0.0.0/8"}, true
	s := e2e.Start(t, c)
	owner, account := s.Account(t)
	other, _ := s.Account(t)
	end, plain := e2e.NewHookEndpoint(t, nil), e2e.NewHookEndpoint(t, nil)
	w := owner.Hook(end.URL, "log.checkpoint")
	other.Hook(plain.URL)
	var checkpoints []*verify.Checkpoint
	for range 2 {
		_, err := s.Events().Append(t.Context(), storetest.Created(storetest.Signal(account.ID)))
		e2e.Must(t, err)
		all := end.Await(t, len(checkpoints)+1)
		e := all[len(checkpoints)].Verify(t, w.Secret)
		data := e2e.Decode[struct {
			e2e.WireProof
			Leaves int64
		}](t, string(e.Data))
		p := owner.Open(&data.WireProof)
		if e.Type != "log.checkpoint" || data.Leaves != p.Size() {
			t.Errorf("the event is %+v", e)
		}
		checkpoints = append(checkpoints, p)
	}
	owner.Consistent(checkpoints[0], checkpoints[1])
}
