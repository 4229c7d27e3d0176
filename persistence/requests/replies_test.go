package requests

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, account := t.Context(), signal.NewAccountID()
	key := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: "k", RequestHash: [32]byte{1}}
	other := key
	other.RequestHash = [32]byte{2}
	name := b.replyKey(account, &key)

	var winners atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if r, err := b.store.Claim(ctx, account, key); err == nil && r == nil {
				winners.Add(1)
			} else {
				storetest.WantKind(t, "the same request", err, signal.KindConflict)
			}
		})
	}
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d requests go on, want 1", winners.Load())
	}
	if ttl := b.rdb.PTTL(ctx, name).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("lock lives for %v", ttl)
	}
	_, err := b.store.Claim(ctx, account, other)
	storetest.WantKind(t, "another body", err, signal.KindMismatch)
	for what, k := range map[string]signal.ReplyKey{
		"another method": {Method: "PUT", Path: key.Path, Key: key.Key},
		"another path":   {Method: key.Method, Path: key.Path + "/", Key: key.Key},
		"another key":    {Method: key.Method, Path: key.Path, Key: "l"},
	} {
		if r, err := b.store.Claim(ctx, account, k); r != nil || err != nil {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	if r, err := b.store.Claim(ctx, signal.NewAccountID(), key); r != nil || err != nil {
		t.Errorf("another account: %v, %v", r, err)
	}

	// A request frees its own lock only.
	if err := b.store.Release(ctx, account, other); err != nil || b.rdb.Exists(ctx, name).Val() != 1 {
		t.Errorf("Release of another request: %v", err)
	}
	if err := b.store.Release(ctx, account, key); err != nil || b.rdb.Exists(ctx, name).Val() != 0 {
		t.Errorf("Release: %v", err)
	}
	if r, err := b.store.Claim(ctx, account, other); r != nil || err != nil {
		t.Errorf("after the release: %v, %v", r, err)
	}

	header := map[string]string{"Location": "/x"}
	reply := signal.Reply{ReplyKey: other, Status: 201, Header: header, Body: []byte(`{"a":1}`)}
	if err := b.store.SaveReply(ctx, account, &reply); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Release(ctx, account, other); err != nil {
		t.Fatal(err)
	}
	got, err := b.store.Claim(ctx, account, other)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&reply, got); diff != "" {
		t.Errorf("kept reply (-want +got):\n%s", diff)
	}
	_, err = b.store.Claim(ctx, account, key)
	storetest.WantKind(t, "another body than that of the kept reply", err, signal.KindMismatch)
	if ttl := b.rdb.TTL(ctx, name).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("reply lives for %v", ttl)
	}
	large := signal.ReplyKey{Method: "POST", Path: "/large", Key: "k"}
	omitted := signal.Reply{ReplyKey: large, Status: 200, Omitted: true}
	if err := b.store.SaveReply(ctx, account, &omitted); err != nil {
		t.Fatal(err)
	}
	if got, err := b.store.Claim(ctx, account, large); err != nil || !cmp.Equal(got, &omitted) {
		t.Errorf("a reply without its body: %+v, %v", got, err)
	}
	if n := b.rdb.StrLen(ctx, b.replyKey(account, &large)).Val(); n > 64 {
		t.Errorf("it takes %d bytes", n)
	}
	if err := b.store.SaveReply(ctx, account, &signal.Reply{ReplyKey: key, Status: 200}); err == nil {
		t.Error("a reply without a body is saved")
	}
}

func TestReplyWithoutSignal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := storetest.Noted(signal.NewAccountID(), "x")
	c.Reply = &signal.Reply{Status: 200}
	if _, err := b.log.Append(t.Context(), c); err == nil {
		t.Error("a reply that shows a signal is stored without one")
	}
}

// TestWebhookIsStoredWithReply: even if the process ends in between, the same request finds the
// reply and makes no second webhook.
func TestWebhookIsStoredWithReply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hooks, account := deliveries.New(b.logs.Client, b.log), signal.NewAccountID()
	reply := func(key string) *signal.Reply {
		k := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: key}
		return &signal.Reply{ReplyKey: k, Status: 200, Body: []byte("sealed " + key)}
	}
	first, second := reply("first"), reply("too many")
	for _, reply := range []*signal.Reply{first, second} {
		if r, err := b.store.Claim(t.Context(), account, reply.ReplyKey); r != nil || err != nil {
			t.Fatalf("claim: %v, %v", r, err)
		}
	}
	if _, err := hooks.Settings.Register(t.Context(), storetest.Webhook(account), 1, first); err != nil {
		t.Fatal(err)
	}
	got, err := b.store.Claim(t.Context(), account, first.ReplyKey)
	if diff := cmp.Diff(first, got); diff != "" || err != nil {
		t.Errorf("the same request: %v (-want +got):\n%s", err, diff)
	}
	if ttl := b.rdb.PTTL(t.Context(), b.replyKey(account, &first.ReplyKey)).Val(); ttl <= 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("the answer is kept for %s", ttl)
	}
	_, err = hooks.Settings.Register(t.Context(), storetest.Webhook(account), 1, second)
	storetest.WantError(t, err, signal.KindConflict, "limit_reached")
	_, err = b.store.Claim(t.Context(), account, second.ReplyKey)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
	if list, err := hooks.Settings.Webhooks(t.Context(), account); err != nil || len(list) != 1 {
		t.Errorf("%d webhooks, %v", len(list), err)
	}
}

// TestReplyIsFoundByFormerKey: the installation's keys may change within a day.
func TestReplyIsFoundByFormerKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := signal.NewAccountID()
	key := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: "k", RequestHash: [32]byte{1}}
	reply := &signal.Reply{ReplyKey: key, Status: 200, Body: []byte("{}")}
	if err := b.store.SaveReply(t.Context(), account, reply); err != nil {
		t.Fatal(err)
	}
	key.RequestHash, key.FormerHashes = [32]byte{2}, [][32]byte{{3}, {1}}
	if r, err := b.store.Claim(t.Context(), account, key); err != nil || r == nil {
		t.Errorf("the same request: %v, %v", r, err)
	}
	key.FormerHashes = [][32]byte{{3}}
	_, err := b.store.Claim(t.Context(), account, key)
	storetest.WantError(t, err, signal.KindMismatch, "idempotency_key_reused")
}

func TestAppendRecordsWholeChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account := signal.NewAccountID()
	p := b.store.Partition(account)
	s := storetest.Signal(account)
	append := func(c signal.Change) signal.Position {
		t.Helper()
		at, err := b.log.Append(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	started := signal.Event{Type: signal.AgentStarted, Agent: "trading", Run: s.Run, Data: []byte(`{}`)}
	due := &signal.RunDue{Run: s.Run, Agent: "trading", At: s.CreatedAt}
	append(signal.Change{Account: account, Due: due, Events: []signal.Event{started}})
	if n := b.rdb.ZCard(t.Context(), b.store.RunsDueKey(p)).Val(); n != 1 {
		t.Fatalf("%d runs are due, want 1", n)
	}

	c := storetest.Created(s)
	c.Ended = s.Run
	key := signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: "k"}
	c.Reply = &signal.Reply{ReplyKey: key, Status: 200}
	at := append(c)

	got, err := b.logs.ReadLog(t.Context(), p, signal.Position{}, 10)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d events, %v; want 3", len(got), err)
	}
	listing := s.Listing()
	listing.CreatedAt = at.Time()
	want := []signal.Event{
		got[0],
		{
			Position: at, ID: got[1].ID, Account: account, Type: signal.SignalCreated, Asset: "BTC",
			Listing: &listing, Opening: s.Opening(), Data: []byte(`{"signal":1}`),
		},
		{
			Position: at.Plus(1), ID: got[2].ID, Account: account, Type: signal.AgentCompleted, Agent: "trading",
			Run: s.Run, Data: []byte(`{"run":1}`),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event log (-want +got):\n%s", diff)
	}
	if got[1].ID == "" || got[1].ID == got[2].ID {
		t.Errorf("events have the ids %q and %q", got[1].ID, got[2].ID)
	}
	if n := b.rdb.ZCard(t.Context(), b.store.RunsDueKey(p)).Val(); n != 0 {
		t.Errorf("%d runs are due after the end, want 0", n)
	}
	stored, err := b.store.signals.SignalByID(t.Context(), account, s.ID, at, signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	wantSignal := *s
	wantSignal.CreatedAt, wantSignal.UpdatedAt = at.Time(), at.Time()
	wantSignal.ExpiresAt = at.Time().Add(24 * time.Hour)
	wantSignal.Sequence, wantSignal.FirstConfidence = 1, s.Confidence
	if diff := cmp.Diff(&wantSignal, stored); diff != "" {
		t.Errorf("signal (-want +got):\n%s", diff)
	}
	reply, err := b.store.Claim(t.Context(), account, key)
	if err != nil || reply == nil {
		t.Fatalf("Claim after the append = %v, %v; want the reply", reply, err)
	}
	if diff := cmp.Diff(&wantSignal, reply.Signal); diff != "" {
		t.Errorf("signal of the reply (-want +got):\n%s", diff)
	}
}

// TestRepeatedRequestWaitsForReplicas: its answer was stored by an append that was not
// acknowledged.
func TestRepeatedRequestWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	b := openBench(t, master, redisclient.Options{URL: master.URL(), WaitReplicas: 1})
	account := signal.NewAccountID()
	c := storetest.Noted(account, "done")
	key := signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: "k"}
	c.Reply = &signal.Reply{ReplyKey: key, Status: 200, Body: []byte("{}")}
	if _, err := b.store.Claim(t.Context(), account, key); err != nil {
		t.Fatal(err)
	}
	if _, err := b.log.Append(t.Context(), c); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("append: %v", err)
	}
	if r, err := b.store.Claim(t.Context(), account, key); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("the request again: %+v, %v", r, err)
	}
	replica.Follow(master)
	var r *signal.Reply
	var err error
	redistest.Eventually(t, func() bool {
		r, err = b.store.Claim(t.Context(), account, key)
		return signal.KindOf(err) != signal.KindUnavailable
	})
	if err != nil || r == nil {
		t.Errorf("with the replica: %+v, %v", r, err)
	}
	// Since Redis 7.2 WAIT waits for the last write of its connection, so there must be one.
	if ttl := b.rdb.TTL(t.Context(), b.store.ConfirmKey(b.store.Partition(account))).Val(); ttl <= 0 {
		t.Errorf("nothing was written before the wait: TTL %s", ttl)
	}
}
