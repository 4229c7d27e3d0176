package weather

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
)

// Metrics counts requests to sources of weather. A nil *Metrics counts nothing.
type Metrics struct{ asks *prometheus.CounterVec }

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_weather_source_requests_total",
		Help: "Requests that this process sent to real sources of weather, each try counted, by how they ended.",
	}, []string{"source", "result"})}
	r.MustRegister(m.asks)
	m.asks.WithLabelValues(OpenMeteoName, "ok")
	for _, kind := range fetch.Kinds {
		m.asks.WithLabelValues(OpenMeteoName, string(kind))
	}
	return m
}

// asked counts a request by its result.
func (m *Metrics) asked(source, result string) {
	if m != nil {
		m.asks.WithLabelValues(source, result).Inc()
	}
}
