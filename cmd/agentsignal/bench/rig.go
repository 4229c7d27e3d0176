package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// rig is a Redis of a benchmark's own, and services on it.
type rig struct {
	dir   string
	url   string
	redis int // its process
	store *persistence.Store
	log   *eventlog.Log
	undo  undo.List
}

// newRig starts a Redis as the service would, with its append-only file.
func newRig(ctx context.Context) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.undo.Run(context.WithoutCancel(ctx)))
		}
	}()
	if r.dir, err = os.MkdirTemp("", "agentsignal-bench"); err != nil {
		return nil, err
	}
	r.undo.Add("directory", func(context.Context) error { return os.RemoveAll(r.dir) })
	redis, err := persistence.StartEmbedded(ctx,
		persistence.EmbeddedOptions{Dir: filepath.Join(r.dir, "redis"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r.undo.Add("redis", redis.Stop)
	if !redis.Durable() {
		return nil, errors.New("a benchmark needs redis-server: install it")
	}
	r.url, r.redis = redis.URL(), redis.PID()
	if r.store, err = persistence.Open(persistence.Options{URL: r.url}); err != nil {
		return nil, err
	}
	r.undo.Add("connection", func(context.Context) error { return r.store.Close() })
	if err := r.store.Install(ctx); err != nil {
		return nil, err
	}
	r.log = eventlog.NewLog(r.store.Store, eventlog.LogOptions{AppendTimeout: 30 * time.Second, Queue: 1 << 16})
	r.undo.Add("log", r.log.Close)
	return r, nil
}

// end undoes the rig, whatever the benchmark's error.
func (r *rig) end(ctx context.Context, err *error) {
	*err = errors.Join(*err, r.undo.Run(context.WithoutCancel(ctx)))
}

// accounts makes n accounts with a key each and returns ids and keys.
func (r *rig) accounts(ctx context.Context, n int) ([]signal.AccountID, []string, error) {
	// Cheap hashes, for no benchmark logs in.
	c := credentials.New(r.store, r.log, nil, credentials.Options{Now: r.store.Now,
		Password: argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	var ids []signal.AccountID
	var keys []string
	for i := range n {
		a, err := c.CreateAccount(ctx, fmt.Sprintf("bench%d@example.com", i), "a long bench password")
		if err != nil {
			return nil, nil, err
		}
		_, key, err := c.CreateKey(ctx, a.ID, "bench", nil, nil)
		if err != nil {
			return nil, nil, err
		}
		ids, keys = append(ids, a.ID), append(keys, key)
	}
	return ids, keys, nil
}

// serve starts the service on the rig's Redis and waits until it is ready. env has
// further settings.
func (r *rig) serve(ctx context.Context, env ...string) (*server, error) {
	s, err := r.start(ctx, env...)
	if err != nil {
		return nil, err
	}
	r.undo.Add("service", s.stop)
	return s, nil
}

// start is serve for a service that the caller ends.
func (r *rig) start(ctx context.Context, env ...string) (*server, error) {
	env = append(slices.Clip(env), "AGENTSIGNAL_REDIS_URL="+r.url, "AGENTSIGNAL_DATA_DIR="+filepath.Join(r.dir, "node"),
		"AGENTSIGNAL_LOG_LEVEL=warn", "AGENTSIGNAL_RUNS_MAX_CONCURRENT=100000")
	for _, class := range []string{"READS", "RUNS", "WRITES", "STREAMS", "FAILURES", "SCRAPES"} {
		env = append(env, "AGENTSIGNAL_RATE_LIMIT_"+class+"=off")
	}
	s, err := startServer(env, "serve")
	if err != nil {
		return nil, err
	}
	if err := s.waitFor(ctx, "/readyz"); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// newService is newRig with accounts that have a key each, and a service. env has
// settings of the service.
func newService(ctx context.Context, accounts int, env ...string) (r *rig, s *server, keys []string, err error) {
	if r, err = newRig(ctx); err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			r.end(ctx, &err)
		}
	}()
	if _, keys, err = r.accounts(ctx, accounts); err != nil {
		return nil, nil, nil, err
	}
	s, err = r.serve(ctx, env...)
	return r, s, keys, err
}
