package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// busyTries is how often a run is asked for that was refused because there were too
	// many, busyPause the time between if the refusal does not name one.
	busyTries = 3
	busyPause = time.Second
	// runTimeout bounds the wait for one run, countTimeout that for a count.
	runTimeout   = 2 * time.Minute
	countTimeout = 10 * time.Second
)

// round runs the agent for the assets of a schedule, one after the other, unless one
// has as many open signals as it may have. It ends early with ctx; a run under way goes
// on without it. It returns the assets whose market is closed, with the time until which
// it is. Why runs fail is in their events: here it is for the log.
func (o *owned) round(ctx context.Context, s *signal.Schedule) map[string]time.Time {
	closed := map[string]time.Time{}
	for _, asset := range s.Assets {
		if ctx.Err() != nil {
			break
		}
		err := o.runUnlessFull(ctx, s, asset)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if e, ok := errors.AsType[*signal.RunError](err); ok && e.Code == signal.MarketClosed && e.RetryAfter > 0 {
			closed[asset] = o.now().Add(e.RetryAfter)
		}
		o.log.Debug("a scheduled run made no signal", "schedule", string(s.ID), "asset", asset, "err", err)
	}
	return closed
}

// runUnlessFull makes one run, if there is room for its signal.
func (o *owned) runUnlessFull(ctx context.Context, s *signal.Schedule, asset string) error {
	if full, err := o.full(ctx, s, asset); err != nil || full {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := o.agents.Run(ctx, signal.RunRequest{Account: s.Account, Agent: s.Agent, Asset: asset, Strategy: s.Strategy, Timeframe: s.Timeframe, Risk: s.Risk})
		e, ok := errors.AsType[*signal.Error](err)
		if !ok || e.Kind != signal.KindTooMany || try == busyTries {
			return err
		}
		pause := e.RetryAfter
		if pause <= 0 {
			pause = busyPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *owned) full(ctx context.Context, s *signal.Schedule, asset string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return o.signals.Full(ctx, s, asset)
}
