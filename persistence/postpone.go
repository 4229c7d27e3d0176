package persistence

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// unreadableAfter is when an entry is read again that could not be read: another version
// may have written it, so it is kept, but must not stand in the way of others.
const unreadableAfter = time.Hour

// postponed returns when to read such an entry again that was read as due until a time.
func (c *Client) postponed(until time.Time) time.Time {
	if now := c.Now(); until.Before(now) {
		until = now
	}
	return until.Add(unreadableAfter)
}

// postpone makes an entry of a set by time, which was read as due until the given time
// and could not be read, due later.
func (c *Client) postpone(ctx context.Context, key string, until time.Time, member string) error {
	z := redis.Z{Score: float64(milliOf(c.postponed(until))), Member: member}
	if err := c.rdb.ZAddXX(ctx, key, z).Err(); err != nil {
		return unavailable(fmt.Errorf("postpone entry of %s: %w", key, err))
	}
	return nil
}
