package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
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

// following is why a partition is followed, and whether it is.
type following struct {
	holds [reasons]int   // calls of Follow without their release
	used  [reasons]int64 // the last use, by Tail.clock; 0 before the first
	// attached is also guarded by tailPartition.reading: it changes with both locks held.
	attached bool
	ready    chan struct{} // closed while it is attached
}

// needed reports whether there is a reason to follow the partition.
func (f *following) needed(now int64, idle time.Duration) bool {
	for r := range reasons {
		if f.has(r, now, idle) {
			return true
		}
	}
	return false
}

func (f *following) has(r Reason, now int64, idle time.Duration) bool {
	return f.holds[r] > 0 || f.used[r] > 0 && now-f.used[r] < int64(idle)
}

// Follower follows partitions for one reason. Its methods are safe for concurrent use.
type Follower struct {
	tail   *Tail
	reason Reason
}

// For returns what follows partitions for a reason.
func (t *Tail) For(r Reason) Follower { return Follower{t, r} }

// Follow has a partition followed until release is called. Partitions of streams are followed for
// TailOptions.Idle after that, as clients come back.
func (f Follower) Follow(partition int) (release func()) {
	part := &f.tail.partitions[partition]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.holds[f.reason]++
	f.tail.request(partition)
	return func() {
		part.mu.Lock()
		defer part.mu.Unlock()
		part.holds[f.reason]--
		if f.reason == Streams {
			part.used[f.reason] = f.tail.clock()
		}
	}
}

// Shown reports that events of a partition that subscribers got go to so many connections, each counted for
// every event. It shortens the pauses between reads.
func (f Follower) Shown(partition, times int) { f.tail.readerOf(partition).shown.Add(int64(times)) }

// Use has a partition followed for TailOptions.Idle from now on, and waits until it is.
// KindUnavailable: Redis does not answer, or ctx ended.
func (f Follower) Use(ctx context.Context, partition int) error {
	part := &f.tail.partitions[partition]
	part.mu.Lock()
	part.used[f.reason] = f.tail.clock()
	attached := part.attached
	if !attached {
		f.tail.request(partition)
	}
	part.mu.Unlock()
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
	part := &f.tail.partitions[partition]
	part.mu.Lock()
	ready := part.ready
	part.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return redisclient.Unavailable(fmt.Errorf("follow partition %d: %w", partition, ctx.Err()))
	}
}

// Attached reports whether subscribers get every later event of a partition.
func (f Follower) Attached(partition int) bool {
	part := &f.tail.partitions[partition]
	part.mu.Lock()
	defer part.mu.Unlock()
	return part.attached
}

// request notifies the reader of a partition that there is a reason to follow it.
func (t *Tail) request(partition int) {
	r := t.readerOf(partition)
	for _, c := range []chan struct{}{r.idle, r.added} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (t *Tail) readerOf(partition int) *tailReader { return t.readers[partition%len(t.readers)] }

// clock returns the time since the tail was made, in nanoseconds. It is never 0.
func (t *Tail) clock() int64 { return int64(time.Since(t.started)) + 1 }

// isNeeded reports whether there is a reason to follow a partition.
func (t *Tail) isNeeded(partition int) bool {
	part := &t.partitions[partition]
	part.mu.Lock()
	defer part.mu.Unlock()
	return t.needs(part)
}

// needs is isNeeded where part.mu is held.
func (t *Tail) needs(part *tailPartition) bool {
	return len(part.waiters) > 0 || part.needed(t.clock(), t.idle)
}

// update attaches the partitions of r for which there is a reason, detaches the others, and
// returns those that are followed. They are then covered by the reader's next read.
func (t *Tail) update(ctx context.Context, r *tailReader) ([]int, error) {
	var followed []int
	for _, p := range r.partitions {
		if !t.isNeeded(p) {
			t.detach(p)
			continue
		}
		if err := t.attach(ctx, p); err != nil {
			return nil, err
		}
		followed = append(followed, p)
	}
	r.cover(followed)
	return followed, nil
}

// detach ends the reading of a partition, unless there is a reason for it by now. To subscribers
// it is a gap, so that nothing of the partition passes for current when it is attached again.
func (t *Tail) detach(p int) {
	part := &t.partitions[p]
	part.reading.Lock()
	defer part.reading.Unlock()
	part.mu.Lock()
	if !part.attached || t.needs(part) {
		part.mu.Unlock()
		return
	}
	part.attached, part.ready = false, make(chan struct{})
	part.passed = signal.Position{}
	t.setWithheld(part, false)
	part.mu.Unlock()
	part.recent = recent{}
	t.notify(p, t.gaps)
}

// newcomers returns the partitions of r that are to be followed, but not covered by the read that
// may be waiting for events.
func (t *Tail) newcomers(r *tailReader) []int {
	var list []int
	for _, p := range r.partitions {
		if !r.covers(p) && t.isNeeded(p) {
			list = append(list, p)
		}
	}
	return list
}

// newcomerBlock is how long one read of newcomers waits for events: so long may a further
// newcomer have to wait.
const newcomerBlock = 10 * time.Millisecond

// join attaches partitions while a read of others waits for events, and reads them until that
// read has ended. A partition that both have read is handed on by one of them.
func (t *Tail) join(ctx context.Context, r *tailReader) {
	var buffer redisclient.Buffer
	for {
		select {
		case <-r.added:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			list := t.newcomers(r)
			if len(list) == 0 {
				break
			}
			if err := t.guarded(func() error {
				for _, p := range list {
					if err := t.attach(ctx, p); err != nil {
						return err
					}
				}
				_, err := t.read(ctx, list, newcomerBlock, &buffer)
				return err
			}); err != nil { // follow reports it
				t.suspect(list)
				sleep(ctx, minBackoff, nil)
			}
		}
	}
}

// Collector returns the gauge of followed partitions.
func (t *Tail) Collector() prometheus.Collector {
	return &followCollector{t, prometheus.NewDesc("agentsignal_partitions_followed",
		"Partitions whose events this node reads, by reason. A partition may have several.", []string{"reason"}, nil)}
}

type followCollector struct {
	tail *Tail
	desc *prometheus.Desc
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
