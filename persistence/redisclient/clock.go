package redisclient

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock is Redis' clock, which all nodes share.
type Clock struct {
	rdb  redis.Cmdable
	last atomic.Pointer[reading] // nil until it is synchronized
}

// reading is the time of a server's clock at a local time. Since then the monotonic clock counts, so that the
// time stays right when the local clock is set.
type reading struct{ redis, local time.Time }

// Now returns the time, as SyncClock last measured it.
func (c *Clock) Now() time.Time {
	k := c.last.Load()
	if k == nil {
		return time.Now().UTC()
	}
	return k.redis.Add(time.Since(k.local)).UTC()
}

const (
	// clockTries is how often readClock reads the time at most, clockGood the round trip that
	// is quick enough.
	clockTries = 5
	clockGood  = time.Millisecond
)

// SyncClock reads Redis' clock. A reading is off by up to half of the round trip, which may be long while the
// process starts or the machine is busy, so the quickest of several counts.
func (c *Clock) SyncClock(ctx context.Context) error {
	best, _, err := readClock(ctx, c.rdb)
	if err != nil {
		return err
	}
	c.last.Store(&best)
	return nil
}

// readClock returns the quickest of several readings of a server's clock, and its round trip.
func readClock(ctx context.Context, server redis.Cmdable) (best reading, quickest time.Duration, err error) {
	for i := range clockTries {
		before := time.Now()
		t, err := server.Time(ctx).Result()
		if err != nil {
			return reading{}, 0, fmt.Errorf("read the time: %w", err)
		}
		took := time.Since(before)
		if i == 0 || took < quickest {
			best, quickest = reading{t, before.Add(took / 2)}, took
		}
		if quickest <= clockGood {
			break
		}
	}
	return best, quickest, nil
}
