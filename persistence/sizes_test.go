package persistence

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func measuredStore(tb testing.TB, server *redistest.Server) *Store {
	metrics := redisclient.NewMetrics(prometheus.NewRegistry())
	return openStore(tb, Options{URL: server.URL(), Metrics: metrics})
}

func TestBytesOfPartitionsAreMeasured(t *testing.T) {
	t.Parallel()
	s, ctx := measuredStore(t, redistest.New(t)), t.Context()
	large := strings.Repeat("x", 100_000)
	for i := range 3000 {
		s.Client.RDB.Set(ctx, s.Client.PartitionKey(3, fmt.Sprint("small:", i)), "x", 0)
	}
	seven, twelve := s.Client.PartitionKey(7, "large"), s.Client.PartitionKey(12, "a")
	for _, key := range []string{
		seven, twelve, s.Client.PartitionKey(12, "b"), "market:ticks", "{p1}:none", "{p",
	} {
		if err := s.Client.RDB.Set(ctx, key, large, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	z := s.Gauges.sizes
	shown := func(label string) float64 { return testutil.ToFloat64(z.bytes.WithLabelValues(label)) }
	// A pass takes several updates, and shows nothing before its end.
	updates := 0
	for z.found = map[string]float64{}; ; updates++ {
		if err := z.update(ctx, s.Client, 1000); err != nil {
			t.Fatal(err)
		}
		if len(z.found) == 0 {
			break
		}
		if n := testutil.CollectAndCount(z.bytes); n > 0 {
			t.Fatalf("%d partitions are shown before the end of the pass", n)
		}
	}
	if updates < 2 {
		t.Errorf("3000 keys are measured in %d updates of 1000", updates)
	}
	if n := testutil.CollectAndCount(z.bytes); n != 4 {
		t.Errorf("%d partitions are shown, want 3 and the others", n)
	}
	for label, want := range map[string]float64{"07": 100_000, "12": 200_000, otherKeys: 300_000, "03": 3000 * 75} {
		if got := shown(label); math.Abs(got-want) > want/4 {
			t.Errorf("partition %s has %v bytes, want about %v", label, got, want)
		}
	}
	// The next pass forgets removed keys.
	if err := s.Client.RDB.Del(ctx, seven, twelve).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Gauges.Update(ctx); err != nil {
		t.Fatal(err)
	}
	if got := shown("12"); math.Abs(got-100_000) > 25_000 {
		t.Errorf("partition 12 has %v bytes after one of two keys is removed", got)
	}
	if n := testutil.CollectAndCount(z.bytes); n != 3 {
		t.Errorf("%d partitions are shown", n)
	}
}

// TestSizesWithoutMemoryUsage: a Redis that refuses or does not know the command is asked once.
func TestSizesWithoutMemoryUsage(t *testing.T) {
	t.Parallel()
	refusing, unable := redistest.New(t), redistest.New(t, "--rename-command", "MEMORY", "")
	ctx := t.Context()
	refusing.Deny("-memory")
	for name, server := range map[string]*redistest.Server{"refused": refusing, "not known": unable} {
		s := measuredStore(t, server)
		if err := s.Client.RDB.Set(ctx, s.Client.PartitionKey(1, "a"), "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Gauges.Update(ctx); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !s.Gauges.sizes.refused || testutil.CollectAndCount(s.Gauges.sizes.bytes) > 0 {
			t.Errorf("%s: its answer counts as a size", name)
		}
	}
}

// BenchmarkSizes measures the keys of one update.
func BenchmarkSizes(b *testing.B) {
	s, ctx := measuredStore(b, redistest.New(b)), b.Context()
	for from := 0; from < 50_000; from += 1000 {
		pipe := s.Client.RDB.Pipeline()
		for i := range 1000 {
			key := s.Client.PartitionKey(i%16, fmt.Sprint("job:", from+i))
			pipe.HSet(ctx, key, "a", "some text", "b", "more of it", "c", i)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := s.Gauges.sizes.update(ctx, s.Client, sizedKeys); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzPartitionLabel(f *testing.F) {
	for _, key := range []string{"{p07}:open", "{p1023-zk}:owner", "{p07-}:x", "{p7}:x", "{pab}:x", "{p", "market:ticks"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if label := partitionLabel(key); label != otherKeys && !strings.HasPrefix(key, "{p"+label) {
			t.Errorf("%q is of partition %s", key, label)
		}
	})
}
