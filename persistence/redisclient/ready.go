package redisclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	readyTimeout = 500 * time.Millisecond
	// readyAge is how long the result of a probe counts, so that frequent calls of Ready do
	// not load Redis.
	readyAge = 500 * time.Millisecond
	// readyWait is how long replicas may take to copy the write.
	readyWait = 300 * time.Millisecond
)

// readiness has the last probe, which may be under way.
type readiness struct {
	mu     sync.Mutex
	last   *probe
	probes tasks.Group // of at most one goroutine, which outlives the first caller
}

// probe is an attempt to write.
type probe struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error
}

// Ready returns nil if Redis takes writes. It waits for at most half a second, and its result
// may be as old. Refusal has the reason if Redis refuses.
func (c *Client) Ready(ctx context.Context) error {
	return c.readiness.ask(ctx, func(ctx context.Context) error {
		return c.Guarded(func() error { return c.probeWrites(ctx) })
	})
}

// Guarded returns the error of f, or ErrPanicked if f panics.
func (c *Client) Guarded(f func() error, attrs ...any) error {
	err := panics.ErrPanicked
	panics.Guard(c.Log, panics.Log, func() { err = f() }, attrs...)
	return err
}

// ask returns the result of the current probe.
func (r *readiness) ask(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	p := r.current(ctx, try)
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// current returns the last probe if it is under way or new enough, otherwise it starts one.
func (r *readiness) current(ctx context.Context, try func(context.Context) error) *probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.last; p != nil {
		select {
		case <-p.done:
			if time.Since(p.began) < readyAge {
				return p
			}
		default:
			return p
		}
	}
	p := &probe{began: time.Now(), done: make(chan struct{})}
	r.last = p
	started := r.probes.Go(ctx, func(ctx context.Context) {
		defer close(p.done)
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		p.err = try(ctx)
	})
	if !started {
		p.err = tasks.ErrClosed
		close(p.done)
	}
	return p
}

// probeWrites probes each master that holds a partition.
func (c *Client) probeWrites(ctx context.Context) error {
	cluster, ok := c.RDB.(*redis.ClusterClient)
	if !ok {
		return c.probeWrite(ctx, c.RDB, c.ProbeKey(0))
	}
	keys := map[*redis.Client]string{}
	for p := range c.partitions {
		master, err := cluster.MasterForKey(ctx, c.ProbeKey(p))
		if err != nil {
			return fmt.Errorf("find master of partition %d: %w", p, err)
		}
		keys[master] = c.ProbeKey(p)
	}
	errs := make(chan error)
	for master, key := range keys {
		go func() { errs <- c.Guarded(func() error { return c.probeWrite(ctx, master, key) }) }()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-errs)
	}
	return err
}

// probeWrite probes one server. Redis refuses a write before it reads the key, so where replicas
// do not matter, XX prevents a change.
func (c *Client) probeWrite(ctx context.Context, server redis.UniversalClient, key string) error {
	pipe := server.Pipeline()
	if c.WaitReplicas == 0 || c.accept {
		pipe.SetXX(ctx, key, "", time.Minute)
		return Execute(ctx, pipe)
	}
	pipe.Set(ctx, key, "", time.Minute)
	wait := pipe.Do(ctx, WaitFor(c.WaitReplicas, readyWait)...) // on the connection of the write
	if err := Execute(ctx, pipe); err != nil {
		return err
	}
	return Lagging(wait, c.WaitReplicas)
}
