package partition

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
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

// effectsStored reports that the effects of the events up to a position are stored, or
// why they are not. What recorders have recorded may be stored later.
type effectsStored struct {
	upTo signal.Position
	err  error
}

// positionStored reports how the storing of a position ended.
type positionStored struct {
	position signal.Position
	err      error
}

// What the actor sends itself for its feed, for later.
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
	checkEvery = 2 * time.Second        // read the log when the tail is silent
	retryEvery = 250 * time.Millisecond // after Redis could not be reached
)

// effect stores what an event changes beyond its own records.
type effect func(ctx context.Context, e *signal.Event) error

// feedOptions are what a feed works with. tail may be nil.
type feedOptions struct {
	partition  int
	epoch      int64
	store      Feed
	tail       Tail
	attachPoll time.Duration // the time between two questions whether the tail is attached
	publish    func(*inbox)  // hands the inbox to the tail
	followers  []ownership.Follower
	effects    map[signal.EventType]effect
	// followUp is called with each event that has an effect or is recorded, once that is
	// done.
	followUp func(c engine.Context, e *signal.Event)
	lost     func(c engine.Context, err error) // called when a write was refused
	log      *slog.Logger
}

// feed follows the events of an owned partition for its actor, whose messages it handles.
// It reads the log from the stored position until nothing is left; what the tail has read
// meanwhile waits in the inbox, so what is appended after the last read is there. At most
// one read or one effect is under way.
type feed struct {
	feedOptions
	recorders []ownership.Recorder // of the followers
	inbox     *inbox               // nil until the tail is attached

	handled  signal.Position // effects of the events up to here are stored, and recorders have them
	stored   signal.Position // what recorders do is stored, too, up to here, and Redis knows it
	behind   bool            // the log must be read: the inbox does not have all
	busy     bool            // a read or an effect is under way
	notified bool            // the tail has published since the last check

	// The events whose effects are to be stored, nil if there are none; then those up to
	// pending are handled.
	events  []signal.Event
	pending signal.Position

	storing  bool
	storeSet bool // a storeDue is to come
	unstored int  // events between stored and handled

	failing bool // the last use of Redis failed, and that was logged
}

func newFeed(o feedOptions) *feed {
	f := &feed{feedOptions: o}
	for _, follower := range o.followers {
		if r, ok := follower.(ownership.Recorder); ok {
			f.recorders = append(f.recorders, r)
		}
	}
	return f
}

// failed logs a failure of Redis, once until something succeeds.
func (f *feed) failed(text string, err error) {
	if f.failing {
		f.log.Debug(text, "err", err)
		return
	}
	f.failing = true
	f.log.Warn(text, "err", err)
}

// start begins to follow the log.
func (f *feed) start(c engine.Context) {
	c.After(checkEvery, checkDue{})
	f.load(c)
}

func (f *feed) onInboxFilled(c engine.Context) {
	f.notified = true
	f.next(c)
}

func (f *feed) onReadDue(c engine.Context) {
	f.busy = false
	f.next(c)
}

func (f *feed) onStoreDue(c engine.Context) {
	f.storeSet = false
	f.storePosition(c)
	f.storeLater(c)
}

func (f *feed) load(c engine.Context) {
	store, partition := f.store, f.partition
	c.Go(func(ctx context.Context) any {
		position, err := store.EnginePosition(ctx, partition)
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
	if f.tail != nil && !f.tail.Attached() {
		c.After(f.attachPoll, attachDue{})
		return
	}
	f.inbox = &inbox{owner: c.Self()}
	f.publish(f.inbox)
	f.behind = true
	f.next(c)
}

// next continues with what there is to do, if nothing is under way.
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
	store, partition, after := f.store, f.partition, f.handled
	c.Go(func(ctx context.Context) any {
		events, err := store.ReadLog(ctx, partition, after, readLimit)
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
	for _, follower := range f.followers {
		follower.Follow(events)
	}
	f.events = nil
	if len(f.recorders) > 0 || slices.ContainsFunc(events, f.hasEffect) {
		f.events = events
	}
	f.apply(c)
}

func (f *feed) hasEffect(e signal.Event) bool { return f.effects[e.Type] != nil }

// apply has the effects of the events stored, and then has them recorded.
func (f *feed) apply(c engine.Context) {
	upTo := f.pending
	if f.events == nil {
		f.done(c, upTo)
		return
	}
	f.busy = true
	events, effects, recorders := f.events, f.effects, f.recorders
	c.Go(func(ctx context.Context) any {
		for i := range events {
			e := &events[i]
			do := effects[e.Type]
			if do == nil {
				continue
			}
			if err := do(ctx, e); err != nil {
				return effectsStored{upTo, fmt.Errorf("effect of event %s: %w", e.ID, err)}
			}
		}
		for _, r := range recorders {
			if err := r.Record(ctx, events); err != nil {
				return effectsStored{upTo, err}
			}
		}
		return effectsStored{upTo: upTo}
	})
}

func (f *feed) onEffectsStored(c engine.Context, m effectsStored) {
	switch {
	case m.err == nil:
		f.busy, f.failing = false, false
		for i := range f.events {
			f.followUp(c, &f.events[i])
		}
		f.events = nil
		f.done(c, m.upTo)
		f.next(c)
	case lost(m.err):
		f.lost(c, m.err)
	default:
		f.failed("effects of events are not stored", m.err)
		c.After(retryEvery, effectDue{})
	}
}

// done notes that the events up to a position are handled.
func (f *feed) done(c engine.Context, upTo signal.Position) {
	f.handled = upTo
	if f.unstored >= storeAfter {
		f.storePosition(c)
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

// settled returns up to where all effects and what recorders do are stored.
func (f *feed) settled() signal.Position {
	settled := f.handled
	for _, r := range f.recorders {
		if stored := r.Stored(f.handled); stored.Compare(settled) < 0 {
			settled = stored
		}
	}
	if settled.Compare(f.stored) < 0 {
		return f.stored
	}
	return settled
}

// storePosition stores the position up to which all is stored, one at a time.
func (f *feed) storePosition(c engine.Context) {
	position := f.settled()
	if f.storing || position == f.stored {
		return
	}
	f.storing = true
	f.unstored = 0
	store, partition, epoch := f.store, f.partition, f.epoch
	c.Go(func(ctx context.Context) any {
		return positionStored{position, store.StoreEnginePosition(ctx, partition, epoch, position)}
	})
}

func (f *feed) onPositionStored(c engine.Context, m positionStored) {
	f.storing = false
	switch {
	case m.err == nil:
		f.stored, f.failing = m.position, false
	case lost(m.err):
		f.lost(c, m.err)
		return
	default:
		f.failed("position is not stored", m.err)
	}
	f.storeLater(c)
}

// check reads the log if the tail has published nothing since the last check: a tail that
// is stuck must not keep events from their effects.
func (f *feed) check(c engine.Context) {
	c.After(checkEvery, checkDue{})
	if !f.notified && !f.busy && f.inbox != nil {
		f.behind = true
		f.next(c)
	}
	f.notified = false
}
