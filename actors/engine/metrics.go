package engine

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// measureEvery is the sampling rate of durations: one message in measureEvery is
// measured, because two readings of the clock cost as much as delivering a message.
const measureEvery = 16

// Metrics counts what actors do, by kind.
type Metrics struct {
	byKind   map[Kind]*kindStats
	duration *prometheus.HistogramVec // nil unless registered
}

// kindStats are the counters of one kind. They are plain atomics, which are cheaper than
// Prometheus counters, because the mailbox adds to them for each message or batch.
type kindStats struct {
	kind       Kind
	running    atomic.Int64
	mailbox    atomic.Int64
	messages   atomic.Int64
	restarts   atomic.Int64
	dead       atomic.Int64
	durationOf prometheus.Observer // nil without metrics
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := newMetrics()
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "agentsignal_actor_receive_duration_seconds",
		Help:    "Time that an actor took for a message; one message in 16 is measured.",
		Buckets: []float64{.00001, .0001, .001, .01, .1, 1},
	}, []string{"kind"})
	for k, s := range m.byKind {
		s.durationOf = m.duration.WithLabelValues(string(k))
	}
	r.MustRegister(m, m.duration)
	return m
}

func newMetrics() *Metrics {
	m := &Metrics{byKind: make(map[Kind]*kindStats, len(kinds))}
	for _, k := range kinds {
		m.byKind[k] = &kindStats{kind: k}
	}
	return m
}

// of returns the counters of kind k.
func (m *Metrics) of(k Kind) *kindStats {
	if s, ok := m.byKind[k]; ok {
		return s
	}
	return m.byKind[Other]
}

var (
	runningDesc = prometheus.NewDesc("agentsignal_actor_running",
		"Actors that are running.", []string{"kind"}, nil)
	mailboxDesc = prometheus.NewDesc("agentsignal_actor_mailbox_messages",
		"Messages in mailboxes, without those of the library.", []string{"kind"}, nil)
	messagesDesc = prometheus.NewDesc("agentsignal_actor_messages_total",
		"Messages that actors have handled.", []string{"kind"}, nil)
	restartsDesc = prometheus.NewDesc("agentsignal_actor_restarts_total",
		"Actors that were restarted after a panic.", []string{"kind"}, nil)
	deadDesc = prometheus.NewDesc("agentsignal_actor_dead_letters_total",
		"Messages for actors that had stopped.", []string{"kind"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- runningDesc
	ch <- mailboxDesc
	ch <- messagesDesc
	ch <- restartsDesc
	ch <- deadDesc
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, k := range kinds {
		s, label := m.byKind[k], string(k)
		ch <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(s.running.Load()), label)
		ch <- prometheus.MustNewConstMetric(mailboxDesc, prometheus.GaugeValue, float64(s.mailbox.Load()), label)
		ch <- prometheus.MustNewConstMetric(messagesDesc, prometheus.CounterValue, float64(s.messages.Load()), label)
		ch <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(s.restarts.Load()), label)
		ch <- prometheus.MustNewConstMetric(deadDesc, prometheus.CounterValue, float64(s.dead.Load()), label)
	}
}
