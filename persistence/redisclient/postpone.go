package redisclient

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/codec"
)

// UnreadableAfter is how long an unreadable entry is postponed. It is kept because another
// version may have written it, and postponed so that it does not block others.
const UnreadableAfter = time.Hour

// Postponed returns when to read an unreadable entry again that was due until the given time.
func (c *Client) Postponed(until time.Time) time.Time {
	if now := c.Now(); until.Before(now) {
		until = now
	}
	return until.Add(UnreadableAfter)
}

// Postpone makes an unreadable member of a set by time, which was due until the given time, due
// later.
func (c *Client) Postpone(ctx context.Context, key string, until time.Time, member string) error {
	z := redis.Z{Score: float64(codec.MilliOf(c.Postponed(until))), Member: member}
	return Failed(c.RDB.ZAddXX(ctx, key, z).Err(), "postpone entry of %s", key)
}
