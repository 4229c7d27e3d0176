package service

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// holdings is the metrics of the partitions that this node owns: a series for each of these.
type holdings struct {
	p *process

	mu   sync.Mutex
	lags map[int]time.Duration // by partition, as last read from Redis
}

// The metrics of holdings.
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
func (o *holdings) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{partitionOwned, partitionEpoch, partitionSince, partitionLag, liveNodes, partitions} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (o *holdings) Collect(c chan<- prometheus.Metric) {
	joined := o.p.joined.Load()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if joined == nil {
		gauge(liveNodes, 0)
		gauge(partitions, 0)
		return
	}
	gauge(partitions, float64(o.p.store.Client.Partitions()))
	gauge(liveNodes, float64(joined.Live()))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range joined.Holdings() {
		number := strconv.Itoa(h.Partition)
		gauge(partitionOwned, 1, number)
		gauge(partitionEpoch, float64(h.Epoch), number)
		gauge(partitionSince, float64(h.Since.UnixMilli())/1000, number)
		gauge(partitionLag, o.lags[h.Partition].Seconds(), number)
	}
}

// update reads how far the effects of the owned partitions are behind their logs.
func (o *holdings) update(ctx context.Context) error {
	joined := o.p.joined.Load()
	if joined == nil {
		return nil
	}
	lags := map[int]time.Duration{}
	for _, h := range joined.Holdings() {
		_, lag, err := o.p.store.Logs.Lag(ctx, h.Partition)
		if err != nil {
			return err
		}
		lags[h.Partition] = lag
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lags = lags
	return nil
}

// The time between two publications of what this node follows, and for how long one counts.
const (
	followedEvery = 2 * time.Second
	followedFor   = 10 * time.Second
)

// publishFollowed publishes what this node follows and owns, for the status of the cluster.
func (p *process) publishFollowed(ctx context.Context) error {
	return every(ctx, p.log, followedEvery, func() {
		joined := p.joined.Load()
		if joined == nil {
			return
		}
		err := p.store.Logs.PublishFollowed(ctx, p.node, withHoldings(p.tail.Followed(), joined.Holdings()), followedFor)
		if err != nil && ctx.Err() == nil {
			p.log.Debug("what is followed was not published", "err", err)
		}
	})
}

// withHoldings returns followed with the partitions that are owned.
func withHoldings(followed []cluster.Followed, owned []partition.Holding) []cluster.Followed {
	for _, h := range owned {
		i := slices.IndexFunc(followed, func(f cluster.Followed) bool { return f.Partition == h.Partition })
		if i < 0 {
			i = len(followed)
			followed = append(followed, cluster.Followed{Partition: h.Partition})
		}
		followed[i].Epoch, followed[i].Since = h.Epoch, h.Since
	}
	return followed
}
