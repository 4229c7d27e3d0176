package market

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
)

// Metrics counts what the feeder of this process reads. A nil *Metrics counts
// nothing.
type Metrics struct {
	ticks   prometheus.Counter
	skipped map[prices.Reason]prometheus.Counter
	asks    map[string]prometheus.Counter // by source and result
	failed  map[string]prometheus.Counter // by source
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		ticks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_market_ticks_total", Help: "Ticks that this process had as the market's feeder: of its sources, and from market:ticks.",
		}),
		skipped: make(map[prices.Reason]prometheus.Counter, len(prices.Reasons)),
	}
	skipped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_entries_skipped_total",
		Help: "Ticks and bars from outside that this process did not take as the market's feeder, by reason.",
	}, []string{"reason"})
	asks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_source_requests_total",
		Help: "Requests that this process sent to real sources as the market's feeder, each try counted, by how they ended.",
	}, []string{"source", "result"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_source_failures_total", Help: "How often a real source failed an asset, which was then asked for elsewhere.",
	}, []string{"source"})
	r.MustRegister(m.ticks, skipped, asks, failed)
	m.asks, m.failed = make(map[string]prometheus.Counter), make(map[string]prometheus.Counter)
	for _, source := range append([]string{rss.Name}, venueNames...) {
		m.asks[source+" ok"] = asks.WithLabelValues(source, "ok")
		for _, kind := range fetch.Kinds {
			m.asks[source+" "+string(kind)] = asks.WithLabelValues(source, string(kind))
		}
		m.failed[source] = failed.WithLabelValues(source)
	}
	for _, reason := range prices.Reasons {
		m.skipped[reason] = skipped.WithLabelValues(string(reason))
	}
	return m
}

func (m *Metrics) addTicks(n int) {
	if m != nil {
		m.ticks.Add(float64(n))
	}
}

func (m *Metrics) skip(r prices.Reason) {
	if m != nil {
		m.skipped[r].Inc()
	}
}

// asked notes how a request to a real source ended.
func (m *Metrics) asked(source, result string) {
	if m != nil {
		m.asks[source+" "+result].Inc()
	}
}

// failedOver notes that a source failed an asset.
func (m *Metrics) failedOver(source string) {
	if m != nil {
		m.failed[source].Inc()
	}
}
