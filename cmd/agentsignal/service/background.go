package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// background is what runs until the process ends.
type background struct {
	log    *slog.Logger
	group  tasks.Group
	failed chan error // gets the first error, which ends the process
}

func newBackground(log *slog.Logger) *background {
	return &background{log: log, failed: make(chan error)}
}

// start runs each function. The first error or panic shuts the process down. Periodic work of a function
// has guards of its own and goes on after a panic.
func (b *background) start(ctx context.Context, run map[string]func(context.Context) error) {
	for what, f := range run {
		b.group.Go(ctx, func(ctx context.Context) {
			err := panics.ErrPanicked
			panics.Guard(b.log, panics.Background, func() { err = f(ctx) }, "task", what)
			if err != nil {
				select {
				case b.failed <- fmt.Errorf("%s: %w", what, err):
				case <-ctx.Done():
				}
			}
		})
	}
}

// stop ends what runs and waits for it. endBlocking ends the reads that wait in Redis.
func (b *background) stop(ctx context.Context, endBlocking func() error) error {
	b.group.Cancel() // first, so that readers know why their reads end
	return errors.Join(endBlocking(), b.group.Close(ctx))
}

// every calls f each d until ctx ends. A panic of f is logged, and f is called again.
func every(ctx context.Context, log *slog.Logger, d time.Duration, f func()) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			panics.Guard(log, panics.Background, f)
		}
	}
}

// within limits f to d.
func within(d time.Duration, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return f(ctx)
	}
}
