package eventlog

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAppendWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	b := newLogBenchOn(t, master, redisclient.Options{WaitReplicas: 1}, LogOptions{AppendTimeout: time.Second})
	account := accountIn(b.store, 0)
	if _, err := b.log.Append(t.Context(), noted(account, "alone")); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("without a replica: %v", err)
	}
	// Sent again and again, it is there once.
	if n := b.rdb.XLen(t.Context(), b.store.EventsKey(0)).Val(); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	replica.Follow(master)
	copied := replica.Client()
	taken := func(text string) func() bool {
		return func() bool {
			_, err := b.log.Append(t.Context(), noted(account, text))
			return err == nil
		}
	}
	eventually(t, taken("first"))
	for i := range 50 {
		p := b.append(noted(account, strconv.Itoa(i)))
		// Already there, not soon.
		if n := copied.XRange(t.Context(), b.store.EventsKey(0), p.String(), p.String()).Val(); len(n) != 1 {
			t.Fatalf("the replica lacks event %d", i)
		}
	}
	replica.Pause()
	if _, err := b.log.Append(t.Context(), noted(account, "stalled")); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("while the replica stalls: %v", err)
	}
	replica.Continue()
	eventually(t, taken("again"))
}

// TestRepeatedBatchWaitsForReplicas: the answer to the first try is lost while the replica
// stalls. WAIT waits for what its own connection has written, so the second try, on another
// connection, must be a write although it changes nothing.
func TestRepeatedBatchWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	b := newLogBenchOn(t, master, redisclient.Options{WaitReplicas: 1}, LogOptions{AppendTimeout: 3 * time.Second})
	account := accountIn(b.store, 0)
	b.append(noted(account, "before"))
	replica.InStep(master)
	replica.Pause()
	defer replica.Continue()
	answer := make(chan error, 1)
	go func() {
		_, err := b.log.Append(t.Context(), noted(account, "lost answer"))
		answer <- err
	}()
	for range 5 {
		eventually(t, func() bool { return blocked(b.rdb, t) || len(answer) > 0 })
		b.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	if err := <-answer; signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("while the replica stalls: %v", err)
	}
	if n := b.rdb.XLen(t.Context(), b.store.EventsKey(0)).Val(); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestRepeatedBatchWrites(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	key, job := b.store.BatchKey(0, "test"), b.store.JobKey(0, "job_1")
	set := func(value string) {
		t.Helper()
		o := NewOperation(redisclient.Keys{})
		o.Step(CmdSet, o.Key(job), value)
		b.carryOutTogether(0, o) // each batch has the same number
	}
	set("x")
	b.rdb.Expire(t.Context(), key, time.Minute)
	set("y")
	if ttl := b.rdb.TTL(t.Context(), key).Val(); ttl != 10*time.Minute {
		t.Errorf("the batch is remembered for %s after its repetition, want 10 min", ttl)
	}
	if v := b.rdb.Get(t.Context(), job).Val(); v != "x" {
		t.Errorf("the repetition has stored %q", v)
	}
}

// blocked reports whether a client waits for replicas.
func blocked(c *redis.Client, t *testing.T) bool {
	for _, client := range strings.Split(c.ClientList(t.Context()).Val(), "\n") {
		if strings.Contains(client, "cmd=wait") && strings.Contains(client, "flags=b") {
			return true
		}
	}
	return false
}
