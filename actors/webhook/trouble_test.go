package webhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Outcomes that cannot be stored are kept and stored later; nothing is sent twice.
func TestRedisIsAwayWhileOutcomesAreStored(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			id := w.register()
			w.start()
			w.store.set(func() {
				w.store.fail = func(op string) (error, bool) {
					if op == "StoreOutcomes" || op == "DueDeliveries" || op == "DueEndpoints" {
						return errDown, after
					}
					return nil, false
				}
			})
			events := w.emit(1000)
			pass(time.Minute)
			if n := len(w.sender.sent()); n > maxUnstored {
				t.Errorf("%d attempts are not stored, want at most %d", n, maxUnstored)
			}
			w.store.set(func() { w.store.fail = nil })
			pass(time.Minute)
			w.once(id, events)
			w.statuses(id, map[string]int{"succeeded": 1000})
		})
	}
}

// The same under load, with operations that fail at random places.
func TestRedisFailsNowAndThen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.store.takes = time.Millisecond
		ids := []signal.WebhookID{w.register(), w.register(), w.register()}
		w.sender.script(after(5*time.Millisecond, answers200))
		n := 0
		w.store.fail = func(string) (error, bool) {
			n++
			return map[bool]error{true: errDown}[n%7 == 3], n%14 == 3
		}
		w.start()
		var events []signal.EventID
		for range 20 {
			events = append(events, w.emit(100)...)
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Minute)
		for _, id := range ids {
			w.once(id, events)
			w.statuses(id, map[string]int{"succeeded": len(events)})
		}
	})
}

func TestAnotherOwnerHasCome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.register()
		w.sender.script(after(time.Second, answers200))
		w.start()
		w.emit(20)
		pass(1500 * time.Millisecond) // the first eight are stored, eight more under way
		w.store.set(func() { w.store.epoch = 2 })
		pass(time.Second)
		if n := w.losses(); n != 1 {
			t.Errorf("the owner was told %d times that it is none", n)
		}
		n := len(w.sender.sent())
		pass(time.Hour)
		if got := len(w.sender.sent()); got != n {
			t.Errorf("%d requests after the partition was lost", got-n)
		}
	})
}

// The next owner goes on with what the last one had not stored, nothing is lost.
func TestTheOwnerChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t)
		id := first.register()
		first.sender.script(after(time.Second, answers200))
		first.start()
		first.emit(20)
		first.store.set(func() { first.store.early = slow("StoreOutcomes", 100*time.Millisecond) })
		pass(1050 * time.Millisecond) // the outcomes of eight are being stored
		first.owner.Tell("stop")
		pass(time.Second)
		for _, s := range first.sender.sent()[8:] {
			if !s.cancelled {
				t.Error("a request goes on after its owner has ended")
			}
		}
		first.statuses(id, map[string]int{"succeeded": 8}) // the position is before the others
		if n := len(first.sender.sent()); n != 16 {
			t.Errorf("%d requests, want 16", n)
		}

		second := newWorld(t)
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Schedule.Retries = []time.Duration{time.Minute, 2 * time.Minute} })
		id, healthy := w.register(), w.register(func(h *delivery.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
		w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			if r.To.URL == w.url(id) {
				return answers503(ctx, r)
			}
			return answers200(ctx, r)
		})
		w.store.takes = time.Millisecond
		w.start()
		for range 20 {
			w.emit(500)
			pass(100 * time.Millisecond)
		}
		pass(20 * time.Minute)
		// All that an endpoint holds is left out when it reads.
		if most := peek(w.store, func() int { return w.store.maxHeld }); most < maxBacklog || most > maxLive+maxBacklog+lowBacklog+maxUnstored {
			t.Errorf("%d deliveries are held in memory", most)
		}
		var last signal.Event
		w.store.set(func() {
			last = signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.SignalClosed, Data: []byte(`{}`)}
			w.store.append(last)
		})
		pass(time.Second)
		w.once(healthy, []signal.EventID{last.ID})
		w.statuses(id, map[string]int{"failed, status 503": 10_000})
		if n := len(w.sender.sent(w.url(id))); n != 30_000 {
			t.Errorf("%d attempts, want 30000", n)
		}
	})
}

// An endpoint that panics costs the others nothing, and goes on itself.
func TestAPanicHarmsNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, healthy := w.register(), w.register()
		panics := 0
		w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			if r.To.URL == w.url(id) {
				w.sender.mu.Lock()
				panics++
				n := panics
				w.sender.mu.Unlock()
				if n%3 == 1 && n < 60 {
					panic("in the courier")
				}
			}
			return after(100*time.Millisecond, answers200)(ctx, r)
		})
		w.start()
		events := w.emit(200)
		pass(10 * time.Second)
		w.once(healthy, events)
		w.statuses(healthy, map[string]int{"succeeded": 200})
		pass(10 * time.Minute)
		w.statuses(id, map[string]int{"succeeded": 200})
		if panics < 60 {
			t.Errorf("%d calls", panics)
		}
	})
}

// The parent of the endpoints panics: it begins anew, and nothing is lost.
func TestTheParentPanics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ids := []signal.WebhookID{w.register(), w.register()}
		w.sender.script(after(time.Second, answers200))
		w.start()
		w.emit(100)
		panics := 0
		w.store.set(func() {
			w.store.fail = func(op string) (error, bool) {
				if op == "DueEndpoints" && panics < 3 {
					panics++
					panic("in the store")
				}
				return nil, false
			}
		})
		pass(3 * time.Minute)
		for _, id := range ids {
			w.statuses(id, map[string]int{"succeeded": 100})
		}
		if panics != 3 {
			t.Errorf("%d panics", panics)
		}
	})
}

// What the parent cannot do it tries again.
func TestMaintenanceIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register(func(h *delivery.Webhook) { h.Secret = w.keys.Seal([]byte("secret"), string(h.ID)) })
		w.store.fail = func(op string) (error, bool) {
			if op == "PruneDeliveries" && w.store.calls[op] < 4 {
				return errDown, false
			}
			return nil, false
		}
		w.start()
		pass(maintenanceStart + 3*maintenanceRetry + time.Second)
		if n := w.store.prunings(id); n != 2 {
			t.Errorf("pruned in %d steps, want 2", n)
		}
		pass(maintenanceEvery)
		if n := w.store.prunings(id); n != 4 {
			t.Errorf("pruned in %d steps after %v, want 4", n, maintenanceEvery)
		}
		w.store.set(func() { w.store.epoch = 2 })
		pass(maintenanceEvery)
		if w.losses() != 1 {
			t.Errorf("the owner was told %d times that it is none", w.losses())
		}
	})
}

func TestDeliveriesArePruned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		quiet := w.register(func(h *delivery.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
		w.start()
		w.emit(pruneEvery - 1)
		pass(30 * time.Second)
		if n := w.store.prunings(id); n != 0 {
			t.Errorf("pruned %d times after %d deliveries", n, pruneEvery-1)
		}
		w.emit(1)
		pass(time.Second)
		if n := w.store.prunings(id); n != 2 {
			t.Errorf("pruned in %d steps, want 2", n)
		}
		pass(time.Minute)
		if n := w.store.prunings(quiet); n != 2 {
			t.Errorf("a webhook without an actor is pruned in %d steps, want 2", n)
		}
	})
}
