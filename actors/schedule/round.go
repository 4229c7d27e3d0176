package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// busyTries is the number of tries for a run that is refused because there are too
	// many at once, busyPause the pause between them unless the refusal names one.
	busyTries = 3
	busyPause = time.Second
	// runTimeout bounds the wait for one run, countTimeout for the count of open signals,
	// recordTimeout for the record of a round.
	runTimeout    = 2 * time.Minute
	countTimeout  = 10 * time.Second
	recordTimeout = 10 * time.Second
)

// ended is the result of a round.
type ended struct {
	result signal.Round
	closed map[string]time.Time // when the closed markets of assets open again
	cut    string               // the asset at which the quota was used up, or empty
}

// round runs the agent for the assets of a schedule one after the other, except those that
// have their maximum of open signals. It ends early when ctx ends or the account's quota of
// runs is used up; a run in progress is not cancelled then.
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
			e.result.Failures = 0
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
			break // the other assets would be refused, too
		}
	}
	return e
}

// Reasons to skip a run.
var (
	errFull    = errors.New("the asset has as many open signals as it may have")
	errNoQuota = errors.New("the account's quota of runs is used up")
)

// failure returns the error of a run as the account sees it.
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

// runUnlessFull runs the agent once if the asset may have another signal and the quota has
// a run left. A run that is retried because too many ran at once counts once.
func (o *owned) runUnlessFull(ctx context.Context, s *signal.Schedule, asset string) error {
	if full, err := o.full(ctx, s, asset); err != nil {
		return err
	} else if full {
		return errFull
	}
	if o.quota != nil && !o.quota.TakeRun(ctx, s.Account) {
		return errNoQuota
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := o.agents.Run(ctx, signal.RunRequest{
			Account:   s.Account,
			Agent:     s.Agent,
			Asset:     asset,
			Strategy:  s.Strategy,
			Timeframe: s.Timeframe,
			Risk:      s.Risk,
		})
		e, ok := errors.AsType[*signal.Error](err)
		if !ok || e.Kind != signal.KindTooMany || e.Code == signal.CodeTooManySignals || try == busyTries {
			return err
		}
		pause := e.RetryAfter
		if pause <= 0 {
			pause = busyPause
		}
		if !backoff.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// full reports whether the asset has its maximum of open signals.
func (o *owned) full(ctx context.Context, s *signal.Schedule, asset string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return o.signals.Full(ctx, s, asset)
}

// record stores the result of a round, unless the round was interrupted, the partition
// has another owner, or the schedule was removed.
func (o *owned) record(ctx context.Context, s signal.Schedule, r signal.Round) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := o.store.RecordRound(ctx, o.Partition, o.Epoch, s, r)
	if kind := signal.KindOf(err); err != nil && kind != signal.KindConflict && kind != signal.KindNotFound {
		o.log.Warn("result of a round is not recorded", "schedule", string(s.ID), "err", err)
	}
}
