package service

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// partitionMetrics is the metrics of the partitions that this node owns: a series for each of these.
type partitionMetrics struct {
	mu     sync.Mutex
	joined *partition.Partitions // nil until this node has joined the installation
	total  int                   // partitions of the installation
	lags   map[int]time.Duration // by partition, as last read from Redis
}

// The metrics of partitionMetrics.
var (
	partitionOwned = prometheus.NewDesc("agentsignal_partition_owned",
		"1 for each partition that this process owns.", []string{"partition"}, nil)
	partitionEpoch = prometheus.NewDesc("agentsignal_partition_epoch",
		"Epoch under which this process owns the partition.", []string{"partition"}, nil)
	partitionSince = prometheus.NewDesc("agentsignal_partition_owned_timestamp_seconds",
		"When this process became owner of the partition.", []string{"partition"}, nil)
	partitionLag = prometheus.NewDesc("agentsignal_partition_lag_seconds",
		"Age of the oldest event of the owned partition that has not had its effect, 0 if there is none.",
		[]string{"partition"}, nil)
	liveNodes = prometheus.NewDesc("agentsignal_live_nodes",
		"Live nodes that this process knows, with itself; 0 before it has joined.", nil, nil)
	partitions = prometheus.NewDesc("agentsignal_partitions",
		"Partitions of the installation; 0 before the process has joined. The same in every process.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *partitionMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{partitionOwned, partitionEpoch, partitionSince, partitionLag, liveNodes, partitions} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (m *partitionMetrics) Collect(c chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(partitions, float64(m.total))
	if m.joined == nil {
		gauge(liveNodes, 0)
		return
	}
	gauge(liveNodes, float64(m.joined.Live()))
	for _, h := range m.joined.Holdings() {
		number := strconv.Itoa(h.Partition)
		gauge(partitionOwned, 1, number)
		gauge(partitionEpoch, float64(h.Epoch), number)
		gauge(partitionSince, float64(h.Since.UnixMilli())/1000, number)
		gauge(partitionLag, m.lags[h.Partition].Seconds(), number)
	}
}

// observe begins with the partitions of this node, once it has joined an installation with the given total.
func (m *partitionMetrics) observe(joined *partition.Partitions, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined, m.total = joined, total
}

// update reads how far the effects of the owned partitions are behind their logs.
func (m *partitionMetrics) update(ctx context.Context, positions *eventlog.Positions) error {
	m.mu.Lock()
	joined := m.joined
	m.mu.Unlock()
	if joined == nil {
		return nil
	}
	lags := map[int]time.Duration{}
	for _, h := range joined.Holdings() {
		_, lag, err := positions.Lag(ctx, h.Partition)
		if err != nil {
			return err
		}
		lags[h.Partition] = lag
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lags = lags
	return nil
}
