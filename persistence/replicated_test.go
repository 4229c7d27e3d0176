package persistence

import (
	"strconv"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAppendWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	b := newLogBench(t, master, eventlog.LogOptions{WaitReplicas: 1, AppendTimeout: time.Second})
	account := accountIn(b.store, 0)
	if _, err := b.log.Append(t.Context(), noted(account, "alone")); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("without a replica: %v", err)
	}
	// Sent again and again, it is there once.
	if n := b.rdb.XLen(t.Context(), redisclient.EventsKey(0)).Val(); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	port := redistest.FreePort(t)
	if err := b.rdb.ConfigSet(t.Context(), "port", port).Err(); err != nil {
		t.Fatal(err)
	}
	b.rdb.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0")
	copied := replica.Client()
	if err := copied.ReplicaOf(t.Context(), "127.0.0.1", port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "first"))
		return err == nil
	})
	for i := range 50 {
		p := b.append(noted(account, strconv.Itoa(i)))
		// Already there, not soon.
		if n := copied.XRange(t.Context(), redisclient.EventsKey(0), p.String(), p.String()).Val(); len(n) != 1 {
			t.Fatalf("the replica lacks event %d", i)
		}
	}
	replica.Pause()
	if _, err := b.log.Append(t.Context(), noted(account, "stalled")); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("while the replica stalls: %v", err)
	}
	replica.Continue()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "again"))
		return err == nil
	})
}
