package feeder

import (
	"context"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// grace is the time, in milliseconds, that ticks from outside may still come after the end of their bar.
	grace = 2_000
	// storeEvery and trimEvery are in milliseconds. Closed bars are stored at once.
	storeEvery = 1_000
	trimEvery  = 10_000
	// maxRest bounds the pause between two turns of the loop.
	maxRest = 100 * time.Millisecond
)

// leadership is a time in which this node leads, under one epoch. It belongs to the goroutine of run.
type leadership struct {
	*Feeder
	lease  lease
	assets assetStates
	writer stepWriter
	ticks  tickWriter
	given  givenPrices
	kept   keptAssets

	market  *simulated.Market // nil without simulated assets
	current int64             // the time up to which all ticks from outside have been read
	trimmed int64
}

func newLeadership(f *Feeder, epoch int64, taken time.Time) *leadership {
	t := &leadership{Feeder: f, lease: lease{Feeder: f, epoch: epoch, renewed: taken}}
	t.writer = stepWriter{Feeder: f, epoch: epoch, live: make(map[string]marketdata.Live)}
	t.ticks = tickWriter{Feeder: f, epoch: epoch}
	t.assets = assetStates{store: f.store, of: make(map[string]*assetState), writer: &t.writer}
	t.given = givenPrices{Feeder: f, assets: &t.assets, writer: &t.writer}
	t.kept = keptAssets{Feeder: f, epoch: epoch, assets: &t.assets, writer: &t.writer, ticks: &t.ticks}
	return t
}

// run feeds the market until ctx or the lease ends, or the store fails.
func (t *leadership) run(ctx context.Context) error {
	if err := t.lease.guard(ctx, t.open); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	feeds := openFeeds(reading, t.Feeder, t.assets.of)
	t.kept.feeds, t.kept.swept = feeds, t.o.Now()
	defer feeds.group.Wait()
	defer stop()
	readTicks, readBars := t.given.readers()
	ticks := t.given.follow(reading, &readers, readTicks, t.writer.ticksTo)
	bars := t.given.follow(reading, &readers, readBars, t.writer.barsTo)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return t.finish()
		case b := <-ticks:
			if b.err != nil {
				return b.err
			}
			t.given.takeTicks(b.entries)
			t.current = max(t.current, b.current)
		case b := <-bars:
			if b.err != nil {
				return b.err
			}
			t.given.takeBars(b.entries)
		case d := <-feeds.out:
			if err := t.kept.deliver(ctx, &d); err != nil {
				return err
			}
		case <-timer.C:
		}
		if err := t.turn(ctx); err != nil {
			return err
		}
		timer.Reset(t.rest())
	}
}

// finish stores the pending step when the process ends.
func (t *leadership) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
	defer cancel()
	t.writer.checkpointed = 0
	return t.writer.flush(ctx)
}

// turn does the periodic work: the lease, the sources, closing bars, storing, trimming.
func (t *leadership) turn(ctx context.Context) error {
	now := t.o.Now()
	if err := t.renew(ctx); err != nil {
		return err
	}
	ms := now.UnixMilli()
	if err := t.kept.want(ctx); err != nil {
		return err
	}
	if err := t.kept.forget(ctx); err != nil {
		return err
	}
	if t.market != nil && ms >= t.market.Next() {
		o := t.market.Advance(ms)
		if err := t.ticks.write(ctx, o.Ticks); err != nil {
			return err
		}
		t.writer.gather(o)
	}
	t.assets.advance(t.current - grace)
	if t.writer.urgent() || ms-t.writer.stored >= storeEvery {
		if err := t.writer.flush(ctx); err != nil {
			return err
		}
	}
	if err := t.assets.rebuild(ctx, ms); err != nil {
		return err
	}
	if ms-t.trimmed >= trimEvery {
		t.trimmed = ms
		return t.store.Trim(ctx, now, t.writer.ticksTo, now.Add(-t.newsKept()))
	}
	return nil
}

// renew renews the lease of an open leadership. A pause in which the simulated market lost ticks ends it,
// and the next one begins with the bars of that time.
func (t *leadership) renew(ctx context.Context) error {
	pause := t.o.Now().Sub(t.lease.renewed)
	if t.market != nil && pause > max(simulated.TickWindow*time.Millisecond, t.o.Lease) {
		return errHalted
	}
	return t.lease.renew(ctx)
}

// rest returns the time until the next turn.
func (t *leadership) rest() time.Duration {
	rest := maxRest
	now := t.o.Now().UnixMilli()
	if t.market != nil {
		rest = min(rest, time.Duration(t.market.Next()-now)*time.Millisecond)
	}
	return max(rest, time.Millisecond)
}

// newsKept returns how long news are kept in wall time.
func (t *leadership) newsKept() time.Duration {
	kept := int64(simulated.NewsFor)
	if t.market != nil {
		kept = simulated.NewsFor / t.o.Speed
	}
	if len(t.reporters) > 0 {
		kept = source.NewsKept
	}
	return time.Duration(kept) * time.Millisecond
}

// lease is the lease of a leadership under one epoch.
type lease struct {
	*Feeder
	epoch   int64
	renewed time.Time // when it was taken or renewed
}

// guard runs open while another goroutine renews the lease. On a busy machine a history may take
// longer than the lease, and two nodes would take it from one another forever.
func (l *lease) guard(ctx context.Context, open func(context.Context) error) error {
	opening, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	opened, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		for {
			select {
			case <-opened:
				return
			case <-ctx.Done():
				return
			case <-time.After(l.o.Lease / 8):
			}
			err := panics.ErrPanicked
			panics.Guard(l.o.Log, panics.Market, func() { err = l.renew(ctx) })
			if err != nil {
				fail(err)
				return
			}
		}
	}()
	err := open(opening)
	close(opened)
	<-kept
	if cause := context.Cause(opening); cause != nil {
		err = cause // also of what open returned
	}
	return err
}

// renew renews the lease when a quarter of it has passed. After a pause that was longer than the
// lease it finds out that the lease ended before anything is written.
func (l *lease) renew(ctx context.Context) error {
	now := l.o.Now()
	if now.Sub(l.renewed).Abs() < l.o.Lease/4 {
		return nil
	}
	err := l.store.RenewLease(ctx, l.o.Node, l.epoch, l.o.Lease)
	if signal.KindOf(err) == signal.KindConflict {
		return errLeaseLost
	}
	if err != nil {
		return err
	}
	l.renewed = now
	return nil
}
