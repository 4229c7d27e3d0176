package partition

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// dutyDue asks a partition actor to run a duty, dutyDone is the result.
type (
	dutyDue  struct{ duty *duty }
	dutyDone struct {
		duty *duty
		next time.Duration // pause before the next run; negative for no next run
		err  error
	}
)

// DueRuns lists the runs that should have ended. signals.Store implements it.
type DueRuns interface {
	OverdueRuns(ctx context.Context, partition int, before time.Time, limit int) ([]signal.RunDue, error)
	// RunsUnderWay reports whether any run has not ended.
	RunsUnderWay(ctx context.Context, partition int) (bool, error)
}

// Eraser erases deleted accounts in small steps. persistence.Store implements it.
type Eraser interface {
	BeginErase(ctx context.Context, partition int, epoch int64, account signal.AccountID, deleted time.Time) error
	// EraseStep returns the pause before the next step; negative if nothing is left.
	EraseStep(ctx context.Context, partition int, epoch int64) (time.Duration, error)
}

// Webhooks erases the data of removed webhooks. The webhooks of persistence implement it.
type Webhooks interface {
	// EraseWebhooks erases some of it, and reports whether there is more.
	EraseWebhooks(ctx context.Context, partition int, epoch int64) (more bool, err error)
}

// Trimmer drops the entries that a partition's logs need not keep.
type Trimmer interface {
	TrimEvents(ctx context.Context, partition int, epoch int64) error
	TrimSignals(ctx context.Context, partition int, epoch int64) error
}

// Compactor makes the blocks from which lists are read. signals.Store implements it.
type Compactor interface {
	// Compact makes the next block, and reports whether there may be another one to make.
	Compact(ctx context.Context, partition int, epoch int64) (more bool, err error)
}

const (
	// dutyTimeout bounds one run of a duty, dutyRetry is the pause after a failed one.
	dutyTimeout = 10 * time.Second
	dutyRetry   = time.Second
	// rest is the pause of a duty that has nothing to do until an event is handled. A partition
	// without events costs Redis next to nothing, and what no event reports is still done in time.
	rest = time.Minute
	// sweepLimit is the number of overdue runs that one sweep ends.
	sweepLimit = 100
	// erasePause separates two steps of erasing, so that Redis can serve others.
	erasePause = 20 * time.Millisecond
	// compactPause separates two blocks.
	compactPause = 20 * time.Millisecond
)

// duty is a periodic task of an owner. At most one run of it is in progress.
type duty struct {
	name string
	do   func(ctx context.Context) (next time.Duration, err error)
	// after is the pause after the next event, for a duty that rests.
	after time.Duration

	running bool
	resting bool
	begun   signal.Position // what was handled when the last run began
	again   bool            // it became due during a run
	failing bool            // the last run failed and was logged
	timer   engine.Timer
}

// duties returns the tasks of the owner besides following the events, and by event type
// the duty that runs at once after such an event.
func (a *partition) duties() (list []*duty, dueAfter map[signal.EventType]*duty) {
	p, number, epoch := a.p, a.number, a.epoch
	overdue := &sweeper{store: p.store, log: p.log, partition: number, epoch: epoch, every: p.options.SweepEvery}
	erase := &duty{name: "erase deleted accounts", do: func(ctx context.Context) (time.Duration, error) {
		next, err := p.store.EraseStep(ctx, number, epoch)
		if next == 0 {
			next = erasePause
		}
		return next, err
	}}
	list = []*duty{
		{name: "end overdue runs", after: overdue.every, do: overdue.sweep},
		erase,
	}
	dueAfter = map[signal.EventType]*duty{signal.AccountDeleted: erase}
	if w := p.options.Webhooks; w != nil {
		eraseWebhooks := &duty{name: "erase removed webhooks", do: func(ctx context.Context) (time.Duration, error) {
			more, err := w.EraseWebhooks(ctx, number, epoch)
			if !more {
				return -1, err
			}
			return erasePause, err
		}}
		list = append(list, eraseWebhooks)
		dueAfter[signal.WebhookChanged] = eraseWebhooks
	}
	if t := p.options.Trimmer; t != nil {
		list = append(list, &duty{name: "trim", after: p.options.TrimEvery, do: func(ctx context.Context) (time.Duration, error) {
			return rest, errors.Join(t.TrimEvents(ctx, number, epoch), t.TrimSignals(ctx, number, epoch))
		}})
	}
	if b := p.options.Compactor; b != nil {
		compact := func(ctx context.Context) (time.Duration, error) {
			more, err := b.Compact(ctx, number, epoch)
			if more {
				return compactPause, err
			}
			return rest, err
		}
		list = append(list, &duty{name: "compact", after: p.options.TrimEvery, do: compact})
	}
	return list, dueAfter
}

// work starts a run of d, or another one after the present run.
func (a *partition) work(c engine.Context, d *duty) {
	if d.running {
		d.again = true
		return
	}
	d.running, d.resting, d.begun = true, false, a.feed.handled
	d.timer.Stop()
	do := d.do
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, dutyTimeout)
		defer cancel()
		next, err := do(ctx)
		return dutyDone{d, next, err}
	})
}

func (a *partition) onDutyDone(c engine.Context, m dutyDone) {
	d := m.duty
	d.running = false
	switch {
	case m.err == nil:
		d.failing = false
	case lost(m.err):
		a.drop(c, m.err)
		return
	default:
		if !d.failing {
			d.failing = true
			a.log.Warn("duty of the owner failed", "duty", d.name, "err", m.err)
		}
		m.next = dutyRetry
	}
	if d.again {
		d.again = false
		m.next = 0
	}
	if d.resting = m.next == rest; d.resting && d.begun != a.feed.handled {
		d.resting, m.next = false, d.after
	}
	if m.next >= 0 {
		d.timer = c.After(m.next, dutyDue{d})
	}
}

// wake makes resting duties run soon, because events were handled.
func (a *partition) wake(c engine.Context) {
	for _, d := range a.tasks {
		if d.resting {
			d.resting = false
			d.timer.Stop()
			d.timer = c.After(d.after, dutyDue{d})
		}
	}
}

// cancelled is the error of a run whose process died.
var cancelled = &signal.RunError{
	Code:      signal.Cancelled,
	Message:   "the process that ran the agent has ended",
	Retryable: true,
}

// sweeper ends the overdue runs of a partition.
type sweeper struct {
	store     Store
	log       Log
	partition int
	epoch     int64
	every     time.Duration
}

// sweep does it once. If a run's own process ends it at the same
// moment, the log refuses the second end.
func (s *sweeper) sweep(ctx context.Context) (time.Duration, error) {
	runs, err := s.store.OverdueRuns(ctx, s.partition, s.store.Now(), sweepLimit)
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		failed := signal.Event{
			ID:      signal.NewEventID(),
			Account: r.Account,
			Type:    signal.AgentFailed,
			Agent:   r.Agent,
			Run:     r.Run,
			Data:    signal.AppendRunError(nil, r.Agent, r.Run, cancelled),
		}
		_, err := s.log.Append(ctx, signal.Change{
			Account: r.Account,
			Ended:   r.Run,
			Epoch:   s.epoch,
			Events:  []signal.Event{failed},
		})
		if err != nil && (lost(err) || signal.KindOf(err) != signal.KindConflict) {
			return 0, err
		}
	}
	if len(runs) == sweepLimit {
		return 0, nil
	}
	if more, err := s.store.RunsUnderWay(ctx, s.partition); more || err != nil {
		return s.every, err
	}
	return rest, nil
}
