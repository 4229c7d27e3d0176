package persistence

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestGaugesShowStreamsAndConnections(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := openStore(t, Options{URL: redistest.New(t).URL(), Metrics: redisclient.NewMetrics(registry)})
	l := openLog(t, s, eventlog.LogOptions{})
	account := signal.NewAccountID()
	for range 3 {
		if _, err := l.Append(t.Context(), storetest.Noted(account, "x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Gauges.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP agentsignal_stream_lag_messages Entries that a reader has still to read. The same in every process.
# TYPE agentsignal_stream_lag_messages gauge
agentsignal_stream_lag_messages{group="engine",stream="events"} 3
agentsignal_stream_lag_messages{group="jobs",stream="jobs"} 0
# HELP agentsignal_stream_length Entries of a kind of stream, all partitions together. The same in every process.
# TYPE agentsignal_stream_length gauge
agentsignal_stream_length{group="",stream="signals"} 0
agentsignal_stream_length{group="engine",stream="events"} 3
agentsignal_stream_length{group="jobs",stream="jobs"} 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"agentsignal_stream_lag_messages", "agentsignal_stream_length")
	if err != nil {
		t.Error(err)
	}
	n, err := testutil.GatherAndCount(registry,
		"agentsignal_redis_pool_connections", "agentsignal_redis_pool_timeouts_total")
	if err != nil || n != 3 {
		t.Errorf("%d series of the pool, want 3: %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// A process that has lost Redis keeps its values for a while, since an update may fail once, and then has none.
func TestGaugesOfAProcessWithoutRedisEnd(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := openStore(t, Options{URL: redistest.New(t).URL(), Metrics: redisclient.NewMetrics(registry)})
	series := func() int {
		t.Helper()
		n, err := testutil.GatherAndCount(registry, "agentsignal_stream_lag_messages", "agentsignal_stream_length",
			"agentsignal_stream_oldest_pending_seconds", "agentsignal_redis_bytes")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if err := s.Gauges.Update(t.Context()); err != nil || series() == 0 {
			t.Errorf("%d series, %v", series(), err)
		}
		if s.Gauges.Reset(); series() != 0 {
			t.Errorf("%d series are left", series())
		}
	}
}

// Errors of Redis raise an alert, so what is measured regularly makes none.
func TestMeasuringMakesNoErrors(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := openStore(t, Options{URL: redistest.New(t).URL(), Metrics: redisclient.NewMetrics(registry)})
	if err := s.Gauges.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := jobs.New(s.Client, "node", jobs.Options{}).Waiting(t.Context()); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "agentsignal_redis_errors_total" && m.GetCounter().GetValue() > 0 {
				t.Errorf("errors: %v", m)
			}
		}
	}
}
