package redisclient

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/codec"
)

// UnreadableAfter is when an entry is read again that could not be read: another version
// may have written it, so it is kept, but must not stand in the way of others.
const UnreadableAfter = time.Hour

// Postponed returns when to read such an entry again that was read as due until a time.
func (c *Client) Postponed(until time.Time) time.Time {
	if now := c.Now(); until.Before(now) {
		until = now
	}
	return until.Add(UnreadableAfter)
}

// Postpone makes an entry of a set by time, which was read as due until the given time
// and could not be read, due later.
func (c *Client) Postpone(ctx context.Context, key string, until time.Time, member string) error {
	z := redis.Z{Score: float64(codec.MilliOf(c.Postponed(until))), Member: member}
	if err := c.RDB.ZAddXX(ctx, key, z).Err(); err != nil {
		return Unavailable(fmt.Errorf("postpone entry of %s: %w", key, err))
	}
	return nil
}
