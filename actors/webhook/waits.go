package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// An endpoint receives the events of a signal in order. For those in its queue, chains
// ensure it (chain.go). For those only in Redis there are two rules. A wait records for one
// signal which deliveries Redis has: the one to be retried, and the last of those that wait
// for it. It is stored, so that the next owner continues with it. And while an endpoint is
// behind, it may not know all deliveries in Redis: then new ones are stored, too, and read
// in the order of the events.

// orders reads the waits of webhooks.
type orders interface {
	SignalWaits(ctx context.Context, partition int, webhook signal.WebhookID) ([]delivery.Wait, error)
}

// waitSpread divides the time between two events of a signal that have waited, to get the
// time between their deliveries.
const waitSpread = 256

// waits are the waits of an endpoint.
type waits struct {
	of      map[signal.SignalID]*delivery.Wait
	changed map[signal.SignalID]struct{} // not stored yet
}

func newWaits() waits {
	return waits{map[signal.SignalID]*delivery.Wait{}, map[signal.SignalID]struct{}{}}
}

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

// away reports whether a delivery is only in Redis.
func (b *backlog) away(id signal.DeliveryID) bool { return id != "" && !b.held[id] }

// mustWait reports whether d must wait for a delivery that is only in Redis.
func (b *backlog) mustWait(w *delivery.Wait, d *item) bool {
	if len(d.Attempts) > 0 || d.Single || d.ID == w.Head || d.CreatedAt.Before(w.HeadAt) {
		return false
	}
	if d.event == nil && !d.NextAttemptAt.Before(placeBehind(w, d)) {
		return false // it has its place, and earlier ones were read
	}
	return b.away(w.Head) || b.away(w.Last) || w.Last == d.ID
}

// placeBehind returns when a waiting delivery is due: after the one to be retried, and in
// the order of the events, regardless of when each of them began to wait.
func placeBehind(w *delivery.Wait, d *item) time.Time {
	return w.Due.Add(time.Millisecond + d.CreatedAt.Sub(w.HeadAt)/waitSpread).Truncate(time.Millisecond)
}

// postpone returns the state of d to store, due after the deliveries of its signal in Redis.
func (b *backlog) postpone(d *item) delivery.Delivery {
	w := b.waits.of[d.signal]
	if !d.CreatedAt.Before(w.LastAt) || !b.away(w.Last) {
		w.Last, w.LastAt = d.ID, d.CreatedAt
		b.waits.set(w)
	}
	b.held[d.ID] = false
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
func (b *backlog) tried(d *item, after *delivery.Delivery, now time.Time, orderWait time.Duration) (holdsUp bool) {
	if d.signal == "" {
		return false
	}
	w := b.waits.of[d.signal]
	if w != nil && w.Last == d.ID { // it waits no longer
		w.Last = ""
		b.waits.set(w)
	}
	if after.Status == delivery.Pending {
		b.held[d.ID] = false
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
			b.waits.set(w)
			return true
		}
	}
	if w != nil && w.Head == d.ID {
		w.Head = ""
		b.waits.set(w)
	}
	return false
}
