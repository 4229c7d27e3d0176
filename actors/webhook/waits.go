package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// An endpoint gets the events of a signal in their order. For those in its queue, chains
// see to that (chain.go). For those that are only in Redis there are two rules. A wait
// records for one signal what Redis has of it: the delivery to be retried, and the last of
// those that wait for it. It is stored, so that the next owner goes on with it. And an
// endpoint that is behind may not know all that Redis has: then new deliveries go there,
// too, and are read in the order of the events.

// orders keeps the waits of webhooks.
type orders interface {
	SignalWaits(ctx context.Context, partition int, webhook signal.WebhookID) ([]delivery.Wait, error)
}

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

// set notes that w has changed. One that nothing waits for is forgotten.
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

// away reports whether a delivery is neither in the queue nor under way.
func (b *backlog) away(id signal.DeliveryID) bool { return id != "" && !b.held[id] }

// mustWait reports whether d, which was not tried yet, waits for what is only in Redis.
func (b *backlog) mustWait(w *delivery.Wait, d *item) bool {
	if len(d.Attempts) > 0 || d.Single || d.ID == w.Head || d.CreatedAt.Before(w.HeadAt) {
		return false
	}
	if d.event == nil && !d.NextAttemptAt.Before(placeBehind(w, d)) {
		return false // it stands where it belongs, and what comes before it was read
	}
	return b.away(w.Head) || b.away(w.Last) || w.Last == d.ID
}

// placeBehind returns when a delivery that waits is due: behind the one that is tried
// again, and in the order of the events, whenever each of them is found to wait.
func placeBehind(w *delivery.Wait, d *item) time.Time {
	return w.Due.Add(time.Millisecond + d.CreatedAt.Sub(w.HeadAt)/waitSpread).Truncate(time.Millisecond)
}

// postpone returns d as it is to be stored, tried after what Redis has of its signal.
func (b *backlog) postpone(d *item) delivery.Delivery {
	w := b.waits.of[d.signal]
	if !d.CreatedAt.Before(w.LastAt) || !b.away(w.Last) {
		w.Last, w.LastAt = d.ID, d.CreatedAt
		b.waits.set(w)
	}
	b.held[d.ID] = false
	put := d.Delivery
	put.WasDueAt, put.NextAttemptAt = d.NextAttemptAt, later(d.NextAttemptAt, placeBehind(w, d))
	return put
}

// tried notes that an attempt of d has ended, after which it is in the state after. It
// reports whether those behind it are to wait for its next attempt, at most for orderWait
// after the first one.
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
			w.Head, w.HeadAt, w.Due = d.ID, d.CreatedAt, sooner(after.NextAttemptAt, until)
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
