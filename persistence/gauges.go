package persistence

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// streamMetrics show how full the streams are and how far their readers.
type streamMetrics struct {
	length    *prometheus.GaugeVec
	lag       *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
	reclaimed *prometheus.CounterVec
}

func newStreamMetrics(r prometheus.Registerer) streamMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"stream", "group"})
	}
	m := streamMetrics{
		length: gauge("agentsignal_stream_length", "Entries of a kind of stream, all partitions together. The same in every process."),
		lag:    gauge("agentsignal_stream_lag_messages", "Entries that a reader has still to read. The same in every process."),
		oldest: gauge("agentsignal_stream_oldest_pending_seconds", "Age of the oldest entry that a reader has not finished. The same in every process."),
		reclaimed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_stream_reclaimed_total",
			Help: "Entries taken over from a reader that did not finish them."}, []string{"stream", "group"}),
	}
	m.reclaimed.WithLabelValues("jobs", jobGroup)
	r.MustRegister(m.length, m.lag, m.oldest, m.reclaimed)
	return m
}

// UpdateGauges asks Redis about its streams, and about the size of some of its keys. It is
// called every 15 s, not at a scrape.
func (s *Store) UpdateGauges(ctx context.Context) error {
	if s.metrics == nil {
		return nil
	}
	stats, err := s.streamStats(ctx)
	if err != nil {
		return err
	}
	m := s.metrics.streams
	for _, t := range stats {
		m.length.WithLabelValues(t.Stream, t.Group).Set(float64(t.Length))
		if t.Group != "" {
			m.lag.WithLabelValues(t.Stream, t.Group).Set(float64(t.Lag))
			m.oldest.WithLabelValues(t.Stream, t.Group).Set(t.Oldest.Seconds())
		}
	}
	return s.metrics.sizes.update(ctx, s, sizedKeys)
}

// countReclaimed counts jobs that another worker had before.
func (s *Store) countReclaimed(n int) {
	if s.metrics != nil && n > 0 {
		s.metrics.streams.reclaimed.WithLabelValues("jobs", jobGroup).Add(float64(n))
	}
}

// poolCollector shows the connections to Redis, as the library counts them.
type poolCollector struct {
	store                *Store
	connections, timeout *prometheus.Desc
}

func newPoolCollector(s *Store) *poolCollector {
	return &poolCollector{store: s,
		connections: prometheus.NewDesc("agentsignal_redis_pool_connections", "Connections to Redis.", []string{"state"}, nil),
		timeout:     prometheus.NewDesc("agentsignal_redis_pool_timeouts_total", "Commands that got no connection to Redis in time.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.connections
	ch <- c.timeout
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	a, b := c.store.rdb.PoolStats(), c.store.blocking.PoolStats()
	idle, total := a.IdleConns+b.IdleConns, a.TotalConns+b.TotalConns
	ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(idle), "idle")
	ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(total-min(idle, total)), "used")
	ch <- prometheus.MustNewConstMetric(c.timeout, prometheus.CounterValue, float64(a.Timeouts+b.Timeouts))
}
