package persistence

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	ctx, account := t.Context(), signal.NewAccountID()
	key := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: "k", RequestHash: [32]byte{1}}
	other := key
	other.RequestHash = [32]byte{2}
	name := redisclient.ReplyKey(b.store.Partition(account), account, codec.ReplyDigest(&key))

	var winners atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if r, err := b.store.Claim(ctx, account, key); err == nil && r == nil {
				winners.Add(1)
			} else {
				wantKind(t, "the same request", err, signal.KindConflict)
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
	wantKind(t, "another body", err, signal.KindMismatch)
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

	// Another request's lock is not freed, one's own is.
	if err := b.store.Release(ctx, account, other); err != nil || b.rdb.Exists(ctx, name).Val() != 1 {
		t.Errorf("Release of another request: %v", err)
	}
	if err := b.store.Release(ctx, account, key); err != nil || b.rdb.Exists(ctx, name).Val() != 0 {
		t.Errorf("Release: %v", err)
	}
	if r, err := b.store.Claim(ctx, account, other); r != nil || err != nil {
		t.Errorf("after the release: %v, %v", r, err)
	}

	reply := signal.Reply{ReplyKey: other, Status: 201, Header: map[string]string{"Location": "/x"}, Body: []byte(`{"a":1}`)}
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
	wantKind(t, "another body than that of the kept reply", err, signal.KindMismatch)
	if ttl := b.rdb.TTL(ctx, name).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("reply lives for %v", ttl)
	}
	omitted := signal.Reply{ReplyKey: signal.ReplyKey{Method: "POST", Path: "/large", Key: "k"}, Status: 200, Omitted: true}
	if err := b.store.SaveReply(ctx, account, &omitted); err != nil {
		t.Fatal(err)
	}
	if got, err := b.store.Claim(ctx, account, omitted.ReplyKey); err != nil || !cmp.Equal(got, &omitted) {
		t.Errorf("a reply without its body: %+v, %v", got, err)
	}
	if n := b.rdb.StrLen(ctx, redisclient.ReplyKey(b.store.Partition(account), account, codec.ReplyDigest(&omitted.ReplyKey))).Val(); n > 64 {
		t.Errorf("it takes %d bytes", n)
	}
	if err := b.store.SaveReply(ctx, account, &signal.Reply{ReplyKey: key, Status: 200}); err == nil {
		t.Error("a reply without a body is saved")
	}
}

func TestReplyWithoutSignal(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	c := noted(signal.NewAccountID(), "x")
	c.Reply = &signal.Reply{Status: 200}
	if _, err := b.log.Append(t.Context(), c); err == nil {
		t.Error("a reply that shows a signal is stored without one")
	}
}

// TestAWebhookAndItsAnswerAreOneWrite: the same request finds the answer wherever the process
// has ended, and makes no second webhook.
func TestAWebhookAndItsAnswerAreOneWrite(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	hooks, account := NewWebhooks(b.store, b.log), signal.NewAccountID()
	reply := func(key string) *signal.Reply {
		return &signal.Reply{ReplyKey: signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: key}, Status: 200, Body: []byte("sealed " + key)}
	}
	for _, key := range []string{"first", "too many"} {
		if r, err := b.store.Claim(t.Context(), account, reply(key).ReplyKey); r != nil || err != nil {
			t.Fatalf("claim: %v, %v", r, err)
		}
	}
	if _, err := hooks.Register(t.Context(), testWebhook(account), 1, reply("first")); err != nil {
		t.Fatal(err)
	}
	if r, err := b.store.Claim(t.Context(), account, reply("first").ReplyKey); err != nil || r == nil || string(r.Body) != "sealed first" || r.Status != 200 {
		t.Errorf("the same request: %+v, %v", r, err)
	}
	if ttl := b.rdb.PTTL(t.Context(), redisclient.ReplyKey(b.store.Partition(account), account, codec.ReplyDigest(&reply("first").ReplyKey))).Val(); ttl <= time.Hour {
		t.Errorf("the answer is kept for %s", ttl)
	}
	_, err := hooks.Register(t.Context(), testWebhook(account), 1, reply("too many"))
	wantError(t, err, signal.KindConflict, "limit_reached")
	_, err = b.store.Claim(t.Context(), account, reply("too many").ReplyKey)
	wantError(t, err, signal.KindConflict, "idempotency_in_progress")
	if list, err := hooks.Webhooks(t.Context(), account); err != nil || len(list) != 1 {
		t.Errorf("%d webhooks, %v", len(list), err)
	}
}

// TestARequestIsKnownByAFormerKey: the installation's keys may change within a day.
func TestARequestIsKnownByAFormerKey(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	account := signal.NewAccountID()
	key := signal.ReplyKey{Method: "POST", Path: "/v1/webhooks", Key: "k", RequestHash: [32]byte{1}}
	if err := b.store.SaveReply(t.Context(), account, &signal.Reply{ReplyKey: key, Status: 200, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	key.RequestHash, key.FormerHashes = [32]byte{2}, [][32]byte{{3}, {1}}
	if r, err := b.store.Claim(t.Context(), account, key); err != nil || r == nil {
		t.Errorf("the same request: %v, %v", r, err)
	}
	key.FormerHashes = [][32]byte{{3}}
	_, err := b.store.Claim(t.Context(), account, key)
	wantError(t, err, signal.KindMismatch, "idempotency_key_reused")
}
