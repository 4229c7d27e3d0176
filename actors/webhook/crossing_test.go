package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestRemovedWhileInFlight(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		other := h.register()
		id := h.serve(after(10*time.Second, answers200))
		h.emit(20)
		pass(time.Second)
		h.store.remove(id)
		pass(time.Millisecond)
		for _, s := range h.sender.sent(h.url(id)) {
			if !s.cancelled {
				t.Error("a request of a removed webhook continues")
			}
		}
		pass(3 * time.Minute)
		h.attempts(8, id)
		if got := h.store.statuses(id); len(got) != 0 {
			t.Errorf("stored %v", got)
		}
		h.statuses(other, map[string]int{"succeeded": 20})
		pass(5 * time.Minute)
		h.endpoints(0)
	})
}

func TestAccountDeletedWhileInFlight(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(10*time.Second, answers200))
		h.emit(20)
		pass(time.Second)
		h.store.set(func() {
			clear(h.store.webhooks)
			clear(h.store.deliveries)
		})
		h.append(signal.Event{Type: signal.AccountDeleted})
		pass(time.Millisecond)
		h.endpoints(0)
		for _, s := range h.sender.sent() {
			if !s.cancelled {
				t.Error("a request of a deleted account continues")
			}
		}
		pass(time.Minute)
		h.attempts(8, id)
	})
}

func TestCancelledManuallyWhileInFlight(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(10*time.Second, answers503))
		events := h.emit(2)
		pass(3 * time.Second) // they are stored by now
		d := signal.DeliveryIDOf(events[0], id)
		h.store.cancel(d)
		pass(20 * time.Second)
		h.statuses(id, map[string]int{"failed, cancelled": 1, "pending, status 503": 1})
		if got := h.store.delivery(d); len(got.Attempts) != 0 {
			t.Errorf("stored %+v", got)
		}

		// Cancelled and retried while it is in flight: the manual attempt is made, too.
		other := signal.DeliveryIDOf(events[1], id)
		pass(25 * time.Second) // its first retry is in flight
		h.attempts(3)
		h.store.cancel(other)
		pass(time.Second)
		h.store.retry(other)
		pass(time.Hour)
		h.statuses(id, map[string]int{"failed, cancelled": 1, "failed, status 503": 1})
		h.attempts(4)
	})
}

// A delivery that waits and is cancelled is not sent.
func TestCancelledManuallyWhileItWaits(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, h *harness) {
		id := h.serve(after(5*time.Second, answers200))
		events := h.emit(5)
		pass(4 * time.Second) // one of the five is in flight, and they are stored
		inFlight := h.sender.sent()[0].Event
		for _, e := range events {
			if e != inFlight {
				h.store.cancel(signal.DeliveryIDOf(e, id))
			}
		}
		pass(time.Minute)
		h.attempts(1)
		h.statuses(id, map[string]int{"failed, cancelled": 4, "succeeded": 1})
	})
}

// A delivery that succeeds at once is stored once, and the position waits for it.
func TestStoredWithItsOutcome(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(time.Second, answers200))
		before := h.stored()
		events := h.emit(8)
		pass(900 * time.Millisecond)
		h.statuses(id, map[string]int{})
		if got := h.stored(); got != before {
			t.Errorf("stored up to %v, want %v", got, before)
		}
		pass(200 * time.Millisecond)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": 8})
		if got, want := h.stored(), h.end(); got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		h.calls("StoreDeliveries", 0)
	})
}

// A delivery whose first attempt takes long is stored meanwhile, and not sent twice; so is
// one that waits for it.
func TestStoredWhileItIsInFlight(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, h *harness) {
		id := h.serve(after(5*time.Second, answers200))
		events := h.emit(3)
		pass(inFlightFor + 2*inFlightEvery)
		h.statuses(id, map[string]int{"pending": 3})
		if got, want := h.stored(), h.end(); got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		pass(time.Minute)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": 3})
	})
}

// A delivery is stored with the outcome of its first attempt, pending or cancelled, too.
func TestFirstOutcomes(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		failing := h.register()
		disabled := h.serve(answers503)
		h.emit(1)
		pass(100 * time.Millisecond)
		h.statuses(failing, map[string]int{"pending, status 503": 1})
		h.store.disable(disabled)
		h.emit(1) // not for it
		pass(time.Second)
		h.statuses(failing, map[string]int{"pending, status 503": 2})
		h.statuses(disabled, map[string]int{"failed, cancelled": 1})
		h.calls("StoreDeliveries", 0)
	})
}

// Deliveries that their endpoint releases before they are stored come back: a manual change
// empties its queue.
func TestReleasedWhileInFlight(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(100*time.Millisecond, answers200))
		events := h.emit(maxLive + 50)
		pass(10 * time.Millisecond)
		h.recorder.parent.Tell(forEndpoint{h.account, id, deliveriesChanged{}})
		pass(2 * inFlightEvery)
		if n := h.store.statuses(id)["pending"]; n < len(events)-3*8 {
			t.Errorf("%d are stored, want all but those being sent", n)
		}
		pass(time.Minute)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": len(events)})
	})
}

// A page that takes long may contain a delivery that has ended meanwhile as pending.
func TestDoneWhileAPageIsRead(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.emit(1)
		pass(time.Second)
		h.sender.script(after(3*time.Second, answers200))
		delete(h.recorder.tables, h.account)
		h.store.set(func() { // the event is in the log, and not yet passed on, when the read begins
			h.store.early = func(op string) time.Duration {
				return slow("DueDeliveries", 2500*time.Millisecond)(op) + slow("Webhooks", 50*time.Millisecond)(op)
			}
			h.store.late = slow("DueDeliveries", time.Second)
		})
		events := h.emit(1)
		pass(10 * time.Millisecond)
		h.recorder.parent.Tell(forEndpoint{h.account, id, deliveriesChanged{}})
		pass(4 * time.Second)
		h.store.set(func() { h.store.early, h.store.late = nil, nil })
		pass(time.Minute)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": 2})
	})
}

// Deliveries may be stored, and read from Redis, before the endpoint is notified of them.
func TestReadBeforeTheNotification(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.emit(1)
		pass(time.Second)
		h.sender.script(after(time.Second, answers200))
		at := time.Now().Truncate(time.Millisecond)
		event, d := &inFlightEvent{at: at}, h.pendingDelivery(id, at)
		items := []*item{{event: event, PendingDelivery: delivery.PendingDelivery{Delivery: d, Body: []byte("{}")}}}
		event.items = items
		event.count.Store(1)
		h.recorder.inFlight.add([]*inFlightEvent{event})
		h.storeInFlight()
		synctest.Wait()
		h.recorder.parent.Tell(deliveriesMade{byWebhook(items)})
		pass(time.Minute)
		h.once(id, []signal.EventID{d.Event})
	})
}

// A page may be older than a manual change.
func TestCancelledWhileAPageIsRead(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.emit(1)
		pass(time.Second)
		d := h.backlogged(id, 1)[0]
		h.store.set(func() { h.store.late = slow("DueDeliveries", 100*time.Millisecond) })
		h.recorder.parent.Tell(forEndpoint{h.account, id, deliveriesChanged{}})
		pass(10 * time.Millisecond)
		h.store.cancel(d)
		pass(time.Second)
		h.attempts(1) // not of the cancelled delivery
	})
}
