package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Outcomes are stored when the owner stops, even if their write has just failed and waits
// for a retry: nothing is sent twice.
func TestAFailedWriteIsRepeatedAtTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(nil)
		w.store.set(func() {
			first := func(op string) bool { return op == "StoreOutcomes" && w.store.calls[op] == 1 }
			w.store.fail = failIf(false, first)
		})
		events := w.emit(5)
		synctest.Wait()
		w.calls("StoreOutcomes", 1)
		next := w.takeOver(false)
		pass(time.Minute)
		next.statuses(id, map[string]int{"succeeded": len(events)})
		next.once(id, events)
	})
}

// A slot granted to an endpoint whose queue is empty now goes to another one at once.
func TestASlotOfAnEmptyQueueIsGivenBack(t *testing.T) {
	inWorldWith(t, func(o *Options) { o.InFlight = 1 }, func(t *testing.T, w *world) {
		busy, emptied := w.register(), w.register(onlyClosed)
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
			t.Error("a delivery waits for an unused slot")
		}
	})
}

// A disabled webhook whose pending deliveries were cancelled has no actor after a while.
func TestADisabledWebhookHasNoActor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.backlogged(id, 40)
		w.store.disable(id)
		w.start()
		pass(5 * time.Minute)
		w.statuses(id, map[string]int{"failed, cancelled": 40})
		w.endpoints(0)
	})
}
