package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// An endpoint gets the events of a signal in their order, as far as its queue holds
// them by chains (chain.go). What is only in Redis is known by two things. A wait says
// of one signal what of it is there: a delivery to be retried, which those behind it
// wait for, and such as wait. It is stored, so that the next owner goes on with it. And
// an endpoint that is behind may not know all that Redis has: then what is new goes
// there, too, and is read in the order of the events.

// orders keeps the waits of webhooks.
type orders interface {
	SignalWaits(ctx context.Context, partition int, webhook signal.WebhookID) ([]delivery.Wait, error)
}

// catchUpSlack is how soon something may be due at which a page of the backlog was not
// the last one: times of Redis are estimated, and pages with faults are read again.
const catchUpSlack = 150 * time.Millisecond

// waitSpread is how much closer to each other events of a signal are sent, after they
// have waited, than they happened.
const waitSpread = 256

// waits are those of an endpoint.
type waits struct {
	of      map[signal.SignalID]*delivery.Wait
	changed map[signal.SignalID]struct{} // not stored yet
}

func newWaits() waits {
	return waits{map[signal.SignalID]*delivery.Wait{}, map[signal.SignalID]struct{}{}}
}

// set notes that w has changed. One that holds nobody up is forgotten.
func (s *waits) set(w *delivery.Wait) {
	s.changed[w.Signal] = struct{}{}
	if w.Head == "" && w.Last == "" {
		delete(s.of, w.Signal)
	} else {
		s.of[w.Signal] = w
	}
}

// take returns the waits that have changed since the last call, to be stored.
func (s *waits) take() (list []delivery.Wait) {
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

// forget forgets the waits that were for deliveries due until then.
func (s *waits) forget(then time.Time) {
	for _, w := range s.of {
		if !w.Due.After(then) {
			w.Head, w.Last = "", ""
			s.set(w)
		}
	}
}

// arrive takes a new delivery over, unless it is to wait for what Redis has of its
// signal.
func (e *endpoint) arrive(d *item) bool {
	w := e.order.of[d.signal]
	if w == nil || !e.holds(w, d) {
		return true
	}
	e.putBehind(d, w)
	return false
}

// admit takes deliveries over that were read from Redis, but for those that are to wait.
func (e *endpoint) admit(page []*item) (items []*item) {
	for _, d := range page {
		if w := e.order.of[d.signal]; w == nil || !e.holds(w, d) {
			items = append(items, d)
		} else {
			e.postpone(d, w)
		}
	}
	return items
}

// away reports whether a delivery is not in the queue, or under way.
func (e *endpoint) away(id signal.DeliveryID) bool { return id != "" && !e.held[id] }

// holds reports whether d, which was not tried yet, waits for what is only in Redis.
func (e *endpoint) holds(w *delivery.Wait, d *item) bool {
	if len(d.Attempts) > 0 || d.Single || d.ID == w.Head || d.CreatedAt.Before(w.HeadAt) {
		return false
	}
	if d.event == nil && !d.NextAttemptAt.Before(placeBehind(w, d)) {
		return false // it stands where it belongs, and what comes before it was read
	}
	return e.away(w.Head) || e.away(w.Last) || w.Last == d.ID
}

// placeBehind returns when a delivery that waits is due: behind the one that is tried
// again, and in the order of the events, whenever each of them is found to wait.
func placeBehind(w *delivery.Wait, d *item) time.Time {
	return w.Due.Add(time.Millisecond + d.CreatedAt.Sub(w.HeadAt)/waitSpread).Truncate(time.Millisecond)
}

// putBehind has d sent after what Redis has of its signal. As long as not all of that is
// known, it goes there as it is, and gets its place when it is read. So does what there
// is no room for.
func (e *endpoint) putBehind(d *item, w *delivery.Wait) {
	if e.behind || len(d.Attempts) > 0 || d.isOpen() && e.o.recorder.counts.take(e.account, 1) == 0 {
		e.release([]*item{d})
	} else {
		e.postpone(d, w)
	}
}

// postpone has d tried after what Redis has of its signal.
func (e *endpoint) postpone(d *item, w *delivery.Wait) {
	if !d.CreatedAt.Before(w.LastAt) || !e.away(w.Last) {
		w.Last, w.LastAt = d.ID, d.CreatedAt
		e.order.set(w)
	}
	put := d.Delivery
	put.WasDueAt, put.NextAttemptAt = d.NextAttemptAt, later(d.NextAttemptAt, placeBehind(w, d))
	e.report.waiting.outcomes = append(e.report.waiting.outcomes, outcome{put, d})
	e.held[d.ID] = false
	e.queue.settle(-1)
}

// tried says what becomes of the deliveries behind one that was tried, and is in the
// state after now.
func (e *endpoint) tried(d *item, after *delivery.Delivery, success bool) {
	if d.signal == "" {
		return
	}
	w := e.order.of[d.signal]
	if w != nil && w.Last == d.ID { // it waits no longer
		w.Last = ""
		e.order.set(w)
	}
	if after.Status == delivery.Pending {
		e.held[d.ID] = false
		first := after.Attempts[0]
		until := first.At.Add(first.Duration + e.o.options.OrderWait)
		if first.Number == 1 && e.o.now().Before(until) {
			if w == nil {
				w = &delivery.Wait{Signal: d.signal}
			}
			w.Head, w.HeadAt, w.Due = d.ID, d.CreatedAt, sooner(after.NextAttemptAt, until)
			e.order.set(w)
			for _, next := range e.queue.holdUp(d) {
				e.putBehind(next, w)
			}
			return
		}
	}
	if !success { // else the queue went on at once
		e.queue.over(d)
	}
	if w != nil && w.Head == d.ID {
		w.Head = ""
		e.order.set(w)
	}
}

// fallBehind notes that Redis may have deliveries that the endpoint does not know.
// earlier says that they may come before those in its queue.
func (e *endpoint) fallBehind(earlier bool) {
	e.behind = true
	if earlier {
		e.setShut(true)
	}
}

func (e *endpoint) setShut(shut bool) {
	e.shut = shut
	e.queue.setShut(shut)
}

// catchUp goes on after a page of the backlog was read.
func (e *endpoint) catchUp(m *pageRead) {
	if !e.behind {
		return
	}
	soon := !m.next.IsZero() && m.next.Sub(e.o.now()) < catchUpSlack
	switch e.more = m.full; {
	case m.full:
		if e.shut {
			e.release(e.queue.dropLive())
			e.sortUnread()
			e.setShut(false)
		}
	case e.backlog.wanted || len(e.unread) > 0 || soon:
		e.setShut(true) // what is new waits for the rest of it
	default:
		e.behind = false
		e.setShut(false)
	}
}

// sortUnread has the backlog read when all that was given up so far is stored.
func (e *endpoint) sortUnread() {
	for id := range e.unread {
		e.unread[id] = true
	}
	e.unsorted = len(e.unread)
}

// goesBack reports whether a new delivery goes through Redis because the endpoint is
// behind. One that recovers gets at once what has nothing before it.
func (e *endpoint) goesBack(d *item) bool {
	return e.behind && (e.more || !e.shut) && !(d.begins() && e.queue.recovering())
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
