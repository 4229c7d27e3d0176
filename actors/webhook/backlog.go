package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// backlogs has the pending deliveries of webhooks.
type backlogs interface {
	// DueDeliveries returns pending deliveries that are due at until, those that are
	// due for longest first and those named by except left out, and when the first one
	// after until is due; zero if none is.
	DueDeliveries(ctx context.Context, partition int, account signal.AccountID, webhook signal.WebhookID,
		until time.Time, limit int, except map[signal.DeliveryID]bool) (
		due []delivery.PendingDelivery, next time.Time, err error)
}

// catchUpSlack is how soon something may be due at which a page of the backlog was not
// the last one: times of Redis are estimated, and pages with faults are read again.
const catchUpSlack = 150 * time.Millisecond

// pageRead is a page of the backlog.
type pageRead struct {
	due  []delivery.PendingDelivery
	full bool // there may be more
	next time.Time
	err  error
}

// backlog is what Redis still has for an endpoint, as far as the endpoint knows. It decides
// when a page is to be read, and which new deliveries must not pass those in Redis. A page
// is read when the queue runs low, as long as there is more, and again when something new
// is due. Every read begins at the oldest, so nothing can be skipped; what is held is left
// out.
//
// It neither reads nor sends: its methods return what the endpoint is to do.
type backlog struct {
	// held are the deliveries that the queue or the outcomes have. Those that go back to
	// Redis, to be tried again, are false.
	held  map[signal.DeliveryID]bool
	waits waits

	wanted  bool // something may be due that is not held
	reading bool
	stale   bool // the page that is being read is not to be used
	// released are deliveries that were stored while a page was being read, which may
	// show them as they were.
	released []signal.DeliveryID
	due      time.Time // when the endpoint reads again; zero: no time is set
	failed   backoff.Backoff

	behind bool // Redis may have deliveries that are due and not held
	more   bool // it had when it was read last
	shut   bool // new deliveries wait in the queue, because Redis may have earlier ones
	// unsaved are the deliveries that were given back before they were stored, until they
	// are. Redis may have later ones than those that are true: so many are unsorted.
	unsaved  map[signal.DeliveryID]bool
	unsorted int
}

func newBacklog() backlog {
	return backlog{
		held:    map[signal.DeliveryID]bool{},
		waits:   newWaits(),
		wanted:  true,
		behind:  true,
		shut:    true,
		unsaved: map[signal.DeliveryID]bool{},
	}
}

// idle reports whether nothing is to be read for longer than the parent looks ahead.
func (b *backlog) idle(now time.Time) bool {
	return !b.wanted && !b.reading && (b.due.IsZero() || b.due.Sub(now) > window)
}

// plan notes that a page is to be read at a time, and reports whether that is sooner than
// the endpoint has planned it so far.
func (b *backlog) plan(at time.Time) bool {
	if at.IsZero() || !b.due.IsZero() && !at.Before(b.due) {
		return false
	}
	b.due = at
	return true
}

// begin reports whether a page is to be read now, and returns what is left out of it.
func (b *backlog) begin() (except map[signal.DeliveryID]bool, ok bool) {
	if !b.wanted || b.reading || b.unsorted > 0 {
		return nil, false
	}
	b.wanted, b.reading = false, true
	except = make(map[signal.DeliveryID]bool, len(b.held))
	for id := range b.held {
		except[id] = true
	}
	return except, true
}

// end notes that a page was read, and reports whether it is to be used; else it is to be
// read again.
func (b *backlog) end() bool {
	b.reading = false
	if b.stale {
		b.stale, b.wanted = false, true
		b.dropReleased()
		return false
	}
	return true
}

// fail notes that a page was not readable, and returns after how long it is tried again.
func (b *backlog) fail() time.Duration {
	b.wanted = true
	b.dropReleased()
	return b.failed.Next()
}

// take returns the deliveries of a page that are not held yet, and holds them.
func (b *backlog) take(m *pageRead) (items []*item) {
	b.failed.Reset()
	due := m.due
	if m.full {
		b.wanted = true
		due = wholeMillis(due)
	}
	for _, d := range due {
		if b.holds(d.ID) {
			continue
		}
		b.held[d.ID] = true
		// The page is not kept for one of it.
		items = append(items, &item{PendingDelivery: d, signal: signalOf(d.Type, d.Body)})
	}
	b.dropReleased()
	return items
}

// wholeMillis returns the deliveries of a full page without those of its last millisecond,
// which may not be all: they come with the next page, in the order of their events.
func wholeMillis(due []delivery.PendingDelivery) []delivery.PendingDelivery {
	n := len(due)
	for n > 0 && due[n-1].NextAttemptAt.Equal(due[len(due)-1].NextAttemptAt) {
		n--
	}
	if n == 0 {
		return due
	}
	return due[:n]
}

// catchUp decides after a page whether the endpoint still is behind. If it returns true,
// new deliveries in the queue are to be given back, and sortUnsaved is to be called.
func (b *backlog) catchUp(m *pageRead, now time.Time) (giveBack bool) {
	if !b.behind {
		return false
	}
	soon := !m.next.IsZero() && m.next.Sub(now) < catchUpSlack
	switch b.more = m.full; {
	case m.full:
		giveBack = b.shut
		b.shut = false
	case b.wanted || len(b.unsaved) > 0 || soon:
		b.shut = true // what is new waits for the rest of it
	default:
		b.behind, b.shut = false, false
	}
	return giveBack
}

// dropReleased forgets the deliveries that were stored while a page was being read.
func (b *backlog) dropReleased() {
	for _, id := range b.released {
		delete(b.held, id)
	}
	b.released = nil
}

// distrust has the page that is being read, if any, read again.
func (b *backlog) distrust() { b.stale = b.reading }

// holds reports whether the queue or the outcomes have a delivery.
func (b *backlog) holds(id signal.DeliveryID) bool {
	_, held := b.held[id]
	return held
}

// drop notes that the state of a delivery was stored.
func (b *backlog) drop(id signal.DeliveryID) {
	if b.reading {
		b.released = append(b.released, id)
	} else {
		delete(b.held, id)
	}
}

// fallBehind notes that Redis may have deliveries that the endpoint does not know. earlier
// says that they may come before those in its queue.
func (b *backlog) fallBehind(earlier bool) {
	b.behind = true
	b.shut = b.shut || earlier
}

// giveBack notes that a delivery is not sent by this actor: it is in Redis, or will be.
func (b *backlog) giveBack(d *item) {
	b.behind = true
	delete(b.held, d.ID)
	d.released.Store(true)
	b.awaitStored(d)
}

// awaitStored notes that d will be stored, if it is not yet.
func (b *backlog) awaitStored(d *item) {
	if _, known := b.unsaved[d.ID]; !known && d.isInFlight() && !d.passed.Load() {
		b.unsaved[d.ID] = false
	}
}

// sortUnsaved has the backlog read when all that was given back so far is stored.
func (b *backlog) sortUnsaved() {
	for id := range b.unsaved {
		b.unsaved[id] = true
	}
	b.unsorted = len(b.unsaved)
}

// noteStored notes that Redis has d as pending, and reports whether it is to be read there.
func (b *backlog) noteStored(d *item) (wanted bool) {
	unsorted, released := b.unsaved[d.ID]
	delete(b.unsaved, d.ID)
	if unsorted {
		b.unsorted--
	}
	if b.holds(d.ID) { // it was read before, if its write was answered with an error
		return released
	}
	b.fallBehind(!released)
	return true
}

// route is what the endpoint is to do with a delivery.
type route byte

const (
	routeSend   route = iota // put it into the queue
	routeKnown               // nothing: it is held already
	routeRead                // nothing: it is, or is being, stored, and is read from there
	routeBack                // give it back: what is before it in Redis was not read yet
	routeBehind              // have it tried behind what Redis has of its signal
)

// routeNew decides on a new delivery. An endpoint that recovers gets at once what has
// nothing before it.
func (b *backlog) routeNew(d *item, recovering func() bool) route {
	switch {
	case d.pending.Load() && b.holds(d.ID):
		return routeKnown
	case d.pending.Load():
		b.fallBehind(true)
		b.awaitStored(d)
		return routeRead
	case b.behind && (b.more || !b.shut) && !(d.begins() && recovering()):
		return routeBack
	}
	b.held[d.ID] = true
	return b.routeRead(d)
}

// routeRead decides on a delivery that is held, such as one that was read from Redis.
func (b *backlog) routeRead(d *item) route {
	if w := b.waits.of[d.signal]; w != nil && b.mustWait(w, d) {
		return routeBehind
	}
	return routeSend
}
