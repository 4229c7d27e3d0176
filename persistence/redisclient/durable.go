package redisclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Durable makes changes that are acknowledged once replicas have them.
type Durable struct {
	rdb      redis.UniversalClient
	replicas *Replicas
}

// Send sends commands for keys of one slot and, with Options.WaitReplicas, waits until that
// many replicas have what the commands have changed and read. ErrReplicas: the commands were
// carried out, but the replicas may lack them. confirm is the slot's ConfirmKey: WAIT waits for
// the last write of its connection, so Send writes to that key.
//
// While replicas are known to be missing it sends nothing and returns ErrNotWritten, or with
// Options.AcceptWithoutReplicas does not wait.
func (d *Durable) Send(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	waits, err := d.replicas.Waits(confirm)
	switch {
	case err != nil:
		return err
	case waits:
		err = d.replicas.Confirm(ctx, confirm, add)
		if !errors.Is(err, ErrReplicas) {
			return err
		}
		err = d.replicas.Unconfirmed(confirm, err)
	default:
		err = d.send(ctx, add)
	}
	if d.replicas.Want > 0 && err == nil {
		d.replicas.CountUnconfirmed(1)
	}
	return err
}

// send carries out commands without waiting for replicas.
func (d *Durable) send(ctx context.Context, add func(pipe redis.Pipeliner)) error {
	pipe := d.rdb.Pipeline()
	add(pipe)
	return Execute(ctx, pipe)
}

// Change is Send for one script. After ErrReplicas its result is valid.
func (d *Durable) Change(
	ctx context.Context, confirm string, script *Lua, keys []string, args ...any,
) (*redis.Cmd, error) {
	return d.change(ctx, d.Send, confirm, script, keys, args)
}

// End is Change for a script that ends credentials. It is carried out even while replicas are
// missing, so that at least this master refuses them, and then returns ErrReplicas.
func (d *Durable) End(
	ctx context.Context, confirm string, script *Lua, keys []string, args ...any,
) (*redis.Cmd, error) {
	return d.change(ctx, d.inAnyCase, confirm, script, keys, args)
}

// inAnyCase is Send, but also sends the commands while replicas are missing.
func (d *Durable) inAnyCase(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	err := d.Send(ctx, confirm, add)
	if !errors.Is(err, ErrNotWritten) {
		return err
	}
	if err := d.send(ctx, add); err != nil {
		return err
	}
	return ErrReplicas
}

func (d *Durable) change(
	ctx context.Context, durably func(context.Context, string, func(redis.Pipeliner)) error, confirm string,
	script *Lua, keys []string, args []any,
) (*redis.Cmd, error) {
	if d.replicas.Want == 0 {
		result := script.Run(ctx, d.rdb, keys, args...)
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
		if err := script.Load(ctx, d.rdb).Err(); err != nil {
			return result, err
		}
	}
}

// Stands reports whether the change that returned err took effect.
func Stands(err error) bool { return err == nil || errors.Is(err, ErrReplicas) }

// Confirmed returns err, which reports that there is nothing to change, once the replicas have
// the state that caused it. Otherwise a repeated request could be acknowledged before the first.
func (d *Durable) Confirmed(ctx context.Context, confirm string, err error) error {
	if d.replicas.Want == 0 {
		return err
	}
	if e := d.Send(ctx, confirm, func(redis.Pipeliner) {}); e != nil {
		return Unavailable(fmt.Errorf("confirm %q: %w", err, e)) //nolint:errorlint // err is confirmed, and no cause
	}
	return err
}
