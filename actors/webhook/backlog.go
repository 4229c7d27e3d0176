package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// backlogs reads the pending deliveries of webhooks.
type backlogs interface {
	// DueDeliveries returns pending deliveries that are due at until, the oldest first,
	// without those in except. next is the time of the first later one, or zero.
	DueDeliveries(ctx context.Context, partition int, account signal.AccountID, webhook signal.WebhookID,
		until time.Time, limit int, except map[signal.DeliveryID]bool) (
		due []delivery.PendingDelivery, next time.Time, err error)
}

// waitSpread divides the time between two events of a signal that have waited, to get the
// time between their deliveries.
const waitSpread = 256

// catchUpSlack is how soon the next delivery must be due for the backlog to need another
// page. The clock of Redis is only estimated here.
const catchUpSlack = 150 * time.Millisecond

// searchDue is sent when a delivery is due in Redis.
type searchDue struct{}

// pageRead is a page of the backlog.
type pageRead struct {
	due  []delivery.PendingDelivery
	full bool // there may be more
	next time.Time
	err  error
}

// backlog tracks the deliveries that an endpoint has in Redis only. It decides when to read
// a page, and which new deliveries must not overtake those in Redis. A page is read when
// the queue runs low and there is more, and when something new is due. Every read begins at
// the oldest delivery and leaves out held ones, so none is skipped.
type backlog struct {
	// held are the deliveries in the queue or in the outcomes; false for those that go back
	// to Redis to be retried.
	held  map[signal.DeliveryID]bool
	waits waits

	o       *owned
	account signal.AccountID
	webhook signal.WebhookID
	timer   engine.Timer // of the next read

	wanted  bool // deliveries may be due that are not held
	reading bool
	stale   bool // the page being read must not be used
	// released are deliveries that were stored while a page was being read. The page may
	// contain their former state.
	released []signal.DeliveryID
	due      time.Time // when the endpoint reads again, or zero
	failed   backoff.Backoff

	behind bool // Redis may have due deliveries that are not held
	more   bool // the last read left some of them
	shut   bool // new deliveries wait in the queue, because Redis may have earlier ones
	// unsaved are the deliveries that were given back before they were stored, until they
	// are stored. Redis may have later ones than those that are true; unsorted counts these.
	unsaved  map[signal.DeliveryID]bool
	unsorted int
}

func newBacklog(o *owned, account signal.AccountID, webhook signal.WebhookID) backlog {
	held := map[signal.DeliveryID]bool{}
	return backlog{
		held:    held,
		waits:   newWaits(held),
		o:       o,
		account: account,
		webhook: webhook,
		wanted:  true,
		behind:  true,
		shut:    true,
		unsaved: map[signal.DeliveryID]bool{},
	}
}

// idle reports whether no read is due within the window of the parent's scan.
func (b *backlog) idle(now time.Time) bool {
	return !b.wanted && !b.reading && (b.due.IsZero() || b.due.Sub(now) > window)
}

// readAt has the endpoint search at a time, unless that is zero or it does so sooner.
func (b *backlog) readAt(c engine.Context, at time.Time) {
	if at.IsZero() || !b.due.IsZero() && !at.Before(b.due) {
		return
	}
	b.due = at
	b.timer.Stop()
	// The store's times are whole milliseconds.
	b.timer = c.After(b.o.in(at)+time.Millisecond, searchDue{})
}

// read reads a page of the deliveries that are due at until, without held ones, if one is wanted and no other is
// being read.
func (b *backlog) read(c engine.Context, until time.Time) {
	if !b.wanted || b.reading || b.unsorted > 0 {
		return
	}
	b.wanted, b.reading = false, true
	except := make(map[signal.DeliveryID]bool, len(b.held))
	for id := range b.held {
		except[id] = true
	}
	o, account, id := b.o, b.account, b.webhook
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		due, next, err := o.store.DueDeliveries(ctx, o.Partition, account, id, until, maxBacklog, except)
		return pageRead{due, len(due) == maxBacklog, next, err}
	})
}

// endRead records that a page was read, and reports whether it is valid or must be read again.
func (b *backlog) endRead() bool {
	b.reading = false
	if b.stale {
		b.stale, b.wanted = false, true
		b.dropReleased()
		return false
	}
	return true
}

// fail records that a page was not readable, and returns the pause before the next try.
func (b *backlog) fail() time.Duration {
	b.wanted = true
	b.dropReleased()
	return b.failed.Next()
}

// addPage marks the deliveries of a page as held, and returns those that were not held yet.
func (b *backlog) addPage(m *pageRead) (items []*item) {
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
		// A copy, so that one delivery does not keep the page in memory.
		items = append(items, &item{PendingDelivery: d, signal: signalOf(d.Type, d.Body)})
	}
	b.dropReleased()
	return items
}

// wholeMillis returns the deliveries of a full page without those of its last millisecond,
// which may be incomplete: the next page has them all, in the order of their events.
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

// catchUp decides after a page whether the endpoint is still behind. If it returns true,
// the caller must give back new deliveries in the queue, and call sortUnsaved.
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
		b.shut = true // new deliveries wait for the rest
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

// invalidate causes a page that is being read to be read again.
func (b *backlog) invalidate() { b.stale = b.reading }

// holds reports whether the queue or the outcomes have a delivery.
func (b *backlog) holds(id signal.DeliveryID) bool {
	_, held := b.held[id]
	return held
}

// drop records that the state of a delivery was stored.
func (b *backlog) drop(id signal.DeliveryID) {
	if b.reading {
		b.released = append(b.released, id)
	} else {
		delete(b.held, id)
	}
}

// fallBehind records that Redis may have deliveries unknown to the endpoint, which may be
// earlier than those in its queue.
func (b *backlog) fallBehind(earlier bool) {
	b.behind = true
	b.shut = b.shut || earlier
}

// giveBack releases a delivery that this actor does not send. It is in Redis, or will be.
func (b *backlog) giveBack(d *item) {
	b.behind = true
	delete(b.held, d.ID)
	d.released.Store(true)
	b.awaitStored(d)
}

// awaitStored records that d will be stored, unless it is already.
func (b *backlog) awaitStored(d *item) {
	if _, known := b.unsaved[d.ID]; !known && d.isInFlight() && !d.passed.Load() {
		b.unsaved[d.ID] = false
	}
}

// sortUnsaved delays reads until all deliveries given back so far are stored.
func (b *backlog) sortUnsaved() {
	for id := range b.unsaved {
		b.unsaved[id] = true
	}
	b.unsorted = len(b.unsaved)
}

// noteStored records that Redis has d as pending, and reports whether to read it from there.
func (b *backlog) noteStored(d *item) (wanted bool) {
	unsorted, released := b.unsaved[d.ID]
	delete(b.unsaved, d.ID)
	if unsorted {
		b.unsorted--
	}
	if b.holds(d.ID) { // it may have been read already, after a write whose answer was lost
		return released
	}
	b.fallBehind(!released)
	return true
}

// route is what the endpoint must do with a delivery.
type route byte

const (
	routeSend   route = iota // put it into the queue
	routeKnown               // nothing: it is already held
	routeRead                // nothing: it is stored, or being stored, and will be read
	routeBack                // give it back: earlier ones in Redis were not read yet
	routeBehind              // send it after those of its signal in Redis
)

// routeNew decides on a new delivery. A recovering endpoint sends those at once that have
// no earlier ones.
func (b *backlog) routeNew(d *item, recovering func() bool) route {
	switch {
	case d.pending.Load() && b.holds(d.ID):
		return routeKnown
	case d.pending.Load():
		b.fallBehind(true)
		b.awaitStored(d)
		return routeRead
	case b.behind && (b.more || !b.shut) && !(d.isFirst() && recovering()):
		return routeBack
	}
	b.held[d.ID] = true
	if b.waits.mustWait(d) {
		return routeBehind
	}
	return routeSend
}

// waits are the waits of an endpoint, which receives the events of a signal in order. For those in its queue, chains
// ensure it (order.go). For those only in Redis there are two rules. A wait records for one
// signal which deliveries Redis has: the one to be retried, and the last of those that wait
// for it. It is stored, so that the next owner continues with it. And while an endpoint is
// behind, it may not know all deliveries in Redis: then new ones are stored, too, and read
// in the order of the events.
type waits struct {
	of      map[signal.SignalID]*delivery.Wait
	changed map[signal.SignalID]struct{} // not stored yet
	held    map[signal.DeliveryID]bool   // of the backlog
}

func newWaits(held map[signal.DeliveryID]bool) waits {
	return waits{map[signal.SignalID]*delivery.Wait{}, map[signal.SignalID]struct{}{}, held}
}

// add adds the waits of an earlier owner.
func (s *waits) add(list []delivery.Wait) {
	for _, w := range list {
		s.of[w.Signal] = &w
	}
}

// away reports whether a delivery is only in Redis.
func (s *waits) away(id signal.DeliveryID) bool { return id != "" && !s.held[id] }

// set records that w has changed, and drops it if it is empty.
func (s *waits) set(w *delivery.Wait) {
	s.changed[w.Signal] = struct{}{}
	if w.Head == "" && w.Last == "" {
		delete(s.of, w.Signal)
	} else {
		s.of[w.Signal] = w
	}
}

// collect returns the waits that have changed since the last call, for a write.
func (s *waits) collect() (list []delivery.Wait) {
	for id := range s.changed {
		if w := s.of[id]; w != nil {
			list = append(list, *w)
		} else {
			list = append(list, delivery.Wait{Signal: id})
		}
	}
	clear(s.changed)
	return list
}

// forget drops the waits for deliveries due until then.
func (s *waits) forget(then time.Time) {
	for _, w := range s.of {
		if !w.Due.After(then) {
			w.Head, w.Last = "", ""
			s.set(w)
		}
	}
}

// mustWait reports whether d must wait for a delivery of its signal that is only in Redis.
func (s *waits) mustWait(d *item) bool {
	w := s.of[d.signal]
	if w == nil || len(d.Attempts) > 0 || d.Single || d.ID == w.Head || d.CreatedAt.Before(w.HeadAt) {
		return false
	}
	if d.event == nil && !d.NextAttemptAt.Before(placeBehind(w, d)) {
		return false // it has its place, and earlier ones were read
	}
	return s.away(w.Head) || s.away(w.Last) || w.Last == d.ID
}

// placeBehind returns when a waiting delivery is due: after the one to be retried, and in
// the order of the events, regardless of when each of them began to wait.
func placeBehind(w *delivery.Wait, d *item) time.Time {
	return w.Due.Add(time.Millisecond + d.CreatedAt.Sub(w.HeadAt)/waitSpread).Truncate(time.Millisecond)
}

// postpone returns the state of d to store, due after the deliveries of its signal in Redis.
func (s *waits) postpone(d *item) delivery.Delivery {
	w := s.of[d.signal]
	if !d.CreatedAt.Before(w.LastAt) || !s.away(w.Last) {
		w.Last, w.LastAt = d.ID, d.CreatedAt
		s.set(w)
	}
	s.held[d.ID] = false
	put := d.Delivery
	put.WasDueAt, put.NextAttemptAt = d.NextAttemptAt, placeBehind(w, d)
	if put.NextAttemptAt.Before(d.NextAttemptAt) {
		put.NextAttemptAt = d.NextAttemptAt
	}
	return put
}

// tried records that an attempt of d has ended with the state after. It reports whether the
// later deliveries of its signal must wait for the next attempt, at most for orderWait after
// the first one.
func (s *waits) tried(d *item, after *delivery.Delivery, now time.Time, orderWait time.Duration) (holdsUp bool) {
	if d.signal == "" {
		return false
	}
	w := s.of[d.signal]
	if w != nil && w.Last == d.ID { // it waits no longer
		w.Last = ""
		s.set(w)
	}
	if after.Status == delivery.Pending {
		s.held[d.ID] = false
		first := after.Attempts[0]
		until := first.At.Add(first.Duration + orderWait)
		if first.Number == 1 && now.Before(until) {
			if w == nil {
				w = &delivery.Wait{Signal: d.signal}
			}
			w.Head, w.HeadAt, w.Due = d.ID, d.CreatedAt, after.NextAttemptAt
			if until.Before(w.Due) {
				w.Due = until
			}
			s.set(w)
			return true
		}
	}
	if w != nil && w.Head == d.ID {
		w.Head = ""
		s.set(w)
	}
	return false
}
