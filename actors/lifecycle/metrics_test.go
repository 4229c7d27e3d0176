package lifecycle

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Accounts name their agents, so that a metric has none of these names.
func TestOwnAgentsCountTogether(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	parent := newSignals(&owned{Node: New(nil, nil, nil, Options{Metrics: m})})
	series := func() int { return testutil.CollectAndCount(m.watched) + testutil.CollectAndCount(m.closes) }
	before := series()
	for _, agent := range []signal.AgentID{"first", "second", "trading"} {
		parent.count(agent, 2)
		parent.count(agent, -1)
		m.closed(&signal.Signal{Agent: agent, Closing: &signal.Closing{Reason: signal.Expired}})
	}
	if after := series(); after != before {
		t.Errorf("%d series, want %d", after, before)
	}
	if len(parent.open) != 2 {
		t.Errorf("children are counted by %v", parent.open)
	}
	open, closed := m.watched.WithLabelValues("own"), m.closes.WithLabelValues("own", string(signal.Expired))
	if testutil.ToFloat64(open) != 2 || testutil.ToFloat64(closed) != 2 {
		t.Errorf("%v open, %v closed, want 2 each", testutil.ToFloat64(open), testutil.ToFloat64(closed))
	}
}
