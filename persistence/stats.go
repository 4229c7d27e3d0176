package persistence

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// streamStats is the length of a kind of stream and the lag of its reader, all partitions
// together.
type streamStats struct {
	Stream string // events, signals or jobs
	Group  string // the reader: engine, jobs; or empty
	Length int64
	Lag    int64         // entries that the reader has not taken; for events at most maxLag per partition
	Oldest time.Duration // age of the oldest unfinished entry of all partitions
}

// maxLag bounds the count of events that the owner of a partition has not taken.
const maxLag = 20_000

// streamStats returns the state of all streams. It sends some commands per partition, so it is
// for a collector and not for requests.
func (g *Gauges) streamStats(ctx context.Context) ([]streamStats, error) {
	events, signals := streamStats{Stream: "events", Group: "engine"}, streamStats{Stream: "signals"}
	jobs := streamStats{Stream: "jobs", Group: eventlog.JobGroup}
	now := g.client.Now()
	for p := range g.client.Partitions() {
		pipe, queue := g.client.RDB.Pipeline(), g.client.JobQueueKey(p)
		var lengths []*redis.IntCmd
		for _, key := range []string{g.client.EventsKey(p), g.client.SignalsKey(p), queue} {
			lengths = append(lengths, pipe.XLen(ctx, key))
		}
		_ = redisclient.Execute(ctx, pipe) // each command has its own error
		for i, total := range []*streamStats{&events, &signals, &jobs} {
			n, err := lengths[i].Result()
			if err != nil {
				return nil, redisclient.Failed(err, "read streams of partition %d", p)
			}
			total.Length += n
		}
		if n := lengths[2].Val(); n > 0 { // else there may be no group, and the error would be counted
			taken := int64(0)
			if pending, err := g.client.RDB.XPending(ctx, queue, eventlog.JobGroup).Result(); err == nil {
				taken = pending.Count
			} else if !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "NOGROUP") {
				return nil, redisclient.Failed(err, "read jobs of partition %d", p)
			}
			jobs.Lag += max(0, n-taken)
			entries, err := g.client.ReadRange(ctx, queue, "-", "+", 1)
			if err != nil {
				return nil, redisclient.Unavailable(err)
			}
			jobs.age(now, entries)
		}
		if err := g.ownerStats(ctx, p, now, &events); err != nil {
			return nil, err
		}
	}
	return []streamStats{events, signals, jobs}, nil
}

// ownerStats adds the events of partition p that its owner has not taken.
func (g *Gauges) ownerStats(ctx context.Context, p int, now time.Time, events *streamStats) error {
	position, err := g.positions.OwnerPosition(ctx, p)
	if err != nil {
		return err
	}
	lag, page := 0, 100
	for lag < maxLag {
		entries, err := g.client.ReadRange(ctx, g.client.EventsKey(p), "("+position.String(), "+", page)
		if err != nil {
			return redisclient.Unavailable(err)
		}
		if lag == 0 {
			events.age(now, entries)
		}
		lag += len(entries)
		if len(entries) < page {
			break
		}
		position, page = entries[len(entries)-1].Position, 2000
	}
	events.Lag += int64(min(lag, maxLag))
	return nil
}

// age records the age of the first of entries if it is the oldest so far.
func (t *streamStats) age(now time.Time, entries []redisclient.Entry) {
	if len(entries) > 0 {
		t.Oldest = max(t.Oldest, now.Sub(entries[0].Position.Time()))
	}
}
