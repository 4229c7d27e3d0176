package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Reason is why a node follows a partition.
type Reason uint8

// The reasons.
const (
	Owned   Reason = iota // the node owns the partition
	Streams               // a connection of one of its accounts is on the node
	Lists                 // its signals were listed or summarized on the node
	Waits                 // a caller waits for an event
	reasons
)

var reasonNames = [reasons]string{"owned", "streams", "lists", "waits"}

// followLimit bounds how long Use waits.
const followLimit = 2 * time.Second

// Follower follows partitions for one reason. Its methods are safe for concurrent use.
type Follower struct {
	tail   *Tail
	reason Reason
}

// Follow has a partition followed until release is called. Partitions of streams are followed for
// TailOptions.Idle after that, as clients come back.
func (f Follower) Follow(partition int) (release func()) {
	at := f.tail.partitions[partition].follow
	at.mu.Lock()
	defer at.mu.Unlock()
	at.holds[f.reason]++
	at.reader.request()
	return func() {
		at.mu.Lock()
		defer at.mu.Unlock()
		at.holds[f.reason]--
		if f.reason == Streams {
			at.used[f.reason] = at.clock()
		}
	}
}

// Shown reports that events of a partition that subscribers got go to so many connections, each counted for
// every event. It shortens the pauses between reads.
func (f Follower) Shown(partition, times int) {
	f.tail.partitions[partition].follow.reader.shown.Add(int64(times))
}

// Use has a partition followed for TailOptions.Idle from now on, and waits until it is.
// KindUnavailable: Redis does not answer, or ctx ended.
func (f Follower) Use(ctx context.Context, partition int) error {
	at := f.tail.partitions[partition].follow
	at.mu.Lock()
	at.used[f.reason] = at.clock()
	attached := at.attached
	if !attached {
		at.reader.request()
	}
	at.mu.Unlock()
	if attached {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	return f.Await(ctx, partition)
}

// Await waits until subscribers get every later event of a partition that is followed.
// KindUnavailable: ctx ended first.
func (f Follower) Await(ctx context.Context, partition int) error {
	at := f.tail.partitions[partition].follow
	at.mu.Lock()
	ready := at.ready
	at.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return redisclient.Unavailable(fmt.Errorf("follow partition %d: %w", partition, ctx.Err()))
	}
}

// Attached reports whether subscribers get every later event of a partition.
func (f Follower) Attached(partition int) bool {
	return f.tail.partitions[partition].follow.isAttached()
}

// followCollector exposes the number of followed partitions.
type followCollector struct {
	tail *Tail
	desc *prometheus.Desc
}

func newFollowCollector(t *Tail) *followCollector {
	return &followCollector{t, prometheus.NewDesc("agentsignal_partitions_followed",
		"Partitions whose events this node reads, by reason. A partition may have several.", []string{"reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *followCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.desc }

// Collect implements prometheus.Collector.
func (c *followCollector) Collect(metrics chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, f := range c.tail.Followed() {
		for _, r := range f.Reasons {
			counts[r]++
		}
	}
	for _, r := range reasonNames {
		metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(counts[r]), r)
	}
}
