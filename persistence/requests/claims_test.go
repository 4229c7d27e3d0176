package requests

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// openNode returns the requests of a live node.
func openNode(t *testing.T, server *redistest.Server, id string) *bench {
	t.Helper()
	b := openBench(t, server, redisclient.Options{URL: server.URL(), Partitions: 4, Node: id})
	if _, err := b.logs.Nodes.AnnounceNode(t.Context(), id, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	return b
}

// claim is a request with an Idempotency-Key.
func (b *bench) claim(key string) signal.ReplyKey {
	return signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: key, Claim: b.store.NewClaim()}
}

func TestTheLockOfAnEndedProcessIsVoid(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a, b := openNode(t, server, "a"), openNode(t, server, "b")
	ctx, account := t.Context(), signal.NewAccountID()
	former, next := a.claim("k"), b.claim("k")
	if r, err := a.store.Claim(ctx, account, former); r != nil || err != nil {
		t.Fatalf("claim: %v, %v", r, err)
	}
	_, err := b.store.Claim(ctx, account, next)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
	b.rdb.Persist(ctx, b.replyKey(account, &former)) // it does not end by itself
	// A node that leaves may still have requests under way.
	if err := a.logs.Nodes.LeaveNode(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	_, err = b.store.Claim(ctx, account, next)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")

	// Its announcement expires.
	if _, err := a.logs.Nodes.AnnounceNode(ctx, "a", time.Millisecond, false); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool {
		r, err := b.store.Claim(ctx, account, next)
		return r == nil && err == nil
	})

	// The former process was alive nevertheless: what it does late has no effect.
	late := storetest.Created(storetest.Signal(account))
	late.Reply = &signal.Reply{ReplyKey: former, Status: 200}
	_, err = a.log.Append(ctx, late)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
	if n := b.rdb.XLen(ctx, b.store.SignalsKey(b.store.Partition(account))).Val(); n != 0 {
		t.Errorf("%d signals are stored by the former process", n)
	}
	reply := &signal.Reply{ReplyKey: former, Status: 200, Body: []byte("late")}
	storetest.WantError(t, a.store.SaveReply(ctx, account, reply), signal.KindConflict, "idempotency_in_progress")
	hooks := deliveries.New(a.logs.Client, a.log)
	_, err = hooks.Settings.Register(ctx, storetest.Webhook(account), 1, reply)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
	queue := jobs.New(a.store.Client, "a", jobs.Options{})
	job := signal.Job{ID: signal.NewJobID(), Run: signal.NewRunID(), CreatedAt: time.Now()}
	job.Request.Account = account
	storetest.WantError(t, queue.Enqueue(ctx, job, 1, reply), signal.KindConflict, "idempotency_in_progress")
	if err := a.store.Release(ctx, account, former); err != nil {
		t.Fatal(err)
	}

	mine := storetest.Created(storetest.Signal(account))
	mine.Reply = &signal.Reply{ReplyKey: next, Status: 200}
	if _, err := b.log.Append(ctx, mine); err != nil {
		t.Fatal(err)
	}
	if r, err := a.store.Claim(ctx, account, a.claim("k")); err != nil || r.Signal == nil || r.Signal.ID != mine.Signal.ID {
		t.Errorf("the request again: %+v, %v; want the signal of the second process", r, err)
	}
	// Nor does it replace the reply.
	_, err = a.log.Append(ctx, late)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
}

// TestOneRequestTakesAVoidLock of many at once.
func TestOneRequestTakesAVoidLock(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a, b := openNode(t, server, "a"), openNode(t, server, "b")
	account := signal.NewAccountID()
	if _, err := a.store.Claim(t.Context(), account, a.claim("k")); err != nil {
		t.Fatal(err)
	}
	// The node is another process by now.
	if err := a.logs.Nodes.LeaveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	openNode(t, server, "a")
	var winners atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if r, err := b.store.Claim(t.Context(), account, b.claim("k")); r == nil && err == nil {
				winners.Add(1)
			}
		})
	}
	wg.Wait()
	if winners.Load() != 1 {
		t.Errorf("%d requests go on, want 1", winners.Load())
	}
}

// TestLocksOfEarlierBuilds name no process: they end after a minute.
func TestLocksOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	b := openNode(t, redistest.New(t), "b")
	account, key := signal.NewAccountID(), b.claim("k")
	without := key
	without.Claim = ""
	value := codec.AppendReplyLock(nil, &without)
	if err := b.rdb.Set(t.Context(), b.replyKey(account, &key), value, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.store.Claim(t.Context(), account, key)
	storetest.WantError(t, err, signal.KindConflict, "idempotency_in_progress")
}

// TestALockLastsAsLongAsItsRequest, and not longer.
func TestALockLastsAsLongAsItsRequest(t *testing.T) {
	t.Parallel()
	b := openNode(t, redistest.New(t), "b")
	b.store.hold = time.Millisecond
	account, key := signal.NewAccountID(), b.claim("k")
	if _, err := b.store.Claim(t.Context(), account, key); err != nil {
		t.Fatal(err)
	}
	name := b.replyKey(account, &key)
	expire := func() { b.rdb.PExpire(t.Context(), name, replyLock/2) }
	renewed := func() bool { return b.rdb.PTTL(t.Context(), name).Val() > replyLock/2 }
	end := b.store.Hold(account, key)
	for range 3 {
		expire()
		redistest.Eventually(t, renewed)
	}
	end()
	if err := b.store.Release(t.Context(), account, key); err != nil {
		t.Fatal(err)
	}
	// A lock of another request is not renewed.
	end = b.store.Hold(account, key)
	defer end()
	if _, err := b.store.Claim(t.Context(), account, b.claim("k")); err != nil {
		t.Fatal(err)
	}
	expire()
	calls := func() string { return b.rdb.Info(t.Context(), "commandstats").Val() }
	for range 3 { // renewals
		before := scriptCalls(calls())
		redistest.Eventually(t, func() bool { return scriptCalls(calls()) > before })
	}
	if renewed() {
		t.Error("a request renews the lock of another one")
	}
}

// scriptCalls returns the part of INFO that counts calls of scripts.
func scriptCalls(info string) string {
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	calls, _, _ := strings.Cut(rest, ",")
	return fmt.Sprintf("%12s", calls) // in the order of the numbers
}

// TestALockEndsSoonAfterACut: neither the claim nor the release of a request was answered, so its live process holds a
// lock for no request.
func TestALockEndsSoonAfterACut(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o := redisclient.Options{URL: server.URL(), Partitions: 4, Node: "a", Timeout: 50 * time.Millisecond}
	b := openBench(t, server, o)
	account, claimed, unanswered := signal.NewAccountID(), b.claim("claimed"), b.claim("unanswered")
	redistest.Eventually(t, func() bool { // the server may be slow
		r, err := b.store.Claim(t.Context(), account, claimed)
		return r == nil && err == nil
	})
	server.Pause()
	_, err := b.store.Claim(t.Context(), account, unanswered)
	storetest.WantKind(t, "claim", err, signal.KindUnavailable)
	storetest.WantKind(t, "release", b.store.Release(t.Context(), account, claimed), signal.KindUnavailable)
	server.Continue()
	const lease = 5 * time.Second // by default
	for _, k := range []signal.ReplyKey{claimed, unanswered} {
		if ttl := b.rdb.PTTL(t.Context(), b.replyKey(account, &k)).Val(); ttl > lease || ttl == -1 {
			t.Errorf("repeats of %s are refused for %s", k.Key, ttl)
		}
	}
}
