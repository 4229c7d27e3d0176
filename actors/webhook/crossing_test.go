package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestRemovedWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, other := w.register(), w.register()
		w.courier.script(after(10*time.Second, answers200))
		w.start()
		w.emit(20)
		pass(time.Second)
		w.store.remove(id)
		pass(time.Millisecond)
		for _, s := range w.courier.sent(w.url(id)) {
			if !s.cancelled {
				t.Error("a request of a webhook that was removed goes on")
			}
		}
		pass(3 * time.Minute)
		if n := len(w.courier.sent(w.url(id))); n != 8 {
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
		w.courier.script(after(10*time.Second, answers200))
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
		for _, s := range w.courier.sent() {
			if !s.cancelled {
				t.Error("a request of an account that was deleted goes on")
			}
		}
		pass(time.Minute)
		if n := len(w.courier.sent(w.url(id))); n != 8 {
			t.Errorf("%d requests, want 8", n)
		}
	})
}

func TestCancelledByHandWhileInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.courier.script(after(10*time.Second, answers503))
		w.start()
		events := w.emit(2)
		pass(time.Second)
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
		if n := len(w.courier.sent()); n != 3 {
			t.Fatalf("%d attempts, want 3", n)
		}
		w.store.cancel(other)
		pass(time.Second)
		w.store.retry(other)
		pass(time.Hour)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "failed, status 503": 1})
		if n := len(w.courier.sent()); n != 4 {
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
		w.courier.script(after(time.Second, answers200))
		w.start()
		events := w.emit(5)
		pass(500 * time.Millisecond) // one of the five is under way
		underWay := w.courier.sent()[0].Event
		for _, e := range events {
			if e != underWay {
				w.store.cancel(signal.DeliveryIDOf(e, id))
			}
		}
		pass(time.Minute)
		if n := len(w.courier.sent()); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		w.statuses(id, map[string]int{"failed, cancelled": 4, "succeeded": 1})
	})
}

// A delivery may be read from Redis and sent before the endpoint is told of it.
func TestReadBeforeItWasTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.set(func() { w.store.late = slow("StoreDeliveries", 100*time.Millisecond) })
		events := w.emit(1)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		synctest.Wait()
		w.once(id, events) // it is not told yet
		pass(time.Second)
		w.once(id, events)
	})
}

// What is read may be older than an outcome that was stored meanwhile.
func TestDoneWhileAPageIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.courier.script(after(60*time.Millisecond, answers200))
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.set(func() {
			w.store.early = func(op string) time.Duration {
				return slow("DueDeliveries", 50*time.Millisecond)(op) + slow("StoreDeliveries", 10*time.Millisecond)(op)
			}
			w.store.late = slow("DueDeliveries", 100*time.Millisecond)
		})
		events := w.emit(1) // it is under way when Redis reads, and done when the page arrives
		pass(5 * time.Millisecond)
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		pass(time.Second)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 2})
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
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		pass(10 * time.Millisecond)
		w.store.cancel(d)
		pass(time.Second)
		if n := len(w.courier.sent()); n != 1 {
			t.Errorf("%d attempts, want 1: a delivery is sent after it was cancelled", n)
		}
	})
}
