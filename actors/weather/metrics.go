package weather

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
)

// missingReason is why an answer has nothing of a point. It is a label of a metric.
type missingReason string

// The reasons.
const (
	missingError     missingReason = "error"     // the service has an error in its place
	missingPlace     missingReason = "place"     // there are no coordinates, or they are of another place
	missingDays      missingReason = "days"      // there are no days, or they do not follow one another
	missingValues    missingReason = "values"    // a variable is missing or in another unit
	missingMalformed missingReason = "malformed" // it is not of the documented form
	missingStale     missingReason = "stale"     // the forecast is outdated
)

// missingReasons lists them for the metric.
var missingReasons = []missingReason{missingError, missingPlace, missingDays, missingValues, missingMalformed, missingStale}

// Metrics counts requests to sources of weather. A nil *Metrics counts nothing.
type Metrics struct {
	asks    *prometheus.CounterVec
	missing map[missingReason]prometheus.Counter
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_weather_source_requests_total",
			Help: "Requests that this process sent to real sources of weather, each try counted, by how they ended.",
		}, []string{"source", "result"}),
		missing: make(map[missingReason]prometheus.Counter, len(missingReasons)),
	}
	missing := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_weather_points_missing_total",
		Help: "Points of which an answer of a real source of weather had nothing usable, by reason.",
	}, []string{"source", "reason"})
	r.MustRegister(m.asks, missing)
	m.asks.WithLabelValues(OpenMeteoName, "ok")
	for _, kind := range fetch.Kinds {
		m.asks.WithLabelValues(OpenMeteoName, string(kind))
	}
	for _, reason := range missingReasons {
		m.missing[reason] = missing.WithLabelValues(OpenMeteoName, string(reason))
	}
	return m
}

// asked counts a request by its result.
func (m *Metrics) asked(source, result string) {
	if m != nil {
		m.asks.WithLabelValues(source, result).Inc()
	}
}

// missed counts a point of which an answer has nothing.
func (m *Metrics) missed(reason missingReason) {
	if m != nil {
		m.missing[reason].Inc()
	}
}
