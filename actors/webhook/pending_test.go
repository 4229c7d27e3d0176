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

// pending returns how many deliveries of a webhook are pending in the store.
func (w *world) pending(id signal.WebhookID) (n int) {
	for status, count := range w.store.statuses(id) {
		if strings.HasPrefix(status, string(delivery.Pending)) {
			n += count
		}
	}
	return n
}

// drops returns how many deliveries this node has dropped.
func (w *world) drops() int {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "agentsignal_webhook_deliveries_dropped_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

// notified checks how often the account was notified that deliveries are dropped.
func (w *world) notified(want int) {
	w.t.Helper()
	n := peek(w.store, func() (n int) {
		for _, e := range w.store.notices {
			if e.Type == signal.SystemNotification && e.Account == w.account &&
				strings.HasSuffix(string(e.Data), `,"severity":"warning","code":"deliveries_dropped"}`) {
				n++
			}
		}
		return n
	})
	if n != want {
		w.t.Errorf("%d notifications, want %d", n, want)
	}
}

// fromBad has the requests to one webhook answered in another way than the rest.
func (w *world) fromBad(bad signal.WebhookID, answer func(context.Context, sender.Request) sender.Result) {
	w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
		if r.To.URL == w.url(bad) {
			return answer(ctx, r)
		}
		return answers200(ctx, r)
	})
}

func most(n int) func(*Options) { return func(o *Options) { o.MaxPending = n } }

// Of an account whose endpoint does not answer, or fails, at most so many deliveries are
// pending, whichever node owns the partition. Its other endpoints go on, and so does the position
// in the log. The account is notified once an hour.
func TestPendingDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context, sender.Request) sender.Result{"hangs": hangs, "fails": answers503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testPendingDeliveriesAreBounded(t, answer) })
		})
	}
}

func testPendingDeliveriesAreBounded(t *testing.T, answer func(context.Context, sender.Request) sender.Result) {
	w := newWorld(t, most(500))
	bad, good := w.register(), w.register()
	w.fromBad(bad, answer)
	w.start()
	var events []signal.EventID
	for range 20 {
		events = append(events, w.emit(100)...)
		pass(3 * time.Second)
	}
	check := func(w *world) {
		t.Helper()
		// What is under way while they are counted may come on top: a batch of the log, and
		// what the endpoint has in flight.
		if n := w.pending(bad); n > 500+100+8 || n < 300 {
			t.Errorf("%d are pending, 500 may be", n)
		}
		if n := w.drops(); n == 0 {
			t.Error("none was dropped")
		}
		w.once(good, events)
		end := peek(w.store, func() signal.Position { return w.store.log[len(w.store.log)-1].Position })
		if w.stored() != end {
			t.Errorf("deliveries are stored up to %v, the log ends at %v", w.stored(), end)
		}
	}
	check(w)
	w.notified(1)

	next := w.takeOver(true, most(500))
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

// What an account has is counted again after the counting, or the notification, failed.
func TestPendingDeliveriesAreBoundedWhateverFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.node.options.MaxPending = 500
		bad := w.register()
		w.fromBad(bad, hangs)
		w.store.fail = func(op string) (error, bool) {
			if slices.Contains([]string{"PendingDeliveries", "Notify"}, op) && w.store.calls[op]%3 != 0 {
				return errDown, w.store.calls[op]%2 == 0
			}
			return nil, false
		}
		w.start()
		for range 20 {
			w.emit(100)
			pass(5 * time.Second)
		}
		// What is under way while they are counted may come on top: a batch of the log, and
		// what the endpoint has in flight.
		if n := w.pending(bad); n > 500+100+8 || n < 300 {
			t.Errorf("%d are pending, 500 may be", n)
		}
		// One whose answer was lost is repeated.
		if n := peek(w.store, func() int { return len(w.store.notices) }); n == 0 || n > 2 {
			t.Errorf("%d notifications", n)
		}
	})
}

// TestPendingDeliveriesAreCountedExactly: an account gets no more than may be pending, and no
// less, from when it was counted; it is counted again after a second at the earliest. Before
// that, and for what is under way during it, there is no bound: see the tests above.
func TestPendingDeliveriesAreCountedExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore()
		const a, other = signal.AccountID("acc_1"), signal.AccountID("acc_2")
		store.deliveries["dlv_1"] = &delivery.PendingDelivery{Delivery: delivery.Delivery{Account: a, Status: delivery.Pending}}
		k := newCounts(&owned{Node: &Node{store: store, options: Options{MaxPending: 10}}})
		room := func(want int, of map[signal.AccountID]int) {
			t.Helper()
			got, err := k.room(t.Context(), of)
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
		if n := k.take(a, 20); n != 20 {
			t.Errorf("%d of 20 are taken before anything was counted", n)
		}
		room(4, map[signal.AccountID]int{a: 4, other: 10})
		counted(1)
		if n := k.take(a, 6); n != 5 {
			t.Errorf("%d are taken, want 5: one was stored, 4 are taken", n)
		}
		for range 3 {
			if n := k.take(a, 1); n != 0 {
				t.Errorf("%d are taken beyond the last", n)
			}
		}
		room(0, map[signal.AccountID]int{a: 1})
		counted(1)
		time.Sleep(recount)
		room(9, map[signal.AccountID]int{a: 12}) // those that were taken have ended
		counted(2)
		room(0, map[signal.AccountID]int{a: 1})
		time.Sleep(recount)
		store.deliveries["dlv_1"].Status = delivery.Succeeded
		room(1, map[signal.AccountID]int{a: 1})
		counted(3)
		time.Sleep(recount)
		room(1, map[signal.AccountID]int{a: 1}) // there is room: not counted again until a minute is over
		counted(3)
		time.Sleep(recountAll)
		room(1, map[signal.AccountID]int{a: 1})
		counted(4)
	})
}
