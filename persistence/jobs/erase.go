package jobs

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Erase erases a chunk of the jobs of a deleted account and returns "" at the end. The entries
// of these jobs in the queue are dropped by the nodes that take them.
func Erase(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID) (string, error) {
	indexes := []string{c.JobsOfKey(p, account), c.JobsEndedKey(p, account)}
	for _, s := range []signal.JobStatus{signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed} {
		indexes = append(indexes, c.JobsWithKey(p, account, s))
	}
	ids, err := c.RDB.ZRange(ctx, indexes[0], 0, redisclient.EraseChunk-1).Result()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", c.RDB.Del(ctx, indexes...).Err()
	}
	keys, members := make([]string, len(ids)), make([]any, len(ids))
	for i, id := range ids {
		keys[i], members[i] = c.JobKey(p, signal.JobID(id)), id
	}
	// The records first, since only the index names them.
	if err := c.RDB.Unlink(ctx, keys...).Err(); err != nil {
		return "", err
	}
	return "more", c.RDB.ZRem(ctx, indexes[0], members...).Err()
}
