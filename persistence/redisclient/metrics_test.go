package redisclient

import (
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestAllConnectionsAreCounted, also those that the library keeps for pipelines.
func TestAllConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	registry := prometheus.NewRegistry()
	c, err := NewClient(Options{URL: server.URL(), Partitions: 4, Metrics: NewMetrics(registry)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	rdb := server.Client()
	list := func() (names []string) {
		for line := range strings.Lines(rdb.ClientList(t.Context()).Val()) {
			if strings.Contains(line, "user="+redistest.User) {
				names = append(names, line)
			}
		}
		return names
	}
	var wg sync.WaitGroup
	for range 4 * (commandConns + pipelineConns) {
		wg.Go(func() {
			for range 20 {
				_, _ = c.RDB.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
					return pipe.Time(t.Context()).Err()
				})
				c.RDB.Time(t.Context())
			}
		})
	}
	wg.Wait()
	c.Blocking.Time(t.Context())
	shown := func() (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "agentsignal_redis_pool_connections" {
				continue
			}
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
		return sum
	}
	redistest.Eventually(t, func() bool { return int(shown()) == len(list()) })
	if n := len(list()); n <= commandConns || n > commandConns+pipelineConns+1 {
		t.Errorf("%d connections, want %d to %d", n, commandConns+1, commandConns+pipelineConns+1)
	}
}
