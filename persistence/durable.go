package persistence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// confirmKept is how long a key of confirmKey or confirmAuthKey is kept.
const confirmKept = time.Minute

// durably sends commands about keys of one slot and, with Options.WaitReplicas, waits
// until so many replicas have what they have changed and what they have read. errReplicas:
// the commands were carried out, but the replicas may lack it. confirm is the slot's
// confirmKey: WAIT goes by the last write of its connection, so there is one.
func (c *Client) durably(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	if c.waitReplicas == 0 {
		pipe := c.rdb.Pipeline()
		add(pipe)
		return execute(ctx, pipe)
	}
	var client redis.UniversalClient = c.rdb
	cluster, ok := c.rdb.(*redis.ClusterClient)
	if ok { // the keyless WAIT would go to any node
		master, err := cluster.MasterForKey(ctx, confirm)
		if err != nil {
			return err
		}
		client = master
	}
	pipe := client.Pipeline()
	add(pipe)
	pipe.Set(ctx, confirm, "", confirmKept)
	wait := pipe.Do(ctx, waitFor(c.waitReplicas, c.replicasIn)...)
	err := execute(ctx, pipe)
	if err == nil {
		err = lagging(wait, c.waitReplicas)
	}
	if ok && err != nil {
		cluster.ReloadState(ctx)
	}
	return err
}

// change is durably for one script. After errReplicas its result stands.
func (c *Client) change(ctx context.Context, confirm string, script *redis.Script, keys []string, args ...any) (*redis.Cmd, error) {
	if c.waitReplicas == 0 {
		result := script.Run(ctx, c.rdb, keys, args...)
		return result, result.Err()
	}
	for loaded := false; ; loaded = true {
		result := redis.NewCmd(ctx) // of a cluster whose master is not known it stays empty
		err := c.durably(ctx, confirm, func(pipe redis.Pipeliner) {
			result = script.EvalSha(ctx, pipe, keys, args...)
		})
		if loaded || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return result, err
		}
		if err := script.Load(ctx, c.rdb).Err(); err != nil {
			return result, err
		}
	}
}

// stands reports whether what ended with err was carried out all the same.
func stands(err error) bool { return err == nil || errors.Is(err, errReplicas) }

// confirmed returns err, which reports that there is nothing to change, as soon as the
// replicas have what it follows from: a repeated request is no more certain than the first.
func (c *Client) confirmed(ctx context.Context, confirm string, err error) error {
	if c.waitReplicas == 0 {
		return err
	}
	if e := c.durably(ctx, confirm, func(redis.Pipeliner) {}); e != nil {
		return unavailable(fmt.Errorf("confirm %q: %w", err, e))
	}
	return err
}

// waitFor returns the words of a WAIT.
func waitFor(replicas int, timeout time.Duration) []any {
	return []any{"WAIT", replicas, max(1, timeout.Milliseconds())}
}

// lagging returns why the answer of a WAIT does not show that the replicas have it all.
func lagging(wait *redis.Cmd, replicas int) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("wait for replicas: %w", err)
	case n < replicas:
		return fmt.Errorf("%w: %d of %d have the write", errReplicas, n, replicas)
	}
	return nil
}
