package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
)

// readyTimeout is how long a command waits for Redis.
const readyTimeout = 10 * time.Second

// withCredentials runs f with the accounts and keys of the configured Redis,
// whether or not a service runs. Without redis.url it uses the server of the
// running service, or starts it for the time of f.
func (s *settings) withCredentials(ctx context.Context, f func(context.Context, *credentials.Service) error) (err error) {
	c, err := s.load()
	if err != nil {
		return err
	}
	undo := &undoList{}
	defer func() { err = errors.Join(err, undo.run(context.WithoutCancel(ctx))) }()
	url := string(c.Redis.URL)
	if url == "" {
		embedded, err := persistence.StartEmbedded(ctx, c.DataDir, true, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		undo.add("redis", embedded.Stop)
		url = embedded.URL()
	}
	store, err := persistence.Open(persistence.Options{URL: url, Partitions: c.Partitions, WaitReplicas: c.Redis.WaitReplicas})
	if err != nil {
		return err
	}
	undo.add("connection", func(context.Context) error { return store.Close() })
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := store.Install(ready); err != nil {
		return err
	}
	if err := store.SyncClock(ready); err != nil {
		return err
	}
	log := persistence.NewLog(store, persistence.LogOptions{})
	undo.add("log", log.Close)
	return f(ctx, credentials.New(store, log, credentials.KeyRing{}, credentials.Options{Now: store.Now}))
}

// undoList holds how to end what was built, the last first.
type undoList struct {
	steps []undoStep
}

type undoStep struct {
	what string
	f    func(context.Context) error
}

func (u *undoList) add(what string, f func(context.Context) error) {
	u.steps = append(u.steps, undoStep{what, f})
}

// run ends everything, whatever fails on the way.
func (u *undoList) run(ctx context.Context) error {
	var errs []error
	for i := len(u.steps) - 1; i >= 0; i-- {
		if err := u.steps[i].f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", u.steps[i].what, err))
		}
	}
	u.steps = nil
	return errors.Join(errs...)
}
