package persistence

import (
	"testing"

	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// With WaitReplicas a write counts when replicas have it: not without one, and not while
// the only one stalls.
func TestReadyWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	b := &faultBench{T: t, store: openStore(t, Options{URL: master.URL(), WaitReplicas: 1})}
	b.wantReady(redisclient.ReplicasMissing, true)
	port := redistest.FreePort(t)
	rdb := master.Client()
	if err := rdb.ConfigSet(t.Context(), "port", port).Err(); err != nil {
		t.Fatal(err)
	}
	rdb.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0")
	if err := replica.Client().ReplicaOf(t.Context(), "127.0.0.1", port).Err(); err != nil {
		t.Fatal(err)
	}
	b.wantReady("", false)
	replica.Pause()
	b.wantReady(redisclient.ReplicasMissing, true)
	replica.Continue()
	b.wantReady("", false)
}
