package feeder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// grace is the time, in milliseconds, that ticks from outside may still come after the end of their bar.
	grace = 2_000
	// storeEvery, checkpointEvery and trimEvery are in milliseconds. Closed bars are stored at once.
	storeEvery      = 1_000
	checkpointEvery = 10_000
	trimEvery       = 10_000
	// roundsEvery is how often, in milliseconds, the feeder finds out whether all nodes read rounds of ticks, and
	// unreadFor how far back from then a node that does not may have missed some.
	roundsEvery = 1_000
	unreadFor   = 60_000
	// maxRest bounds the pause between two turns of the loop.
	maxRest = 100 * time.Millisecond
	// Sizes of one call to the store.
	fillChunk   = 4    // series
	tickChunk   = 1000 // ticks
	closedChunk = 500  // bars
	newsChunk   = 1000 // items
)

// leadership is a time in which this node leads, under one epoch. It belongs to the goroutine of run.
type leadership struct {
	*Feeder
	epoch   int64
	renewed time.Time              // when the lease was taken or renewed
	market  *simulated.Market      // nil without simulated assets
	assets  map[string]*assetState // by key
	live    map[string]marketdata.Live
	current int64  // the time up to which all ticks from outside have been read
	feeds   *feeds // of the real sources

	ticksTo, barsTo signal.Position
	trimBars        bool // entries of market:bars were processed
	step            marketdata.Step
	changed         bool // the positions of step are not stored yet
	stored          int64
	checkpointed    int64
	trimmed         int64

	rounds      bool            // all live nodes read rounds of ticks
	roundsKnown int64           // when rounds was found out
	unreadSince int64           // since when a node may have missed rounds, or 0 if none has
	marked      map[string]bool // assets of which a tick with unreadSince was written
}

// assetState is an asset whose prices come from outside, or one that a source gives.
type assetState struct {
	record  marketdata.Asset
	given   bool  // a source gives it: entries from outside are skipped
	kept    bool  // the source is a real one
	missed  int64 // the time since which ticks may be missing before the next one, or 0
	filter  prices.Filter
	builder *builder
}

func newLeadership(f *Feeder, epoch int64, taken time.Time) *leadership {
	return &leadership{
		Feeder: f, epoch: epoch, renewed: taken, rounds: f.o.Rounds == nil,
		assets: make(map[string]*assetState), live: make(map[string]marketdata.Live),
	}
}

type batch struct {
	entries []marketdata.Entry
	current int64 // when the stream held no more entries, or 0 if not known
	err     error
}

// run feeds the market until ctx or the lease ends, or the store fails.
func (t *leadership) run(ctx context.Context) error {
	if err := t.guarded(ctx, t.open); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	t.feeds = t.openFeeds(reading)
	defer t.feeds.group.Wait()
	defer stop()
	ticks := t.follow(reading, &readers, t.readGiven, t.ticksTo)
	bars := t.follow(reading, &readers, t.readBars, t.barsTo)
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
			t.workTicks(b.entries)
			t.current = max(t.current, b.current)
		case b := <-bars:
			if b.err != nil {
				return b.err
			}
			t.workBars(b.entries)
		case d := <-t.feeds.out:
			if err := t.workDelivery(ctx, &d); err != nil {
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

func (t *leadership) readGiven(ctx context.Context, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error) {
	entries, more, err = t.store.ReadTicks(ctx, marketdata.GivenTicks, after, block)
	if t.restarted(givenTicks, after, err) {
		return t.store.ReadTicks(ctx, marketdata.GivenTicks, signal.Position{}, 0)
	}
	return entries, more, err
}

func (t *leadership) readBars(ctx context.Context, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error) {
	entries, more, err = t.store.ReadBars(ctx, after, block)
	if t.restarted(givenBars, after, err) {
		return t.store.ReadBars(ctx, signal.Position{}, 0)
	}
	return entries, more, err
}

// restarted reports whether a read failed because a stream begins again, which it counts and logs. Then it is read from
// its beginning: all entries are new, or if Redis has lost some, those that were taken before are skipped as old.
func (t *leadership) restarted(stream string, after signal.Position, err error) bool {
	if !errors.Is(err, marketdata.ErrRestarted) {
		return false
	}
	t.o.Metrics.restarted(stream)
	t.o.Log.Warn("a stream begins again with smaller ids: it is read from its beginning",
		"stream", stream, "read", after.String())
	return true
}

// guarded runs open while another goroutine renews the lease. On a busy machine a history may take
// longer than the lease, and two nodes would take it from one another forever.
func (t *leadership) guarded(ctx context.Context, open func(context.Context) error) error {
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
			case <-time.After(t.o.Lease / 8):
			}
			err := panics.ErrPanicked
			panics.Guard(t.o.Log, panics.Market, func() { err = t.renew(ctx) })
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

// finish stores the pending step when the process ends.
func (t *leadership) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
	defer cancel()
	t.checkpointed = 0
	return t.flush(ctx, t.o.Now().UnixMilli())
}

// reader reads entries of a stream after a position, and waits for them up to block.
type reader func(ctx context.Context, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error)

// follow reads a stream from a position on until ctx ends or a read fails.
func (t *leadership) follow(ctx context.Context, wg *sync.WaitGroup, read reader, after signal.Position) <-chan batch {
	out := make(chan batch)
	wg.Go(func() {
		for ctx.Err() == nil {
			b := batch{current: t.o.Now().UnixMilli(), err: panics.ErrPanicked}
			more := false
			next := func() { b.entries, more, b.err = read(ctx, after, time.Second) }
			panics.Guard(t.o.Log, panics.Market, next, "after", after.String())
			if more {
				b.current = 0
			}
			if n := len(b.entries); n > 0 {
				after = b.entries[n-1].Position
			}
			select {
			case out <- b:
			case <-ctx.Done():
			}
			if b.err != nil {
				return
			}
		}
	})
	return out
}

// turn does the periodic work: the lease, the sources, closing bars, storing, trimming.
func (t *leadership) turn(ctx context.Context) error {
	now := t.o.Now()
	if err := t.keep(ctx); err != nil {
		return err
	}
	ms := now.UnixMilli()
	if err := t.chooseRounds(ctx, ms); err != nil {
		return err
	}
	if err := t.want(ctx); err != nil {
		return err
	}
	if err := t.forget(ctx); err != nil {
		return err
	}
	if t.market != nil && ms >= t.market.Next() {
		o := t.market.Advance(ms)
		if err := t.publish(ctx, o.Ticks); err != nil {
			return err
		}
		t.gather(o)
	}
	for _, a := range t.assets {
		if !a.given {
			a.builder.advance(t.current - grace)
		}
	}
	if len(t.step.Closed)+len(t.step.News)+len(t.step.Assets) > 0 || ms-t.stored >= storeEvery {
		if err := t.flush(ctx, ms); err != nil {
			return err
		}
	}
	if err := t.rebuild(ctx, ms); err != nil {
		return err
	}
	if ms-t.trimmed >= trimEvery {
		t.trimmed = ms
		return t.store.Trim(ctx, now, t.ticksTo, now.Add(-t.newsKept()))
	}
	return nil
}

// keep is renew for an open leadership. A pause in which the simulated market lost ticks ends it,
// and the next one begins with the bars of that time.
func (t *leadership) keep(ctx context.Context) error {
	pause := t.o.Now().Sub(t.renewed)
	if t.market != nil && pause > max(simulated.TickWindow*time.Millisecond, t.o.Lease) {
		return errHalted
	}
	return t.renew(ctx)
}

// renew renews the lease when a quarter of it has passed. After a pause that was longer than the
// lease it finds out that the lease ended before anything is written.
func (t *leadership) renew(ctx context.Context) error {
	now := t.o.Now()
	if now.Sub(t.renewed).Abs() < t.o.Lease/4 {
		return nil
	}
	err := t.store.RenewLease(ctx, t.o.Node, t.epoch, t.o.Lease)
	if signal.KindOf(err) == signal.KindConflict {
		return errLeaseLost
	}
	if err != nil {
		return err
	}
	t.renewed = now
	return nil
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

// chooseRounds finds out from time to time whether ticks may be written in rounds.
func (t *leadership) chooseRounds(ctx context.Context, now int64) error {
	if t.o.Rounds == nil || now-t.roundsKnown < roundsEvery {
		return nil
	}
	rounds, err := t.o.Rounds(ctx)
	if err != nil {
		return err
	}
	if t.rounds && !rounds {
		t.unreadSince, t.marked = now-unreadFor, make(map[string]bool)
	}
	t.rounds, t.roundsKnown = rounds, now
	return nil
}

// publish writes ticks of sources for all nodes.
func (t *leadership) publish(ctx context.Context, ticks []marketdata.AssetTick) error {
	for chunk := range slices.Chunk(ticks, tickChunk) {
		write := t.store.AppendRound
		if !t.rounds {
			write = t.store.AppendTicks
			t.markUnread(chunk)
		}
		if err := write(ctx, t.epoch, chunk); err != nil {
			return err
		}
		t.o.Metrics.addTicks(len(chunk))
	}
	return nil
}

// markUnread marks the first tick of each asset after rounds that a node of an earlier build did not read: it
// makes up for these by bars.
func (t *leadership) markUnread(ticks []marketdata.AssetTick) {
	if t.unreadSince == 0 {
		return
	}
	for i := range ticks {
		if x := &ticks[i]; !t.marked[x.Asset] {
			t.marked[x.Asset] = true
			x.Missed = min(cmp.Or(x.Missed, t.unreadSince), t.unreadSince)
		}
	}
}

func (t *leadership) gather(o simulated.Output) {
	t.step.Closed = append(t.step.Closed, o.Closed...)
	t.step.News = append(t.step.News, o.News...)
	for _, l := range o.Live {
		t.live[l.Asset] = l
	}
}

// flush stores the pending step in pieces that do not block Redis. The last piece has the positions
// and new assets, so that an asset with a record has bars and a last tick.
func (t *leadership) flush(ctx context.Context, now int64) error {
	step := &t.step
	step.Epoch = t.epoch
	for _, l := range t.live {
		step.Live = append(step.Live, l)
	}
	if now-t.checkpointed >= checkpointEvery {
		if t.market != nil {
			step.Checkpoint = t.market.Checkpoint()
		}
		t.checkpointed = now
	}
	size := len(step.Live) + len(step.Closed) + len(step.News) + len(step.Assets) + len(step.Removed)
	if !t.changed && size == 0 && step.Checkpoint == nil {
		t.stored = now
		return nil
	}
	for len(step.Closed) > closedChunk || len(step.News) > newsChunk {
		bars, news := min(len(step.Closed), closedChunk), min(len(step.News), newsChunk)
		piece := &marketdata.Step{Epoch: t.epoch, Ticks: step.Ticks, Bars: step.Bars,
			Closed: step.Closed[:bars], News: step.News[:news]}
		if err := t.store.Store(ctx, piece); err != nil {
			return err
		}
		step.Closed, step.News = step.Closed[bars:], step.News[news:]
	}
	step.Ticks, step.Bars = t.ticksTo, t.barsTo
	if err := t.store.Store(ctx, step); err != nil {
		return err
	}
	t.step = marketdata.Step{Ticks: t.ticksTo, Bars: t.barsTo}
	clear(t.live)
	t.changed, t.stored = false, now
	if t.trimBars {
		t.trimBars = false
		return t.store.TrimBars(ctx, t.barsTo)
	}
	return nil
}

// rebuild builds coarser bars again after finer ones came that are older than those that a builder keeps.
func (t *leadership) rebuild(ctx context.Context, now int64) error {
	for _, a := range t.assets {
		if a.given && !a.kept || a.builder.rebuild == 0 {
			continue
		}
		const all = prices.RecordKept
		series, err := t.recent(ctx, a.record.Symbol, [prices.Timeframes]int{all, all, all, all})
		if err != nil {
			return err
		}
		var fill [prices.Timeframes]marketdata.Series
		for _, b := range rebuilt(a.builder.grid, &series, a.builder.rebuild, now-grace) {
			frame, _ := prices.FrameOf(b.Timeframe)
			fill[frame].Asset, fill[frame].Timeframe = b.Asset, b.Timeframe
			fill[frame].Bars = append(fill[frame].Bars, b)
		}
		written := slices.DeleteFunc(fill[:], func(s marketdata.Series) bool { return len(s.Bars) == 0 })
		if err := t.store.Fill(ctx, t.epoch, written); err != nil {
			return err
		}
		for frame := range series {
			series[frame] = slices.Clone(series[frame][max(0, len(series[frame])-recentKept[frame]):])
		}
		a.builder.rebuild = 0
		a.builder.restore(a.builder.minute, series)
	}
	return nil
}
