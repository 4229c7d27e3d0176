package asked

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Metrics counts questions and paused agents. A nil *Metrics counts nothing.
type Metrics struct {
	asks   *prometheus.CounterVec
	paused prometheus.Gauge
}

// The results of questions, by the code of their error.
var results = map[string]string{
	string(signal.AgentUnreachable):  "unreachable",
	string(signal.AgentTimeout):      "timeout",
	string(signal.AgentReplyInvalid): "invalid",
	signal.CodeAgentPaused:           "paused",
	"too_many_runs":                  "too_many",
}

// The results of questions without an error.
const (
	resultSuccess  = "success"
	resultNoSignal = "no_signal"
)

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_agent_asks_total",
			Help: "Questions to the agents of accounts, by how they ended: success, no_signal, unreachable, timeout, " +
				"invalid (the reply); or paused, too_many without being sent.",
		}, []string{"result"}),
		paused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_agents_paused",
			Help: "Agents of accounts that this process does not ask, or only once at a time, since they failed too often.",
		}),
	}
	r.MustRegister(m.asks, m.paused)
	m.asks.WithLabelValues(resultSuccess)
	m.asks.WithLabelValues(resultNoSignal)
	for _, result := range results {
		m.asks.WithLabelValues(result)
	}
	return m
}

// asked counts a question that ended with s or err. Those that their caller gave up are not counted.
func (m *Metrics) asked(s *signal.Submission, err error) {
	if m == nil {
		return
	}
	result := resultNoSignal
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		result = results[string(e.Code)]
	} else if err != nil {
		result = results[signal.CodeOf(err)]
	} else if s != nil {
		result = resultSuccess
	}
	if result != "" {
		m.asks.WithLabelValues(result).Inc()
	}
}

// pause changes the number of paused agents.
func (m *Metrics) pause(change float64) {
	if m != nil {
		m.paused.Add(change)
	}
}
