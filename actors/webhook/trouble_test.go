package webhook

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Outcomes that cannot be stored are kept and stored later; nothing is sent twice.
func TestRedisIsDownWhileOutcomesAreStored(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t)
			id := h.serve(nil)
			h.store.set(func() {
				ops := []string{"StoreOutcomes", "DueDeliveries", "DueEndpoints"}
				h.store.fail = failIf(after, func(op string) bool { return slices.Contains(ops, op) })
			})
			events := h.emit(1000)
			pass(time.Minute)
			if n := len(h.sender.sent()); n > maxUnstored {
				t.Errorf("%d attempts are not stored, want at most %d", n, maxUnstored)
			}
			h.store.set(func() { h.store.fail = nil })
			pass(time.Minute)
			h.once(id, events)
			h.statuses(id, map[string]int{"succeeded": 1000})
		})
	}
}

// The same under load, with operations that fail at various places.
func TestRedisFailsNowAndThen(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.store.takes = time.Millisecond
		ids := []signal.WebhookID{h.register(), h.register(), h.register()}
		h.sender.script(after(5*time.Millisecond, answers200))
		n := 0
		h.store.fail = func(string) (error, bool) {
			n++
			return map[bool]error{true: errDown}[n%7 == 3], n%14 == 3
		}
		h.start()
		var events []signal.EventID
		for range 20 {
			events = append(events, h.emit(100)...)
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Minute)
		for _, id := range ids {
			h.once(id, events)
			h.statuses(id, map[string]int{"succeeded": len(events)})
		}
	})
}

func TestAnotherOwnerHasTheEpoch(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.serve(after(time.Second, answers200))
		h.emit(20)
		pass(1500 * time.Millisecond) // the first eight are stored, eight more in flight
		h.store.set(func() { h.store.epoch = 2 })
		pass(time.Second)
		h.losses(1)
		n := len(h.sender.sent())
		pass(time.Hour)
		if got := len(h.sender.sent()); got != n {
			t.Errorf("%d requests after the partition was lost", got-n)
		}
	})
}

// The next owner continues with deliveries that the last one has not stored.
func TestTheOwnerChanges(t *testing.T) {
	withHarness(t, func(t *testing.T, first *harness) {
		id := first.serve(after(time.Second, answers200))
		first.emit(20)
		first.store.set(func() { first.store.early = slow("StoreOutcomes", 100*time.Millisecond) })
		pass(1050 * time.Millisecond) // the outcomes of eight are being stored
		first.owner.Tell("stop")
		pass(time.Second)
		for _, s := range first.attempts(16)[8:] {
			if !s.cancelled {
				t.Error("a request continues after its owner has ended")
			}
		}
		first.statuses(id, map[string]int{"succeeded": 8}) // the position is before the others

		second := newHarness(t)
		second.store, second.node.store = first.store, first.store
		second.start()
		pass(time.Second)
		first.statuses(id, map[string]int{"succeeded": 20})
		n := map[signal.EventID]int{}
		for _, s := range second.sender.sent() {
			n[s.Event]++
		}
		if len(n) != 12 {
			t.Errorf("%d deliveries are sent by the next owner, want 12", len(n))
		}
	})
}

func TestTenThousandFailingDeliveries(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	retries := func(o *Options) { o.Schedule.Retries = []time.Duration{time.Minute, 2 * time.Minute} }
	withHarnessOptions(t, retries, func(t *testing.T, h *harness) {
		id, healthy := h.register(), h.register(onlyClosed)
		h.fromBad(id, answers503)
		h.store.takes = time.Millisecond
		h.start()
		for range 20 {
			h.emit(500)
			pass(100 * time.Millisecond)
		}
		pass(20 * time.Minute)
		// An endpoint leaves out held deliveries when it reads.
		const limit = maxLive + maxBacklog + lowBacklog + maxUnstored
		if n := peek(h.store, func() int { return h.store.maxHeld }); n < maxBacklog || n > limit {
			t.Errorf("%d deliveries are held in memory, want %d to %d", n, maxBacklog, limit)
		}
		last := h.append(signal.Event{Type: signal.SignalClosed, Data: []byte(`{}`)})
		pass(time.Second)
		h.once(healthy, last)
		h.statuses(id, map[string]int{"failed, status 503": 10_000})
		h.attempts(30_000, id)
	})
}

// An endpoint that panics does not affect the others, and continues.
func TestAnEndpointPanics(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id, healthy := h.register(), h.register()
		panics := 0
		h.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			if r.To.URL == h.url(id) {
				h.sender.mu.Lock()
				panics++
				n := panics
				h.sender.mu.Unlock()
				if n%3 == 1 && n < 60 {
					panic("in the sender")
				}
			}
			return after(100*time.Millisecond, answers200)(ctx, r)
		})
		h.start()
		events := h.emit(200)
		pass(10 * time.Second)
		h.once(healthy, events)
		h.statuses(healthy, map[string]int{"succeeded": 200})
		pass(10 * time.Minute)
		h.statuses(id, map[string]int{"succeeded": 200})
		if panics < 60 {
			t.Errorf("%d calls", panics)
		}
	})
}

// The parent of the endpoints panics: it starts again, and nothing is lost.
func TestTheParentPanics(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		ids := []signal.WebhookID{h.register(), h.register()}
		h.sender.script(after(time.Second, answers200))
		h.start()
		h.emit(100)
		panics := 0
		h.store.set(func() {
			h.store.fail = func(op string) (error, bool) {
				if op == "DueEndpoints" && panics < 3 {
					panics++
					panic("in the store")
				}
				return nil, false
			}
		})
		pass(3 * time.Minute)
		for _, id := range ids {
			h.statuses(id, map[string]int{"succeeded": 100})
		}
		if panics != 3 {
			t.Errorf("%d panics", panics)
		}
	})
}

func TestMaintenanceIsRetried(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register(func(hook *delivery.Webhook) { hook.Secret = h.keys.Seal([]byte("secret"), string(hook.ID)) })
		h.store.fail = failIf(false, func(op string) bool { return op == "PruneDeliveries" && h.store.calls[op] < 4 })
		h.start()
		pass(maintenanceStart + 3*maintenanceRetry + time.Second)
		h.pruned(id, 2)
		pass(maintenanceEvery)
		h.pruned(id, 4)
		h.store.set(func() { h.store.epoch = 2 })
		pass(maintenanceEvery)
		h.losses(1)
	})
}

func TestDeliveriesArePruned(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		quiet := h.register(onlyClosed)
		h.start()
		h.emit(pruneEvery - 1)
		pass(30 * time.Second)
		h.pruned(id, 0)
		h.emit(1)
		pass(time.Second)
		h.pruned(id, 2)
		pass(time.Minute)
		h.pruned(quiet, 2)
	})
}
