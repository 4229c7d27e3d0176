package source

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
)

// newsReason is why a source's item of news is not used. It is a label of a metric.
type newsReason string

// The reasons.
const (
	newsMalformed newsReason = "malformed" // it is not of the documented form
	newsHeadline  newsReason = "headline"  // it has no headline
	newsDate      newsReason = "date"      // it has no readable date, and may have been there for long
	newsFuture    newsReason = "future"    // its date is in the future
	newsOld       newsReason = "old"       // it is older than NewsKept
	newsUnrelated newsReason = "unrelated" // it mentions no asset
	newsExcess    newsReason = "excess"    // there are too many in one answer
)

// newsReasons lists them for the metric.
var newsReasons = []newsReason{newsMalformed, newsHeadline, newsDate, newsFuture, newsOld, newsUnrelated, newsExcess}

// Metrics counts requests to real sources and skipped prices and news. A nil *Metrics counts nothing.
type Metrics struct {
	news    *prometheus.CounterVec // by kind of source and reason
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
	m.news = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_market_news_skipped_total",
		Help: "Items of news from real sources that this process did not take as the market's feeder, by reason.",
	}, []string{"source", "reason"})
	r.MustRegister(skipped, asks, failed, m.news)
	for _, source := range []string{rss.Name, alpaca.Name} {
		for _, reason := range newsReasons {
			m.news.WithLabelValues(source, string(reason))
		}
	}
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

func (m *Metrics) skipNews(source string, r newsReason, n int) {
	if m != nil {
		m.news.WithLabelValues(source, string(r)).Add(float64(n))
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
