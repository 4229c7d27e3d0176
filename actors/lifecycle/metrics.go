package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Metrics counts open signals and how they close. The label agent has the values of signal.AgentID.Label. A nil *Metrics
// counts nothing.
type Metrics struct {
	watched *prometheus.GaugeVec
	closes  *prometheus.CounterVec
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		watched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_signals_open", Help: "Open signals that this process watches. Agents of accounts count as own.",
		}, []string{"agent"}),
		closes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_signals_closed_total", Help: "Signals that this process closed, by reason.",
		}, []string{"agent", "close_reason"}),
	}
	r.MustRegister(m.watched, m.closes)
	for _, agent := range append(signal.AgentIDs(), signal.OwnAgents) {
		m.watched.WithLabelValues(agent.Label())
		for _, reason := range signal.CloseReasons {
			m.closes.WithLabelValues(agent.Label(), string(reason))
		}
	}
	return m
}

// opened adds n, which may be negative, to the open signals of the agents with a label.
func (m *Metrics) opened(label string, n int) {
	if m != nil {
		m.watched.WithLabelValues(label).Add(float64(n))
	}
}

// closed counts a signal that was closed.
func (m *Metrics) closed(s *signal.Signal) {
	if m != nil {
		m.closes.WithLabelValues(s.Agent.Label(), string(s.Closing.Reason)).Inc()
	}
}
