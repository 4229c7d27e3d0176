package source

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
)

// Metrics counts requests to real sources and skipped prices. A nil *Metrics counts nothing.
type Metrics struct {
	skipped map[prices.Reason]prometheus.Counter
	asks    map[string]prometheus.Counter // by source and result
	failed  map[string]prometheus.Counter // by source
}

// NewMetrics registers the metrics of sources.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		skipped: make(map[prices.Reason]prometheus.Counter, len(prices.Reasons)),
		asks:    make(map[string]prometheus.Counter),
		failed:  make(map[string]prometheus.Counter),
	}
	skipped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_entries_skipped_total",
		Help: "Ticks and bars from outside that this process did not take as the market's feeder, by reason.",
	}, []string{"reason"})
	asks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_source_requests_total",
		Help: "Requests that this process sent to real sources as the market's feeder, each try counted, " +
			"by how they ended.",
	}, []string{"source", "result"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_source_failures_total",
		Help: "How often a real source failed an asset, which was then asked for elsewhere.",
	}, []string{"source"})
	r.MustRegister(skipped, asks, failed)
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

// Skip counts a skipped entry, tick or bar.
func (m *Metrics) Skip(r prices.Reason) {
	if m != nil {
		m.skipped[r].Inc()
	}
}

func (m *Metrics) asked(source, result string) {
	if m != nil {
		m.asks[source+" "+result].Inc()
	}
}

func (m *Metrics) failedOver(source string) {
	if m != nil {
		m.failed[source].Inc()
	}
}
