package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

func TestMetricsStartAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{
		"agentsignal_webhook_attempts_total":           len(sender.Classes),
		"agentsignal_webhook_attempt_duration_seconds": 2,
		"agentsignal_webhook_deliveries_total":         len(delivery.Statuses),
		"agentsignal_webhook_deliveries_dropped_total": 1,
		"agentsignal_webhook_disabled_total":           len(delivery.DisabledReasons),
		"agentsignal_emails_total":                     4,
		"agentsignal_webhook_pending_deliveries":       1,
		"agentsignal_webhook_due_lag_seconds":          1,
		"agentsignal_webhooks":                         len(delivery.WebhookStatuses),
		"agentsignal_webhooks_held":                    1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	stats := delivery.WebhookStats{Pending: 7, Enabled: 5, Disabled: 2, OldestDue: vectorTime.Add(-3 * time.Second)}
	m.Observe(stats, vectorTime)
	gauges := func() string {
		enabled, disabled := m.webhooks.WithLabelValues("enabled"), m.webhooks.WithLabelValues("disabled")
		var b strings.Builder
		for _, g := range []prometheus.Gauge{m.pending.WithLabelValues(), m.lag.WithLabelValues(), enabled, disabled} {
			fmt.Fprintf(&b, " %g", testutil.ToFloat64(g))
		}
		return b.String()
	}
	if got := gauges(); got != " 7 3 5 2" {
		t.Errorf("got%s", got)
	}
	m.Observe(delivery.WebhookStats{OldestDue: vectorTime.Add(time.Hour)}, vectorTime) // due later: no lag
	if got := gauges(); got != " 0 0 0 0" {
		t.Errorf("then%s", got)
	}
	series := func() int {
		n, err := testutil.GatherAndCount(registry, "agentsignal_webhook_pending_deliveries",
			"agentsignal_webhook_due_lag_seconds", "agentsignal_webhooks")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if m.Reset(); series() != 0 {
		t.Errorf("%d series are left", series())
	}
	if m.Observe(stats, vectorTime); series() != 4 || gauges() != " 7 3 5 2" {
		t.Errorf("then%s in %d series", gauges(), series())
	}
}
