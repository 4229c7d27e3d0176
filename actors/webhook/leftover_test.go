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
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.store.set(func() {
			first := func(op string) bool { return op == "StoreOutcomes" && h.store.calls[op] == 1 }
			h.store.fail = failIf(false, first)
		})
		events := h.emit(5)
		synctest.Wait()
		h.calls("StoreOutcomes", 1)
		next := h.takeOver(false)
		pass(time.Minute)
		next.statuses(id, map[string]int{"succeeded": len(events)})
		next.once(id, events)
	})
}

// A slot granted to an endpoint whose queue is empty now goes to another one at once.
func TestASlotOfAnEmptyQueueIsGivenBack(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.InFlight = 1 }, func(t *testing.T, h *harness) {
		busy, emptied := h.register(), h.register(onlyClosed)
		h.sender.script(after(10*time.Second, answers200))
		h.start()
		h.emit(1)
		synctest.Wait()
		gone := h.emitOf(signal.NewSignalID(), signal.SignalClosed)
		pass(3 * time.Second) // it waits for a slot, and is stored
		h.store.cancel(signal.DeliveryIDOf(gone, emptied))
		pass(8 * time.Second) // the slot is free again
		h.sender.script(nil)
		events := h.emit(1)
		pass(time.Second)
		h.statuses(emptied, map[string]int{"failed, cancelled": 1})
		sent := h.sender.sent(h.url(busy))
		if last := sent[len(sent)-1]; last.Event != events[0] {
			t.Error("a delivery waits for an unused slot")
		}
	})
}

// A disabled webhook whose pending deliveries were cancelled has no actor after a while.
func TestADisabledWebhookHasNoActor(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		h.backlogged(id, 40)
		h.store.disable(id)
		h.start()
		pass(5 * time.Minute)
		h.statuses(id, map[string]int{"failed, cancelled": 40})
		h.endpoints(0)
	})
}
