package eventlog

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestLogIsMeasured: batches and raw replies pass the hook of the client, too.
func TestLogIsMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := redisclient.NewMetrics(registry)
	server := redistest.New(t)
	s := openStore(t, redisclient.Options{URL: server.URL(), Metrics: m})
	l := openLog(t, s, LogOptions{})
	account := signal.NewAccountID()
	if _, err := l.Append(t.Context(), noted(account, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadLog(t.Context(), s.Partition(account), signal.Position{}, 1); err != nil {
		t.Fatal(err)
	}
	server.Client().Set(t.Context(), s.EventsKey(0), "no stream", 0)
	if _, err := s.ReadLog(t.Context(), 0, signal.Position{}, 1); err == nil {
		t.Error("a string is read as a log")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts, failed := map[string]uint64{}, map[string]float64{}
	for _, f := range families {
		if f.GetName() == "agentsignal_redis_errors_total" {
			for _, metric := range f.GetMetric() {
				failed[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
		if f.GetName() == "agentsignal_redis_command_duration_seconds" {
			for _, metric := range f.GetMetric() {
				counts[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	if failed["xrange"] != 1 {
		t.Errorf("%v errors of xrange, want 1", failed["xrange"])
	}
	if counts["evalsha"] == 0 || counts["xrange"] == 0 {
		t.Errorf("commands measured: %v", counts)
	}
}
