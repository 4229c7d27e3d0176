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

// positionLoaded is the stored position, from which the feed begins.
type positionLoaded struct {
	position signal.Position
	err      error
}

// logRead is the result of reading the event log after the handled position.
type logRead struct {
	events []signal.Event
	err    error
}

// effectsStored reports whether the effects of the events up to a position are stored.
// Recorders may store later what they were given.
type effectsStored struct {
	upTo signal.Position
	err  error
}

// positionStored is the result of storing a position.
type positionStored struct {
	position signal.Position
	err      error
}

// Messages of the actor to itself, for its feed.
type (
	loadDue   struct{}
	attachDue struct{}
	readDue   struct{}
	effectDue struct{}
	storeDue  struct{}
	checkDue  struct{}
	unhandled struct{} // the log has events that were not handled when the feed was silent
)

// Feed reads a partition's event log and stores the position up to which the effects of
// its events are stored. eventlog.Store and eventlog.Positions implement it.
type Feed interface {
	OwnerPosition(ctx context.Context, partition int) (signal.Position, error)
	StoreOwnerPosition(ctx context.Context, partition int, epoch int64, position signal.Position) error
	ReadLog(ctx context.Context, partition int, after signal.Position, limit int) ([]signal.Event, error)
	// ContinuedLogs returns the partitions whose logs go on after the given positions.
	ContinuedLogs(ctx context.Context, after map[int]signal.Position) ([]int, error)
}

// Limits of the feed.
const (
	readLimit  = 1000                   // events of one read of the log
	storeEvery = 250 * time.Millisecond // store the position this often,
	storeAfter = 1000                   // and after so many events
	checkEvery = 2 * time.Second        // look at the log when the tail is silent
	retryEvery = 250 * time.Millisecond // after Redis could not be reached
)

// effect stores what an event changes beyond its own records.
type effect func(ctx context.Context, e *signal.Event) error

// feedOptions are the dependencies of a feed. tail may be nil.
type feedOptions struct {
	partition  int
	epoch      int64
	store      Feed
	tail       Tail
	attachPoll time.Duration // time between two checks whether the tail is attached
	publish    func(*inbox)  // hands the inbox to the tail
	followers  []ownership.Follower
	effects    map[signal.EventType]effect
	// followUp is called with each event after its effect is stored and it is recorded.
	followUp func(c engine.Context, e *signal.Event)
	advanced func(c engine.Context)            // called after events were handled
	silent   func(c engine.Context)            // called when the tail has published nothing for checkEvery
	lost     func(c engine.Context, err error) // called when a write was refused
	log      *slog.Logger
}

// feed follows the events of an owned partition for its actor, whose messages it handles.
// It reads the log from the stored position to its end, while the tail's events collect in
// the inbox; then it continues with the inbox. At most one read or one effect is in flight.
type feed struct {
	feedOptions
	recorders []ownership.Recorder // of the followers
	inbox     *inbox               // nil until the tail is attached
	release   func()               // ends the reading of the tail

	handled  signal.Position // effects of the events up to here are stored, and recorders have them
	stored   signal.Position // the position in Redis
	behind   bool            // the log must be read: the inbox lacks events
	busy     bool            // a read or an effect is in flight
	notified bool            // the tail has published since the last check

	events  []signal.Event  // whose effects are being stored, or nil
	pending signal.Position // the last of them

	storing  bool
	storeSet bool // a storeDue is scheduled
	unstored int  // events between stored and handled

	failing bool // the last use of Redis failed and was logged
}

func newFeed(o feedOptions) *feed {
	f := &feed{feedOptions: o, release: func() {}}
	for _, follower := range o.followers {
		if r, ok := follower.(ownership.Recorder); ok {
			f.recorders = append(f.recorders, r)
		}
	}
	return f
}

// failed logs a failure of Redis, as a warning only once until a use succeeds.
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
	if f.tail != nil {
		f.release = f.tail.Follow(f.partition)
	}
	f.load(c)
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
		position, err := store.OwnerPosition(ctx, partition)
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

// attach opens the inbox once the tail is attached, and begins to read.
func (f *feed) attach(c engine.Context) {
	if f.tail != nil && !f.tail.Attached(f.partition) {
		c.After(f.attachPoll, attachDue{})
		return
	}
	f.inbox = &inbox{owner: c.Self()}
	f.publish(f.inbox)
	f.behind = true
	f.next(c)
}

// next reads the log or handles the inbox, unless a read or an effect is in flight.
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
		events := batches[0] // the only one in most cases, and not copied then
		if len(batches) > 1 {
			events = slices.Concat(batches...)
		}
		f.handle(c, events)
	}
}

// read reads the log after the handled position. The inbox may receive the same events
// meanwhile; handle skips those by their position.
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

// handle starts the effects of events, except those already handled.
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

// apply stores the effects of the events, and then passes the events to the recorders.
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

// done marks the events up to a position as handled.
func (f *feed) done(c engine.Context, upTo signal.Position) {
	f.handled = upTo
	f.advanced(c)
	if f.unstored >= storeAfter {
		f.storePosition(c)
	}
	f.storeLater(c)
}

// storeLater schedules storing the position if it has changed.
func (f *feed) storeLater(c engine.Context) {
	if f.handled != f.stored && !f.storeSet && !f.storing {
		f.storeSet = true
		c.After(storeEvery, storeDue{})
	}
}

// settled returns the position up to which all effects and records are stored.
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

// storePosition stores the settled position, unless an earlier one is still being stored.
func (f *feed) storePosition(c engine.Context) {
	position := f.settled()
	if f.storing || position == f.stored {
		return
	}
	f.storing = true
	f.unstored = 0
	store, partition, epoch := f.store, f.partition, f.epoch
	c.Go(func(ctx context.Context) any {
		return positionStored{position, store.StoreOwnerPosition(ctx, partition, epoch, position)}
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

// onOutside handles the messages of the inbox and of the supervisor. The latter see to it that a stuck
// tail does not delay effects: checkDue asks whether the tail has published nothing since the last one,
// and unhandled reports that the log goes on nevertheless.
func (f *feed) onOutside(c engine.Context, m any) {
	switch m.(type) {
	case inboxFilled:
		f.notified = true
		f.next(c)
	case checkDue:
		if !f.notified && !f.busy && f.inbox != nil {
			f.silent(c)
		}
		f.notified = false
	case unhandled:
		f.behind = f.inbox != nil
		f.next(c)
	}
}
