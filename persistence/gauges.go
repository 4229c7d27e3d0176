package persistence

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
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

// UpdateGauges reads the state of the streams and the sizes of some keys from Redis. It is called
// every 15 s, not at each scrape, and not concurrently.
func (s *Store) UpdateGauges(ctx context.Context) error {
	if s.streams == nil {
		return nil
	}
	m := s.streams
	stats, err := s.streamStats(ctx)
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
	return s.sizes.update(ctx, s.Client, sizedKeys)
}

// ResetGauges removes the values that UpdateGauges has set.
func (s *Store) ResetGauges() {
	if m := s.streams; m != nil {
		m.length.Reset()
		m.lag.Reset()
		m.oldest.Reset()
		s.sizes.bytes.Reset()
	}
}

// CountReclaimed counts jobs that another worker had before. It is the Reclaimed of jobs.Options.
func (s *Store) CountReclaimed(n int) {
	if s.streams != nil && n > 0 {
		s.streams.reclaimed.WithLabelValues("jobs", eventlog.JobGroup).Add(float64(n))
	}
}
