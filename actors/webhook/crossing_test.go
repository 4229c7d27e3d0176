package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestRemovedWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := w.register()
		id := w.serve(after(10*time.Second, answers200))
		w.emit(20)
		pass(time.Second)
		w.store.remove(id)
		pass(time.Millisecond)
		for _, s := range w.sender.sent(w.url(id)) {
			if !s.cancelled {
				t.Error("a request of a removed webhook continues")
			}
		}
		pass(3 * time.Minute)
		w.attempts(8, id)
		if got := w.store.statuses(id); len(got) != 0 {
			t.Errorf("stored %v", got)
		}
		w.statuses(other, map[string]int{"succeeded": 20})
		pass(5 * time.Minute)
		w.endpoints(0)
	})
}

func TestAccountDeletedWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(after(10*time.Second, answers200))
		w.emit(20)
		pass(time.Second)
		w.store.set(func() {
			clear(w.store.webhooks)
			clear(w.store.deliveries)
		})
		w.append(signal.Event{Type: signal.AccountDeleted})
		pass(time.Millisecond)
		w.endpoints(0)
		for _, s := range w.sender.sent() {
			if !s.cancelled {
				t.Error("a request of a deleted account continues")
			}
		}
		pass(time.Minute)
		w.attempts(8, id)
	})
}

func TestCancelledManuallyWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(after(10*time.Second, answers503))
		events := w.emit(2)
		pass(3 * time.Second) // they are stored by now
		d := signal.DeliveryIDOf(events[0], id)
		w.store.cancel(d)
		pass(20 * time.Second)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "pending, status 503": 1})
		if got := w.store.delivery(d); len(got.Attempts) != 0 {
			t.Errorf("stored %+v", got)
		}

		// Cancelled and retried while it is in flight: the manual attempt is made, too.
		other := signal.DeliveryIDOf(events[1], id)
		pass(25 * time.Second) // its first retry is in flight
		w.attempts(3)
		w.store.cancel(other)
		pass(time.Second)
		w.store.retry(other)
		pass(time.Hour)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "failed, status 503": 1})
		w.attempts(4)
	})
}

// A delivery that waits and is cancelled is not sent.
func TestCancelledManuallyWhileItWaits(t *testing.T) {
	inWorldWith(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, w *world) {
		id := w.serve(after(5*time.Second, answers200))
		events := w.emit(5)
		pass(4 * time.Second) // one of the five is in flight, and they are stored
		inFlight := w.sender.sent()[0].Event
		for _, e := range events {
			if e != inFlight {
				w.store.cancel(signal.DeliveryIDOf(e, id))
			}
		}
		pass(time.Minute)
		w.attempts(1)
		w.statuses(id, map[string]int{"failed, cancelled": 4, "succeeded": 1})
	})
}

// A delivery that succeeds at once is stored once, and the position waits for it.
func TestStoredWithItsOutcome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(after(time.Second, answers200))
		before := w.stored()
		events := w.emit(8)
		pass(900 * time.Millisecond)
		w.statuses(id, map[string]int{})
		if got := w.stored(); got != before {
			t.Errorf("stored up to %v, want %v", got, before)
		}
		pass(200 * time.Millisecond)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 8})
		if got, want := w.stored(), w.end(); got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		w.calls("StoreDeliveries", 0)
	})
}

// A delivery whose first attempt takes long is stored meanwhile, and not sent twice; so is
// one that waits for it.
func TestStoredWhileItIsInFlight(t *testing.T) {
	inWorldWith(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, w *world) {
		id := w.serve(after(5*time.Second, answers200))
		events := w.emit(3)
		pass(inFlightFor + 2*inFlightEvery)
		w.statuses(id, map[string]int{"pending": 3})
		if got, want := w.stored(), w.end(); got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 3})
	})
}

// A delivery is stored with the outcome of its first attempt, pending or cancelled, too.
func TestFirstOutcomes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		failing := w.register()
		disabled := w.serve(answers503)
		w.emit(1)
		pass(100 * time.Millisecond)
		w.statuses(failing, map[string]int{"pending, status 503": 1})
		w.store.disable(disabled)
		w.emit(1) // not for it
		pass(time.Second)
		w.statuses(failing, map[string]int{"pending, status 503": 2})
		w.statuses(disabled, map[string]int{"failed, cancelled": 1})
		w.calls("StoreDeliveries", 0)
	})
}

// Deliveries that their endpoint releases before they are stored come back: a manual change
// empties its queue.
func TestReleasedWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(after(100*time.Millisecond, answers200))
		events := w.emit(maxLive + 50)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(forEndpoint{w.account, id, deliveriesChanged{}})
		pass(2 * inFlightEvery)
		if n := w.store.statuses(id)["pending"]; n < len(events)-3*8 {
			t.Errorf("%d are stored, want all but those being sent", n)
		}
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": len(events)})
	})
}

// A page that takes long may contain a delivery that has ended meanwhile as pending.
func TestDoneWhileAPageIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(nil)
		w.emit(1)
		pass(time.Second)
		w.sender.script(after(3*time.Second, answers200))
		delete(w.recorder.tables, w.account)
		w.store.set(func() { // the event is in the log, and not yet passed on, when the read begins
			w.store.early = func(op string) time.Duration {
				return slow("DueDeliveries", 2500*time.Millisecond)(op) + slow("Webhooks", 50*time.Millisecond)(op)
			}
			w.store.late = slow("DueDeliveries", time.Second)
		})
		events := w.emit(1)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(forEndpoint{w.account, id, deliveriesChanged{}})
		pass(4 * time.Second)
		w.store.set(func() { w.store.early, w.store.late = nil, nil })
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 2})
	})
}

// Deliveries may be stored, and read from Redis, before the endpoint is notified of them.
func TestReadBeforeTheNotification(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(nil)
		w.emit(1)
		pass(time.Second)
		w.sender.script(after(time.Second, answers200))
		at := time.Now().Truncate(time.Millisecond)
		event, d := &inFlightEvent{at: at}, w.pendingDelivery(id, at)
		items := []*item{{event: event, PendingDelivery: delivery.PendingDelivery{Delivery: d, Body: []byte("{}")}}}
		event.items = items
		event.count.Store(1)
		w.recorder.inFlight.add([]*inFlightEvent{event})
		w.storeInFlight()
		synctest.Wait()
		w.recorder.parent.Tell(deliveriesMade{byWebhook(items)})
		pass(time.Minute)
		w.once(id, []signal.EventID{d.Event})
	})
}

// A page may be older than a manual change.
func TestCancelledWhileAPageIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(nil)
		w.emit(1)
		pass(time.Second)
		d := w.backlogged(id, 1)[0]
		w.store.set(func() { w.store.late = slow("DueDeliveries", 100*time.Millisecond) })
		w.recorder.parent.Tell(forEndpoint{w.account, id, deliveriesChanged{}})
		pass(10 * time.Millisecond)
		w.store.cancel(d)
		pass(time.Second)
		w.attempts(1) // not of the cancelled delivery
	})
}
