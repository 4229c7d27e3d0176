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
	// runTimeout bounds the wait for one run, countTimeout that for a count, recordTimeout
	// that for the record of a round.
	runTimeout    = 2 * time.Minute
	countTimeout  = 10 * time.Second
	recordTimeout = 10 * time.Second
)

// ended is how a round ended.
type ended struct {
	result signal.Round
	closed map[string]time.Time // assets whose market is closed, until when
	// cut is the asset for which there was no quota left; empty: there was for all.
	cut string
}

// round runs the agent for the assets of a schedule, one after the other, unless one
// has as many open signals as it may have. It ends early with ctx, and with the account's
// quota of runs: what is left of it is skipped. A run under way goes on without it.
func (o *owned) round(ctx context.Context, s *signal.Schedule) ended {
	e := ended{result: signal.Round{At: o.now()}, closed: map[string]time.Time{}}
	for i, asset := range s.Assets {
		err := o.runUnlessFull(ctx, s, asset)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errFull) {
			o.metrics.count(runFull, 1)
			continue
		}
		if errors.Is(err, errNoQuota) {
			o.metrics.count(runSkipped, len(s.Assets)-i)
			e.result.Skipped, e.cut = true, asset
			break
		}
		e.result.Runs++
		if err == nil {
			o.metrics.count(runCompleted, 1)
			continue
		}
		o.metrics.count(runError, 1)
		e.result.Failures++
		e.result.Error = failure(err, o.now())
		if r, ok := errors.AsType[*signal.RunError](err); ok && r.Code == signal.MarketClosed && r.RetryAfter > 0 {
			e.closed[asset] = o.now().Add(r.RetryAfter)
		}
		o.log.Debug("a scheduled run made no signal", "schedule", string(s.ID), "asset", asset, "err", err)
		if signal.CodeOf(err) == signal.CodeTooManySignals {
			break // and so it would be with the other assets
		}
	}
	return e
}

// Why a run is not made.
var (
	errFull    = errors.New("the asset has as many open signals as it may have")
	errNoQuota = errors.New("the account's quota of runs is used up")
)

// failure returns what the account is shown of the error of a run.
func failure(err error, at time.Time) *signal.ScheduleError {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return &signal.ScheduleError{Code: string(e.Code), Message: e.Message, At: at}
	}
	if e, ok := errors.AsType[*signal.Error](err); ok {
		return &signal.ScheduleError{Code: e.Code, Message: e.Message, At: at}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &signal.ScheduleError{Code: string(signal.Timeout), Message: "the run took too long", At: at}
	}
	return &signal.ScheduleError{Code: string(signal.Internal), Message: "the run failed unexpectedly", At: at}
}

// runUnlessFull makes one run, if there is room for its signal and a run left in the quota.
// One that is tried again because there were too many at once counts once.
func (o *owned) runUnlessFull(ctx context.Context, s *signal.Schedule, asset string) error {
	if full, err := o.full(ctx, s, asset); err != nil {
		return err
	} else if full {
		return errFull
	}
	if !o.quota.TakeRun(ctx, s.Account) {
		return errNoQuota
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := o.agents.Run(ctx, signal.RunRequest{Account: s.Account, Agent: s.Agent, Asset: asset, Strategy: s.Strategy, Timeframe: s.Timeframe, Risk: s.Risk})
		e, ok := errors.AsType[*signal.Error](err)
		if !ok || e.Kind != signal.KindTooMany || e.Code == signal.CodeTooManySignals || try == busyTries {
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

// record stores what came of a round. One that was interrupted is not recorded, nor one
// that another owner or a change of the schedule makes a matter of the past.
func (o *owned) record(ctx context.Context, s signal.Schedule, r signal.Round) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := o.store.RecordRound(ctx, o.Partition, o.Epoch, s, r)
	if kind := signal.KindOf(err); err != nil && kind != signal.KindConflict && kind != signal.KindNotFound {
		o.log.Warn("what came of a round is not recorded", "schedule", string(s.ID), "err", err)
	}
}
