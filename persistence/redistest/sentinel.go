package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

// masterName is what sentinels call the master.
const masterName = "m"

// Watched is a master with replicas and a sentinel, which replaces a master that does not answer
// for a second.
type Watched struct {
	Master, Sentinel *Server
	Replicas         []*Server
	port             string // of the sentinel
}

// NewWatched starts a master with an append-only file and replicas, which have all of its data,
// and a sentinel. They are stopped when the test ends.
func NewWatched(tb testing.TB, replicas int) *Watched {
	tb.Helper()
	w := &Watched{Master: NewDurable(tb), port: FreePort(tb)}
	for range replicas {
		r := NewDurable(tb, "--port", FreePort(tb))
		r.Follow(w.Master)
		w.Replicas = append(w.Replicas, r)
	}
	ctx := context.Background()
	port := w.Master.Client().ConfigGet(ctx, "port").Val()["port"]
	file := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s 1\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", masterName, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	w.Sentinel = startProcess(tb, []string{file, "--sentinel"}, "--port", w.port)
	s := redis.NewSentinelClient(&redis.Options{Addr: "127.0.0.1:" + w.port})
	defer s.Close()
	Eventually(tb, func() bool {
		known, err := s.Replicas(ctx, masterName).Result()
		return err == nil && len(known) == replicas
	})
	return w
}

// URL returns the address for persistence.Options.
func (w *Watched) URL() string { return "redis+sentinel://127.0.0.1:" + w.port + "/" + masterName }
