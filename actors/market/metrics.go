package market

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what the feeder of this process reads. A nil *Metrics counts
// nothing.
type Metrics struct {
	ticks   prometheus.Counter
	skipped map[reason]prometheus.Counter
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		ticks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_market_ticks_total", Help: "Entries of market:ticks that this process read as the market's feeder.",
		}),
		skipped: make(map[reason]prometheus.Counter, len(skipReasons)),
	}
	skipped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_entries_skipped_total",
		Help: "Ticks and bars from outside that this process did not take as the market's feeder, by reason.",
	}, []string{"reason"})
	r.MustRegister(m.ticks, skipped)
	for _, reason := range skipReasons {
		m.skipped[reason] = skipped.WithLabelValues(string(reason))
	}
	return m
}

func (m *Metrics) addTicks(n int) {
	if m != nil {
		m.ticks.Add(float64(n))
	}
}

func (m *Metrics) skip(r reason) {
	if m != nil {
		m.skipped[r].Inc()
	}
}
