package feeder

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
)

// The streams that any process may write, as logs and metrics name them.
const (
	givenTicks = "market:ticks"
	givenBars  = "market:bars"
)

// Metrics counts the ticks of the feeder. A nil *Metrics counts nothing.
type Metrics struct {
	ticks    prometheus.Counter
	feeding  prometheus.Gauge
	restarts *prometheus.CounterVec
	sources  *source.Metrics
}

// NewMetrics registers the metrics of this package and those of its sources.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		ticks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_market_ticks_total",
			Help: "Ticks that this process had as the market's feeder: of its sources, and from market:ticks.",
		}),
		feeding: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_market_feeding",
			Help: "1 while this process feeds the market, else 0.",
		}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_market_stream_restarts_total",
			Help: "How often a stream of prices began again with smaller ids, and this process read it from its beginning.",
		}, []string{"stream"}),
		sources: source.NewMetrics(r),
	}
	r.MustRegister(m.ticks, m.feeding, m.restarts)
	for _, stream := range []string{givenTicks, givenBars} {
		m.restarts.WithLabelValues(stream)
	}
	return m
}

// ofSources returns the metrics of the sources, or nil.
func (m *Metrics) ofSources() *source.Metrics {
	if m == nil {
		return nil
	}
	return m.sources
}

func (m *Metrics) setFeeding(value float64) {
	if m != nil {
		m.feeding.Set(value)
	}
}

func (m *Metrics) addTicks(n int) {
	if m != nil {
		m.ticks.Add(float64(n))
	}
}

func (m *Metrics) restarted(stream string) {
	if m != nil {
		m.restarts.WithLabelValues(stream).Inc()
	}
}

func (m *Metrics) skip(r prices.Reason) { m.ofSources().Skip(r) }
