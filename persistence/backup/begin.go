package backup

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Begin prepares the Redis of c for Load: no service starts in it until Load has ended. What a restore that was
// interrupted has left there is removed. KindConflict: it has keys of an installation, or is shared by nodes.
func Begin(ctx context.Context, c *redisclient.Client) error {
	if err := c.CheckServer(ctx); err != nil {
		return err
	}
	interrupted, err := c.Restoring(ctx)
	if err != nil {
		return err
	}
	masters, err := c.Masters(ctx)
	if err != nil {
		return redisclient.Failed(err, "look for keys")
	}
	for _, m := range masters {
		for cursor := uint64(0); ; {
			keys, next, err := m.Scan(ctx, cursor, "", scanCount).Result()
			if err != nil {
				return redisclient.Failed(err, "look for keys")
			}
			own := slices.DeleteFunc(keys, func(key string) bool {
				_, known := kindOfKey(key)
				return !known || key == c.InstallationKey() && interrupted
			})
			if len(own) > 0 && !interrupted {
				return redisclient.Refused("not_empty", fmt.Sprintf("this Redis is not empty: it has the key %s. Restore into "+
					"an empty one, or into a data directory without Redis' files", own[0]))
			}
			if err := remove(ctx, c, own); err != nil {
				return redisclient.Failed(err, "remove an interrupted restore")
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return c.BeginRestore(ctx)
}

// remove removes keys, each by itself, as they are in many slots.
func remove(ctx context.Context, c *redisclient.Client, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	pipe := c.RDB.Pipeline()
	for _, key := range keys {
		pipe.Unlink(ctx, key)
	}
	return redisclient.Execute(ctx, pipe)
}
