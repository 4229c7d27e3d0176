package redisclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	readyTimeout = 500 * time.Millisecond
	// readyAge is how long the result of a probe counts, so that frequent calls of Check do
	// not load Redis.
	readyAge = 500 * time.Millisecond
	// readyWait is how long replicas may take to copy the write.
	readyWait = 300 * time.Millisecond
)

// Readiness reports whether Redis takes writes.
type Readiness struct {
	keys     Keys
	servers  *Servers
	replicas *Replicas
	log      *slog.Logger
	shared   sharedProbe
}

// sharedProbe has the last probe, which may be under way.
type sharedProbe struct {
	mu    sync.Mutex
	last  *probe
	tasks tasks.Group // of at most one goroutine, which outlives the first caller
}

// probe is an attempt to write.
type probe struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error
}

// Check returns nil if Redis takes writes. It waits for at most half a second, and its result
// may be as old. Refusal has the reason if Redis refuses.
func (r *Readiness) Check(ctx context.Context) error {
	return r.shared.ask(ctx, func(ctx context.Context) error {
		return panics.Catch(r.log, panics.Log, func() error { return r.probeWrites(ctx) })
	})
}

// ask returns the result of the current probe.
func (r *sharedProbe) ask(ctx context.Context, try func(context.Context) error) error {
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
func (r *sharedProbe) current(ctx context.Context, try func(context.Context) error) *probe {
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
	started := r.tasks.Go(ctx, func(ctx context.Context) {
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
func (r *Readiness) probeWrites(ctx context.Context) error {
	keys := map[redis.UniversalClient]string{}
	for p := range r.keys.Partitions() {
		master, err := r.servers.of(ctx, r.keys.ProbeKey(p))
		if err != nil {
			return fmt.Errorf("find master of partition %d: %w", p, err)
		}
		if _, known := keys[master]; !known {
			keys[master] = r.keys.ProbeKey(p)
		}
	}
	errs := make(chan error)
	for master, key := range keys {
		go func() {
			errs <- panics.Catch(r.log, panics.Log, func() error { return r.probeWrite(ctx, master, key) })
		}()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-errs)
	}
	return err
}

// probeWrite probes one server. Redis refuses a write before it reads the key, so where replicas
// do not matter, XX prevents a change.
func (r *Readiness) probeWrite(ctx context.Context, server redis.UniversalClient, key string) error {
	pipe := server.Pipeline()
	if r.replicas.Want == 0 || r.replicas.accept {
		pipe.SetXX(ctx, key, "", time.Minute)
		return Execute(ctx, pipe)
	}
	pipe.Set(ctx, key, "", time.Minute)
	wait := pipe.Do(ctx, WaitFor(r.replicas.Want, readyWait)...) // on the connection of the write
	if err := Execute(ctx, pipe); err != nil {
		return err
	}
	return Lagging(wait, r.replicas.Want)
}
