package webhook

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// pending returns the number of pending deliveries of a webhook in the store.
func (h *harness) pending(id signal.WebhookID) (n int) {
	for status, count := range h.store.statuses(id) {
		if strings.HasPrefix(status, string(delivery.Pending)) {
			n += count
		}
	}
	return n
}

// drops returns the number of deliveries that this node has dropped.
func (h *harness) drops() int {
	return int(h.gathered(h.metrics, "agentsignal_webhook_deliveries_dropped_total")[""])
}

// notified checks how often the account was notified of dropped deliveries.
func (h *harness) notified(want int) {
	h.t.Helper()
	n := peek(h.store, func() (n int) {
		for _, e := range h.store.notices {
			if e.Type == signal.SystemNotification && e.Account == h.account &&
				strings.HasSuffix(string(e.Data), `,"severity":"warning","code":"deliveries_dropped"}`) {
				n++
			}
		}
		return n
	})
	if n != want {
		h.t.Errorf("%d notifications, want %d", n, want)
	}
}

// fromBad scripts an answer of one webhook; the others succeed.
func (h *harness) fromBad(bad signal.WebhookID, a answer) {
	h.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
		if r.To.URL == h.url(bad) {
			return a(ctx, r)
		}
		return answers200(ctx, r)
	})
}

func maxPending500(o *Options) { o.MaxPending = 500 }

// pendingIn500 checks the pending deliveries of a webhook with a limit of 500. Deliveries in
// flight during the count may exceed it: a batch of the log, and those of the endpoint.
func (h *harness) pendingIn500(id signal.WebhookID) {
	h.t.Helper()
	if n := h.pending(id); n > 500+100+8 || n < 300 {
		h.t.Errorf("%d are pending, the limit is 500", n)
	}
}

// The pending deliveries of an account whose endpoint hangs or fails are bounded, whichever
// node owns the partition. Its other endpoints and the position in the log advance. The
// account is notified once an hour.
func TestPendingDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{"hangs": hangs, "fails": answers503} {
		t.Run(name, func(t *testing.T) {
			withHarnessOptions(t, maxPending500, func(t *testing.T, h *harness) { testPendingDeliveriesAreBounded(t, h, a) })
		})
	}
}

func testPendingDeliveriesAreBounded(t *testing.T, h *harness, a answer) {
	bad, good := h.register(), h.register()
	h.fromBad(bad, a)
	h.start()
	var events []signal.EventID
	for range 20 {
		events = append(events, h.emit(100)...)
		pass(3 * time.Second)
	}
	check := func(h *harness) {
		t.Helper()
		h.pendingIn500(bad)
		if n := h.drops(); n == 0 {
			t.Error("none was dropped")
		}
		h.once(good, events)
		if h.stored() != h.end() {
			t.Errorf("deliveries are stored up to %v, the log ends at %v", h.stored(), h.end())
		}
	}
	check(h)
	h.notified(1)

	next := h.takeOver(true, maxPending500)
	for range 5 {
		events = append(events, next.emit(100)...)
		pass(3 * time.Second)
	}
	check(next)
	next.notified(2) // once by each owner
	pass(time.Hour)
	next.emit(2000)
	pass(time.Minute)
	next.notified(3)
	if n := next.lines.count("deliveries are dropped"); n != 2 {
		t.Errorf("%d lines in the log", n)
	}

	// With room again, nothing is dropped.
	next.sender.script(answers200)
	pass(30 * time.Hour)
	before := next.drops()
	events = next.emit(100)
	pass(time.Minute)
	next.once(bad, events)
	if n := next.drops() - before; n > 0 || next.pending(bad) > 0 {
		t.Errorf("%d more were dropped, %d are pending", n, next.pending(bad))
	}
}

// The pending deliveries are bounded if counts or notifications fail.
func TestPendingDeliveriesAreBoundedWhateverFails(t *testing.T) {
	withHarnessOptions(t, maxPending500, func(t *testing.T, h *harness) {
		bad := h.register()
		h.fromBad(bad, hangs)
		h.store.fail = func(op string) (error, bool) {
			if slices.Contains([]string{"PendingDeliveries", "Notify"}, op) && h.store.calls[op]%3 != 0 {
				return errDown, h.store.calls[op]%2 == 0
			}
			return nil, false
		}
		h.start()
		for range 20 {
			h.emit(100)
			pass(5 * time.Second)
		}
		h.pendingIn500(bad)
		// A notification whose answer was lost is repeated.
		if n := peek(h.store, func() int { return len(h.store.notices) }); n == 0 || n > 2 {
			t.Errorf("%d notifications", n)
		}
	})
}

// Once an account was counted, it gets exactly as many pending deliveries as allowed; it is
// counted again after a second at the earliest. Before the first count, and for deliveries
// in flight during a count, there is no bound: see the tests above.
func TestPendingDeliveriesAreCountedExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		const a, other = signal.AccountID("acc_1"), signal.AccountID("acc_2")
		first := delivery.Delivery{Account: a, Status: delivery.Pending}
		store.deliveries["dlv_1"] = &delivery.PendingDelivery{Delivery: first}
		k := newCounts(&owned{Node: &Node{store: store, options: Options{MaxPending: 10}}})
		allowed := func(want int, of map[signal.AccountID]int) {
			t.Helper()
			got, err := k.allow(t.Context(), of)
			if err != nil || got[a] != want || got[other] != of[other] {
				t.Errorf("of %v there is room for %v, %v; want %d of %s", of, got, err, want, a)
			}
		}
		counted := func(want int) {
			t.Helper()
			if n := store.calls["PendingDeliveries"]; n != want {
				t.Errorf("counted %d times, want %d", n, want)
			}
		}
		if n := k.reserve(a, 20); n != 20 {
			t.Errorf("%d of 20 are taken before anything was counted", n)
		}
		allowed(4, map[signal.AccountID]int{a: 4, other: 10})
		counted(1)
		if n := k.reserve(a, 6); n != 5 {
			t.Errorf("%d are taken, want 5: one was stored, 4 are taken", n)
		}
		for range 3 {
			if n := k.reserve(a, 1); n != 0 {
				t.Errorf("%d are taken beyond the last", n)
			}
		}
		allowed(0, map[signal.AccountID]int{a: 1})
		counted(1)
		time.Sleep(recount)
		allowed(9, map[signal.AccountID]int{a: 12}) // the taken ones have ended
		counted(2)
		allowed(0, map[signal.AccountID]int{a: 1})
		time.Sleep(recount)
		store.deliveries["dlv_1"].Status = delivery.Succeeded
		allowed(1, map[signal.AccountID]int{a: 1})
		counted(3)
		time.Sleep(recount)
		allowed(1, map[signal.AccountID]int{a: 1}) // there is room: not counted again for a minute
		counted(3)
		time.Sleep(recountAll)
		allowed(1, map[signal.AccountID]int{a: 1})
		counted(4)
	})
}
