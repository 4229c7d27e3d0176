package persistence

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// streamMetrics show the lengths of the streams and the progress of their readers.
type streamMetrics struct {
	length    *prometheus.GaugeVec
	lag       *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
	reclaimed *prometheus.CounterVec
}

func newStreamMetrics(r prometheus.Registerer) *streamMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		help += " The same in every process."
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"stream", "group"})
	}
	m := &streamMetrics{
		length: gauge("agentsignal_stream_length", "Entries of a kind of stream, all partitions together."),
		lag:    gauge("agentsignal_stream_lag_messages", "Entries that a reader has still to read."),
		oldest: gauge("agentsignal_stream_oldest_pending_seconds",
			"Age of the oldest entry that a reader has not finished."),
		reclaimed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_stream_reclaimed_total",
			Help: "Entries taken over from a reader that did not finish them."}, []string{"stream", "group"}),
	}
	m.reclaimed.WithLabelValues("jobs", eventlog.JobGroup)
	r.MustRegister(m.length, m.lag, m.oldest, m.reclaimed)
	return m
}

// Gauges show the state of the streams and the sizes of keys. Without Options.Metrics they do nothing.
type Gauges struct {
	client    *redisclient.Client
	positions *eventlog.Positions
	streams   *streamMetrics // nil without Options.Metrics
	sizes     *sizes
}

// Update reads the state of the streams and the sizes of some keys from Redis. It is called
// every 15 s, not at each scrape, and not concurrently.
func (g *Gauges) Update(ctx context.Context) error {
	if g.streams == nil {
		return nil
	}
	m := g.streams
	stats, err := g.streamStats(ctx)
	if err != nil {
		return err
	}
	for _, t := range stats {
		m.length.WithLabelValues(t.Stream, t.Group).Set(float64(t.Length))
		if t.Group != "" {
			m.lag.WithLabelValues(t.Stream, t.Group).Set(float64(t.Lag))
			m.oldest.WithLabelValues(t.Stream, t.Group).Set(t.Oldest.Seconds())
		}
	}
	return g.sizes.update(ctx, g.client, sizedKeys)
}

// Reset removes the values that Update has set.
func (g *Gauges) Reset() {
	if m := g.streams; m != nil {
		m.length.Reset()
		m.lag.Reset()
		m.oldest.Reset()
		g.sizes.bytes.Reset()
	}
}

// CountReclaimed counts jobs that another worker had before. It is the Reclaimed of jobs.Options.
func (g *Gauges) CountReclaimed(n int) {
	if g.streams != nil && n > 0 {
		g.streams.reclaimed.WithLabelValues("jobs", eventlog.JobGroup).Add(float64(n))
	}
}
