package redisclient

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A cluster is ready when each of its masters takes writes.
func TestClusterIsReadyWithAllMasters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	cluster := redistest.NewCluster(t, 3)
	c := openClient(t, Options{URL: cluster.URL()})
	limit := func(node *redis.Client, bytes, want string) {
		t.Helper()
		if err := node.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
		wantReady(t, c, want)
	}
	for _, node := range cluster.Nodes() {
		limit(node, "1", "redis is full")
		limit(node, "0", "")
	}
}

// A command whose reply was lost may have been carried out: its caller decides whether
// to send it again.
func TestClusterCommandIsSentOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	cluster := redistest.NewCluster(t, 1)
	c := openClient(t, Options{URL: cluster.URL()})
	if err := c.RDB.HSet(t.Context(), "{counter}", "n", 0).Err(); err != nil {
		t.Fatal(err)
	}
	// The server is silent for longer than the client waits for a reply, and then answers.
	pause := (defaultTimeout * 5 / 4).Milliseconds()
	if err := cluster.Nodes()[0].Do(t.Context(), "CLIENT", "PAUSE", pause).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.RDB.HIncrBy(t.Context(), "{counter}", "n", 1).Result(); err == nil {
		t.Fatalf("it was sent again: %d", n)
	}
	redistest.Eventually(t, func() bool { return c.RDB.HIncrBy(t.Context(), "{counter}", "n", 1).Err() == nil })
}
