package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// What was sent is stored when the owner stops, even if its write has just failed and
// waits to be tried again: nothing of it is sent twice.
func TestAFailedWriteIsMadeAtTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		failed := false
		w.store.set(func() {
			w.store.fail = func(op string) (error, bool) {
				if op == "StoreOutcomes" && !failed {
					failed = true
					return errDown, false
				}
				return nil, false
			}
		})
		events := w.emit(5)
		synctest.Wait()
		if !failed {
			t.Fatal("no write has failed")
		}
		next := w.takeOver(false)
		pass(time.Minute)
		next.statuses(id, map[string]int{"succeeded": len(events)})
		next.once(id, events)
	})
}

// A slot for an endpoint that has nothing to send any more goes to another one at once.
func TestASlotOfAnEmptyQueueIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.InFlight = 1 })
		closed := func(h *delivery.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} }
		busy, emptied := w.register(), w.register(closed)
		w.sender.script(after(10*time.Second, answers200))
		w.start()
		w.emit(1)
		synctest.Wait()
		gone := w.emitOf(signal.NewSignalID(), signal.SignalClosed)
		pass(3 * time.Second) // it waits for a slot, and is stored
		w.store.cancel(signal.DeliveryIDOf(gone, emptied))
		pass(8 * time.Second) // the slot is free again
		w.sender.script(nil)
		events := w.emit(1)
		pass(time.Second)
		w.statuses(emptied, map[string]int{"failed, cancelled": 1})
		sent := w.sender.sent(w.url(busy))
		if last := sent[len(sent)-1]; last.Event != events[0] {
			t.Error("a delivery waits for a slot that nobody uses")
		}
	})
}

// A disabled webhook whose pending deliveries were given up has no actor after a while.
func TestADisabledWebhookRests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.backlogged(id, 40)
		w.store.disable(id)
		w.start()
		pass(5 * time.Minute)
		w.statuses(id, map[string]int{"failed, cancelled": 40})
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor", n)
		}
	})
}
