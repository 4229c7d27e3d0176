package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// confirmKept is how long a key of ConfirmKey, ConfirmAuthKey or ConfirmNodeKey is kept.
const confirmKept = time.Minute

// Durably sends commands for keys of one slot and, with Options.WaitReplicas, waits until that
// many replicas have what the commands have changed and read. ErrReplicas: the commands were
// carried out, but the replicas may lack them. confirm is the slot's ConfirmKey: WAIT waits for
// the last write of its connection, so Durably writes to that key.
//
// While replicas are known to be missing it sends nothing and returns ErrNotWritten, or with
// Options.AcceptWithoutReplicas does not wait.
func (c *Client) Durably(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	waits, err := c.Waits(confirm)
	switch {
	case err != nil:
		return err
	case waits:
		err = c.Confirm(ctx, confirm, add)
		if !errors.Is(err, ErrReplicas) {
			return err
		}
		err = c.Unconfirmed(confirm, err)
	default:
		err = c.send(ctx, add)
	}
	if c.WaitReplicas > 0 && err == nil {
		c.CountUnconfirmed(1)
	}
	return err
}

// send carries out commands without waiting for replicas.
func (c *Client) send(ctx context.Context, add func(pipe redis.Pipeliner)) error {
	pipe := c.RDB.Pipeline()
	add(pipe)
	return Execute(ctx, pipe)
}

// Confirm carries out commands and waits for the replicas, also while they are missing.
func (c *Client) Confirm(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	var client redis.UniversalClient = c.RDB
	cluster, ok := c.RDB.(*redis.ClusterClient)
	if ok { // WAIT has no key and would go to any node
		master, err := cluster.MasterForKey(ctx, confirm)
		if err != nil {
			return err
		}
		client = master
	}
	pipe := client.Pipeline()
	add(pipe)
	pipe.Set(ctx, confirm, "", confirmKept)
	wait := pipe.Do(ctx, WaitFor(c.WaitReplicas, c.replicasIn)...)
	err := Execute(ctx, pipe)
	if err == nil {
		err = Lagging(wait, c.WaitReplicas)
	}
	if ok && err != nil {
		cluster.ReloadState(ctx)
	}
	return err
}

// Change is Durably for one script. After ErrReplicas its result is valid.
func (c *Client) Change(
	ctx context.Context, confirm string, script *Lua, keys []string, args ...any,
) (*redis.Cmd, error) {
	return c.change(ctx, c.Durably, confirm, script, keys, args)
}

// End is Change for a script that ends credentials. It is carried out even while replicas are
// missing, so that at least this master refuses them, and then returns ErrReplicas.
func (c *Client) End(
	ctx context.Context, confirm string, script *Lua, keys []string, args ...any,
) (*redis.Cmd, error) {
	return c.change(ctx, c.inAnyCase, confirm, script, keys, args)
}

// inAnyCase is Durably, but also sends the commands while replicas are missing.
func (c *Client) inAnyCase(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	err := c.Durably(ctx, confirm, add)
	if !errors.Is(err, ErrNotWritten) {
		return err
	}
	if err := c.send(ctx, add); err != nil {
		return err
	}
	return ErrReplicas
}

func (c *Client) change(
	ctx context.Context, durably func(context.Context, string, func(redis.Pipeliner)) error, confirm string,
	script *Lua, keys []string, args []any,
) (*redis.Cmd, error) {
	if c.WaitReplicas == 0 {
		result := script.Run(ctx, c.RDB, keys, args...)
		return result, result.Err()
	}
	for loaded := false; ; loaded = true {
		result := redis.NewCmd(ctx) // stays empty if the cluster's master is not known
		err := durably(ctx, confirm, func(pipe redis.Pipeliner) {
			result = script.EvalSha(ctx, pipe, keys, args...)
		})
		if loaded || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return result, err
		}
		if err := script.Load(ctx, c.RDB).Err(); err != nil {
			return result, err
		}
	}
}

// Stands reports whether the change that returned err took effect.
func Stands(err error) bool { return err == nil || errors.Is(err, ErrReplicas) }

// Confirmed returns err, which reports that there is nothing to change, once the replicas have
// the state that caused it. Otherwise a repeated request could be acknowledged before the first.
func (c *Client) Confirmed(ctx context.Context, confirm string, err error) error {
	if c.WaitReplicas == 0 {
		return err
	}
	if e := c.Durably(ctx, confirm, func(redis.Pipeliner) {}); e != nil {
		return Unavailable(fmt.Errorf("confirm %q: %w", err, e)) //nolint:errorlint // err is confirmed, and no cause
	}
	return err
}

// WaitFor returns the arguments of a WAIT.
func WaitFor(replicas int, timeout time.Duration) []any {
	return []any{"WAIT", replicas, max(1, timeout.Milliseconds())}
}

// Lagging returns an error if the reply to a WAIT counts too few replicas.
func Lagging(wait *redis.Cmd, replicas int) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("wait for replicas: %w", err)
	case n < replicas:
		return fmt.Errorf("%w: %d of %d have the write", ErrReplicas, n, replicas)
	}
	return nil
}

// Texts returns the strings of a list that a script has returned.
func Texts(list any) []string {
	items, _ := list.([]any)
	text := make([]string, len(items))
	for i := range items {
		switch v := items[i].(type) {
		case string:
			text[i] = v
		case int64:
			text[i] = strconv.FormatInt(v, 10)
		}
	}
	return text
}
