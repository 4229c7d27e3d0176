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
		id, other := w.register(), w.register()
		w.sender.script(after(10*time.Second, answers200))
		w.start()
		w.emit(20)
		pass(time.Second)
		w.store.remove(id)
		pass(time.Millisecond)
		for _, s := range w.sender.sent(w.url(id)) {
			if !s.cancelled {
				t.Error("a request of a webhook that was removed goes on")
			}
		}
		pass(3 * time.Minute)
		if n := len(w.sender.sent(w.url(id))); n != 8 {
			t.Errorf("%d requests, want 8", n)
		}
		if got := w.store.statuses(id); len(got) != 0 {
			t.Errorf("stored %v", got)
		}
		w.statuses(other, map[string]int{"succeeded": 20})
		pass(5 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor", n)
		}
	})
}

func TestAccountDeletedWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(10*time.Second, answers200))
		w.start()
		w.emit(20)
		pass(time.Second)
		w.store.set(func() {
			clear(w.store.webhooks)
			clear(w.store.deliveries)
			w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.AccountDeleted})
		})
		pass(time.Millisecond)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor", n)
		}
		for _, s := range w.sender.sent() {
			if !s.cancelled {
				t.Error("a request of an account that was deleted goes on")
			}
		}
		pass(time.Minute)
		if n := len(w.sender.sent(w.url(id))); n != 8 {
			t.Errorf("%d requests, want 8", n)
		}
	})
}

func TestCancelledByHandWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(10*time.Second, answers503))
		w.start()
		events := w.emit(2)
		pass(3 * time.Second) // they are stored by now
		d := signal.DeliveryIDOf(events[0], id)
		w.store.cancel(d)
		pass(20 * time.Second)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "pending, status 503": 1})
		if got := w.store.delivery(d); len(got.Attempts) != 0 {
			t.Errorf("stored %+v", got)
		}

		// Cancelled and retried while it is in flight: the attempt by hand is made, too.
		other := signal.DeliveryIDOf(events[1], id)
		pass(25 * time.Second) // its first retry is under way
		if n := len(w.sender.sent()); n != 3 {
			t.Fatalf("%d attempts, want 3", n)
		}
		w.store.cancel(other)
		pass(time.Second)
		w.store.retry(other)
		pass(time.Hour)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "failed, status 503": 1})
		if n := len(w.sender.sent()); n != 4 {
			t.Errorf("%d attempts, want one more", n-3)
		}
	})
}

// A delivery that waits and is cancelled is not sent.
func TestCancelledByHandWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Concurrency = 1 })
		id := w.register()
		w.sender.script(after(5*time.Second, answers200))
		w.start()
		events := w.emit(5)
		pass(4 * time.Second) // one of the five is under way, and they are stored
		underWay := w.sender.sent()[0].Event
		for _, e := range events {
			if e != underWay {
				w.store.cancel(signal.DeliveryIDOf(e, id))
			}
		}
		pass(time.Minute)
		if n := len(w.sender.sent()); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		w.statuses(id, map[string]int{"failed, cancelled": 4, "succeeded": 1})
	})
}

// A delivery that succeeds at once is stored once, and the position waits for it.
func TestStoredWithItsOutcome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(time.Second, answers200))
		w.start()
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
		if got, want := w.stored(), w.store.log[len(w.store.log)-1].Position; got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		if n := w.store.count("StoreDeliveries"); n != 0 {
			t.Errorf("deliveries were stored %d times besides", n)
		}
	})
}

// One whose first attempt takes long is stored meanwhile, and not sent again for that;
// so is one that waits behind it.
func TestStoredWhileItIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Concurrency = 1 })
		id := w.register()
		w.sender.script(after(5*time.Second, answers200))
		w.start()
		events := w.emit(3)
		pass(inFlightFor + 2*inFlightEvery)
		w.statuses(id, map[string]int{"pending": 3})
		if got, want := w.stored(), w.store.log[len(w.store.log)-1].Position; got != want {
			t.Errorf("stored up to %v, want %v", got, want)
		}
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 3})
	})
}

// What a first attempt leaves of a delivery is stored with it, whatever that is.
func TestFirstOutcomes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		failing, disabled := w.register(), w.register()
		w.sender.script(answers503)
		w.start()
		w.emit(1)
		pass(100 * time.Millisecond)
		w.statuses(failing, map[string]int{"pending, status 503": 1})
		w.store.disable(disabled)
		w.emit(1) // not for it
		pass(time.Second)
		w.statuses(failing, map[string]int{"pending, status 503": 2})
		w.statuses(disabled, map[string]int{"failed, cancelled": 1})
		if n := w.store.count("StoreDeliveries"); n != 0 {
			t.Errorf("deliveries were stored %d times besides", n)
		}
	})
}

// Deliveries that their endpoint gives up before they are stored come back: a change
// by hand has it empty its queue, and it has room for so many.
func TestGivenUpWhileOpen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(100*time.Millisecond, answers200))
		w.start()
		events := w.emit(maxLive + 50)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(webhookDeliveriesChanged{w.account, id})
		pass(2 * inFlightEvery)
		if n := w.store.statuses(id)["pending"]; n < len(events)-3*8 {
			t.Errorf("%d are stored, want all but those under way", n)
		}
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": len(events)})
	})
}

// A page that takes long may show a delivery that was stored as pending and has ended
// since it was asked for.
func TestDoneWhileAPageIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		w.sender.script(after(3*time.Second, answers200))
		w.recorder.forget(w.account)
		w.store.set(func() { // the event is in the log, and not yet told, when the page is asked for
			w.store.early = func(op string) time.Duration {
				return slow("DueDeliveries", 2500*time.Millisecond)(op) + slow("Webhooks", 50*time.Millisecond)(op)
			}
			w.store.late = slow("DueDeliveries", time.Second)
		})
		events := w.emit(1)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(webhookDeliveriesChanged{w.account, id})
		pass(4 * time.Second)
		w.store.set(func() { w.store.early, w.store.late = nil, nil })
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 2})
	})
}

// Deliveries may be stored, and read from Redis, before the endpoint is told of them.
func TestReadBeforeItWasTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		w.sender.script(after(time.Second, answers200))
		at := time.Now().Truncate(time.Millisecond)
		event := &inFlightEvent{at: at}
		d := delivery.Delivery{ID: signal.NewDeliveryID(), Webhook: id, Account: w.account, Event: signal.NewEventID(), Type: signal.SignalCreated,
			Status: delivery.Pending, CreatedAt: at, NextAttemptAt: at}
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

// What is read may be older than a change by hand.
func TestCancelledWhileAPageIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		d := w.backlogged(id, 1)[0]
		w.store.set(func() { w.store.late = slow("DueDeliveries", 100*time.Millisecond) })
		w.recorder.parent.Tell(webhookDeliveriesChanged{w.account, id})
		pass(10 * time.Millisecond)
		w.store.cancel(d)
		pass(time.Second)
		if n := len(w.sender.sent()); n != 1 {
			t.Errorf("%d attempts, want 1: a delivery is sent after it was cancelled", n)
		}
	})
}
