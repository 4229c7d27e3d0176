package partition

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// positionLoaded is from where the feed begins.
type positionLoaded struct {
	position signal.Position
	err      error
}

// logRead is what was read of the event log after the handled position.
type logRead struct {
	events []signal.Event
	err    error
}

// effectsStored says that the effects of the events up to a position are stored, but
// for deliveries, or why not.
type effectsStored struct {
	upTo signal.Position
	err  error
}

// positionStored says how the storing of a position ended.
type positionStored struct {
	position signal.Position
	err      error
}

// What the feed tells itself for later.
type (
	loadDue   struct{}
	attachDue struct{}
	readDue   struct{}
	effectDue struct{}
	storeDue  struct{}
	checkDue  struct{}
)

// Feed reads a partition's event log and keeps how far its events have had their
// effect. persistence.Store does.
type Feed interface {
	EnginePosition(ctx context.Context, partition int) (signal.Position, error)
	StoreEnginePosition(ctx context.Context, partition int, epoch int64, position signal.Position) error
	ReadLog(ctx context.Context, partition int, after signal.Position, limit int) ([]signal.Event, error)
}

// Limits of the feed.
const (
	readLimit  = 1000                   // events of one read of the log
	storeEvery = 250 * time.Millisecond // at most this long is a position not stored,
	storeAfter = 1000                   // or for so many events
	checkEvery = 2 * time.Second        // look into the log when the tail is silent
	retryEvery = 250 * time.Millisecond // after Redis could not be reached
)

// feed follows the events of the owned partition a. It reads the log from the stored
// position until nothing is left; what the tail has read meanwhile waits in the
// inbox, so what is appended after the last read is there. At most one read or one
// effect is under way.
type feed struct {
	a     *partition
	inbox *inbox

	handled signal.Position // effects of the events up to here are stored, and deliveries made
	stored  signal.Position // deliveries are stored, too, up to here, and Redis knows it
	behind  bool            // the log must be read: the inbox does not have all
	busy    bool            // a read or an effect is under way
	heard   bool            // the tail has published since the last check
	events  []signal.Event  // whose effects are to be done, nil if there are none;
	effects []effect        // those beside deliveries; then the events up to
	pending signal.Position // this one are handled

	storing  bool
	storeSet bool // a storeDue is to come
	unstored int  // events between stored and handled

	failing bool // the last use of Redis failed, and that was logged
}

// effect is what an event changes beyond its own records.
type effect func(ctx context.Context) error

// failed logs a failure of Redis, once until something succeeds.
func (f *feed) failed(text string, err error) {
	level := slog.LevelWarn
	if f.failing {
		level = slog.LevelDebug
	}
	f.failing = true
	f.a.log.Log(context.Background(), level, text, "err", err)
}

// start begins to follow the log.
func (f *feed) start(c engine.Context) {
	c.After(checkEvery, checkDue{})
	f.load(c)
}

// receive handles the messages of the feed.
func (f *feed) receive(c engine.Context) {
	switch m := c.Message().(type) {
	case loadDue:
		f.load(c)
	case positionLoaded:
		f.onLoaded(c, m)
	case attachDue:
		f.attach(c)
	case inboxFilled:
		f.heard = true
		f.next(c)
	case readDue:
		f.busy = false
		f.next(c)
	case logRead:
		f.onRead(c, m)
	case effectDue:
		f.apply(c)
	case effectsStored:
		f.onEffectsStored(c, m)
	case storeDue:
		f.storeSet = false
		f.store(c)
		f.storeLater(c)
	case positionStored:
		f.onPositionStored(c, m)
	case checkDue:
		f.check(c)
	}
}

func (f *feed) load(c engine.Context) {
	p, number := f.a.p, f.a.number
	c.Go(func(ctx context.Context) any {
		position, err := p.store.EnginePosition(ctx, number)
		return positionLoaded{position, err}
	})
}

func (f *feed) onLoaded(c engine.Context, m positionLoaded) {
	if m.err != nil {
		f.failed("position is not readable", m.err)
		c.After(retryEvery, loadDue{})
		return
	}
	f.failing = false
	f.handled, f.stored = m.position, m.position
	f.attach(c)
}

// attach opens the inbox as soon as the tail misses nothing, and begins to read.
func (f *feed) attach(c engine.Context) {
	if t := f.a.p.options.Tail; t != nil && !t.Attached() {
		c.After(min(f.a.p.pollEvery, 50*time.Millisecond), attachDue{})
		return
	}
	f.inbox = &inbox{owner: c.Self()}
	f.a.p.inboxes[f.a.number].Store(f.inbox)
	f.behind = true
	f.next(c)
}

// next goes on with what there is to do, if nothing is under way.
func (f *feed) next(c engine.Context) {
	for !f.busy && f.inbox != nil {
		if f.behind {
			f.read(c)
			return
		}
		batches, missed := f.inbox.take()
		if missed {
			f.behind = true
			continue
		}
		if len(batches) == 0 {
			return
		}
		var events []signal.Event
		for _, b := range batches {
			events = append(events, b...)
		}
		f.handle(c, events)
	}
}

// read reads the log behind the handled position. What the inbox holds meanwhile
// overlaps with what is read, and is left out by its position.
func (f *feed) read(c engine.Context) {
	f.busy = true
	p, number, after := f.a.p, f.a.number, f.handled
	c.Go(func(ctx context.Context) any {
		events, err := p.store.ReadLog(ctx, number, after, readLimit)
		return logRead{events, err}
	})
}

func (f *feed) onRead(c engine.Context, m logRead) {
	if m.err != nil {
		f.failed("event log is not readable", m.err)
		c.After(retryEvery, readDue{})
		return
	}
	f.busy, f.failing = false, false
	f.behind = len(m.events) > 0
	f.handle(c, m.events)
	f.next(c)
}

// handle begins the effects of events, leaving out those that have had theirs.
func (f *feed) handle(c engine.Context, events []signal.Event) {
	for len(events) > 0 && events[0].Position.Compare(f.handled) <= 0 {
		events = events[1:]
	}
	if len(events) == 0 {
		return
	}
	f.unstored += len(events)
	f.pending = events[len(events)-1].Position
	if l := f.a.follower; l != nil {
		l.Follow(events)
	}
	if s := f.a.scheduler; s != nil {
		s.Follow(events)
	}
	f.events, f.effects = nil, nil
	for i := range events {
		if e := f.effectOf(&events[i]); e != nil {
			f.effects = append(f.effects, e)
		}
	}
	if len(f.effects) > 0 || f.a.recorder != nil {
		f.events = events
	}
	f.apply(c)
}

// effectOf returns what is to be done about e; nil if nothing is.
func (f *feed) effectOf(e *signal.Event) effect {
	if e.Type != signal.AccountDeleted {
		return nil
	}
	p, number, epoch, account, at := f.a.p, f.a.number, f.a.epoch, e.Account, e.Time()
	return func(ctx context.Context) error { return p.store.BeginErase(ctx, number, epoch, account, at) }
}

// apply has the effects stored: deliveries for webhooks, and what else there is.
func (f *feed) apply(c engine.Context) {
	upTo := f.pending
	if f.events == nil {
		f.done(c, upTo)
		return
	}
	f.busy = true
	events, effects, recorder := f.events, f.effects, f.a.recorder
	c.Go(func(ctx context.Context) any {
		for i, e := range effects {
			if err := e(ctx); err != nil {
				return effectsStored{upTo: upTo, err: fmt.Errorf("effect %d of %d: %w", i+1, len(effects), err)}
			}
		}
		if recorder != nil {
			return effectsStored{upTo, recorder.Record(ctx, events)}
		}
		return effectsStored{upTo: upTo}
	})
}

func (f *feed) onEffectsStored(c engine.Context, m effectsStored) {
	switch {
	case m.err == nil:
		f.busy, f.failing = false, false
		f.followUp(c)
		f.events, f.effects = nil, nil
		f.done(c, m.upTo)
		f.next(c)
	case lost(m.err):
		f.a.drop(c, m.err)
	default:
		f.failed("effects of events are not stored", m.err)
		c.After(retryEvery, effectDue{})
	}
}

// followUp begins the duties that events have given the owner.
func (f *feed) followUp(c engine.Context) {
	for i := range f.events {
		switch f.events[i].Type {
		case signal.AccountDeleted:
			f.a.work(c, f.a.erase)
		case signal.WebhookChanged:
			if d := f.a.eraseWebhooks; d != nil {
				f.a.work(c, d)
			}
		}
	}
}

// done notes that the effects up to a position are stored, or deliveries made.
func (f *feed) done(c engine.Context, upTo signal.Position) {
	f.handled = upTo
	if f.unstored >= storeAfter {
		f.store(c)
	}
	f.storeLater(c)
}

// storeLater has the position stored in a while if it has changed.
func (f *feed) storeLater(c engine.Context) {
	if f.handled != f.stored && !f.storeSet && !f.storing {
		f.storeSet = true
		c.After(storeEvery, storeDue{})
	}
}

// settled returns up to where effects and deliveries are stored.
func (f *feed) settled() signal.Position {
	settled := f.handled
	if r := f.a.recorder; r != nil {
		settled = r.Stored(f.handled)
	}
	if settled.Compare(f.stored) < 0 {
		return f.stored
	}
	return settled
}

// store stores the position up to which all is stored, one at a time.
func (f *feed) store(c engine.Context) {
	position := f.settled()
	if f.storing || position == f.stored {
		return
	}
	f.storing = true
	f.unstored = 0
	p, number, epoch := f.a.p, f.a.number, f.a.epoch
	c.Go(func(ctx context.Context) any {
		return positionStored{position, p.store.StoreEnginePosition(ctx, number, epoch, position)}
	})
}

func (f *feed) onPositionStored(c engine.Context, m positionStored) {
	f.storing = false
	switch {
	case m.err == nil:
		f.stored, f.failing = m.position, false
	case lost(m.err):
		f.a.drop(c, m.err)
		return
	default:
		f.failed("position is not stored", m.err)
	}
	f.storeLater(c)
}

// check looks into the log if the tail has said nothing since the last look: a tail
// that is stuck must not keep events from their effects.
func (f *feed) check(c engine.Context) {
	c.After(checkEvery, checkDue{})
	if !f.heard && !f.busy && f.inbox != nil {
		f.behind = true
		f.next(c)
	}
	f.heard = false
}
