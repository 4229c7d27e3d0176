package schedule

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the runs of schedules. A nil *Metrics counts nothing.
type Metrics struct{ runs *prometheus.CounterVec }

// Outcomes of the runs of a round, the values of the label "result".
const (
	runCompleted = "completed"
	runError     = "error"
	runFull      = "full"    // not started: the asset has max_open open signals
	runSkipped   = "skipped" // not started: the account's quota of runs is used up
)

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_scheduled_runs_total",
		Help: "Runs that were due by schedules, by result: completed, error, full where enough signals are open, " +
			"or skipped for want of quota."}, []string{"result"})}
	r.MustRegister(m.runs)
	for _, result := range []string{runCompleted, runError, runFull, runSkipped} {
		m.runs.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) count(result string, n int) {
	if m != nil {
		m.runs.WithLabelValues(result).Add(float64(n))
	}
}
