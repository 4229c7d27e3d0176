package webhook

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

func TestAnEventIsDeliveredOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		other := w.register(func(h *delivery.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
		w.start()
		events := w.emit(1)
		synctest.Wait()
		w.once(id, events)
		if n := len(w.sender.sent(w.url(other))); n != 0 {
			t.Errorf("%d requests to a webhook that is not subscribed", n)
		}
		got := w.sender.sent()[0].Request
		want := sender.Request{To: sender.NewDestination(w.url(id), "secret"), Body: AppendBody(nil, events[0], signal.SignalCreated, "2026-11-01", time.Now(), []byte(`{"n":1}`)),
			Event: events[0], Type: signal.SignalCreated, Delivery: signal.DeliveryIDOf(events[0], id), Attempt: 1,
			At: time.Now()}
		if d := cmp.Diff(want, got, byEffect); d != "" {
			t.Errorf("request (-want +got):\n%s", d)
		}
		w.statuses(id, map[string]int{"succeeded": 1})
		pass(3 * time.Hour)
		w.once(id, events)
		d := w.store.delivery(want.Delivery)
		if d.AttemptCount() != 1 || d.CompletedAt.IsZero() || !d.NextAttemptAt.IsZero() || d.Attempts[0].Trigger != delivery.Scheduled {
			t.Errorf("stored %+v", d)
		}
		if d := cmp.Diff(map[string]float64{"pending": 1, "succeeded": 1}, w.counted("agentsignal_webhook_deliveries_total")); d != "" {
			t.Errorf("deliveries counted (-want +got):\n%s", d)
		}
		if d := cmp.Diff(map[string]float64{"success": 1}, w.counted("agentsignal_webhook_attempts_total")); d != "" {
			t.Errorf("attempts counted (-want +got):\n%s", d)
		}
	})
}

func TestOutcomesOfOneWrite(t *testing.T) {
	t.Parallel()
	open := func(bytes int) outcome {
		return outcome{item: &item{event: &inFlightEvent{}, PendingDelivery: delivery.PendingDelivery{Body: make([]byte, bytes)}}}
	}
	pending := outcome{item: &item{PendingDelivery: delivery.PendingDelivery{Body: make([]byte, maxStoredBytes)}}}
	for name, c := range map[string]struct {
		list []outcome
		want []int
	}{
		"few":                 {[]outcome{open(1), open(1)}, []int{2}},
		"many":                {slices.Repeat([]outcome{open(1)}, 2*maxStored+1), []int{maxStored, maxStored, 1}},
		"large":               {slices.Repeat([]outcome{open(maxStoredBytes / 2)}, 5), []int{2, 2, 1}},
		"larger than a write": {slices.Repeat([]outcome{open(2 * maxStoredBytes)}, 2), []int{1, 1}},
		"stored before":       {slices.Repeat([]outcome{pending}, 5), []int{5}},
	} {
		l := outcomeList{outcomes: c.list, health: true}
		var got []int
		for len(l.outcomes) > 0 {
			first := l.split()
			got = append(got, len(first.outcomes))
			if first.health != (len(got) == 1) {
				t.Errorf("%s: health in write %d: %v", name, len(got), first.health)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// The first outcome is stored at once; those that follow soon wait for each other, but
// not for many.
func TestOutcomesAreGathered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		w.emit(1)
		synctest.Wait()
		w.statuses(id, map[string]int{"succeeded": 1})
		for range 20 {
			w.emit(1)
			time.Sleep(time.Millisecond)
		}
		pass(storeEvery)
		w.statuses(id, map[string]int{"succeeded": 21})
		if n := w.store.count("StoreOutcomes"); n != 2 {
			t.Errorf("outcomes were stored in %d writes, want the first one and all others", n)
		}
		w.emit(maxStored / 2)
		synctest.Wait()
		w.statuses(id, map[string]int{"succeeded": 21 + maxStored/2})
	})
}

func TestScheduleOfRetries(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(700*time.Millisecond, answers503))
		w.start()
		w.emit(1)
		pass(12 * time.Hour)
		all := w.sender.sent()
		if len(all) != 7 {
			t.Fatalf("%d attempts, want 7", len(all))
		}
		for i, s := range all[1:] {
			want, got := DefaultRetries[i], s.At.Sub(all[i].ended)
			if got < want || got > want+10*time.Millisecond {
				t.Errorf("retry %d: %v after the attempt before, want %v", i+1, got, want)
			}
			first := all[0].Request
			first.Attempt, first.At = i+2, s.At
			if d := cmp.Diff(first, s.Request, byEffect); d != "" {
				t.Errorf("attempt %d differs (-first +this):\n%s", i+2, d)
			}
		}
		w.statuses(id, map[string]int{"failed, status 503": 1})
		d := w.store.delivery(all[0].Delivery)
		if d.CompletedAt.Sub(d.Attempts[6].At) != 700*time.Millisecond || d.Scheduled != 7 {
			t.Errorf("stored %+v", d)
		}
	})
}

func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		asked, got time.Duration
	}{
		{"less than the schedule", 7 * time.Second, 30 * time.Second},
		{"more", 20 * time.Minute, 20 * time.Minute},
		{"more than an hour more", 10 * time.Hour, time.Hour + 30*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.register()
				w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
					result := answers503(ctx, r)
					result.RetryAfter = tt.asked
					return result
				})
				w.start()
				w.emit(1)
				synctest.Wait()
				w.sender.script(nil)
				pass(3 * time.Hour)
				all := w.sender.sent()
				if len(all) != 2 {
					t.Fatalf("%d attempts, want 2", len(all))
				}
				if got := all[1].At.Sub(all[0].ended); got < tt.got || got > tt.got+10*time.Millisecond {
					t.Errorf("again after %v, want %v", got, tt.got)
				}
			})
		})
	}
}

func TestRetryByHandIsOneAttempt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(answers503)
		w.start()
		w.emit(1)
		pass(11 * time.Hour)
		first := w.sender.sent()[0].Delivery
		w.store.retry(first)
		pass(time.Hour)
		if n := len(w.sender.sent()); n != 8 {
			t.Fatalf("%d attempts, want one more than 7", n)
		}
		w.statuses(id, map[string]int{"failed, status 503": 1})
		w.sender.script(nil)
		w.store.retry(first)
		pass(time.Second)
		all := w.sender.sent()
		if n := len(all); n != 9 || all[8].Attempt != 9 {
			t.Fatalf("%d attempts, want another one", n)
		}
		w.statuses(id, map[string]int{"succeeded": 1})
		d := w.store.delivery(first)
		var triggers []delivery.Trigger
		for _, a := range d.Attempts[6:] {
			triggers = append(triggers, a.Trigger)
		}
		if d := cmp.Diff([]delivery.Trigger{delivery.Scheduled, delivery.Manual, delivery.Manual}, triggers); d != "" {
			t.Errorf("triggers (-want +got):\n%s", d)
		}
		if h := w.store.healthOf(id); h != (delivery.WebhookHealth{}) {
			t.Errorf("health after a success by hand: %+v", h)
		}
	})
}

func TestTriggerOf(t *testing.T) {
	const schedule, manual = delivery.Scheduled, delivery.Manual
	tried := []delivery.Attempt{{Number: 1}}
	for _, test := range []struct {
		name string
		d    delivery.Delivery
		want delivery.Trigger
	}{
		{"new", delivery.Delivery{Type: signal.SignalCreated}, schedule},
		{"again", delivery.Delivery{Type: signal.SignalCreated, Attempts: tried, Error: "status 500"}, schedule},
		{"by hand", delivery.Delivery{Type: signal.SignalCreated, Attempts: tried, Error: "status 500", Single: true}, manual},
		{"by hand, cancelled before the first", delivery.Delivery{Type: signal.SignalCreated, Error: delivery.Cancelled, Single: true}, manual},
		{"test", delivery.Delivery{Type: signal.WebhookTest}, schedule},
		{"test of a disabled webhook", delivery.Delivery{Type: signal.WebhookTest, Single: true}, schedule},
		{"test by hand", delivery.Delivery{Type: signal.WebhookTest, Attempts: tried, Single: true}, manual},
		{"test by hand, cancelled before the first", delivery.Delivery{Type: signal.WebhookTest, Error: delivery.Cancelled, Single: true}, manual},
	} {
		if got := triggerOf(&test.d); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestAtMostEightAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, other := w.register(), w.register()
		w.sender.script(after(100*time.Millisecond, answers200))
		w.start()
		events := w.emit(100)
		pass(10 * time.Second)
		w.once(id, events)
		w.once(other, events)
		for _, id := range []signal.WebhookID{id, other} {
			if n := w.sender.peak(w.url(id)); n != DefaultConcurrency {
				t.Errorf("%d requests at once, want %d", n, DefaultConcurrency)
			}
		}
	})
}

// What does not fit into memory goes through Redis: each event is sent once.
func TestMoreThanFits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.store.takes = 2 * time.Millisecond
		w.sender.script(after(20*time.Millisecond, answers200))
		w.start()
		var events []signal.EventID
		for range 6 {
			events = append(events, w.emit(500)...)
			pass(700 * time.Millisecond)
		}
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 3000})
		if w.store.count("DueDeliveries") < 10 {
			t.Error("nothing went through Redis")
		}
	})
}

// What did not fit is read as soon as there is room.
func TestWhatDidNotFitDoesNotWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(20*time.Millisecond, answers200))
		w.start()
		pass(time.Second)
		events := w.emit(500)
		pass(2 * time.Second) // before the next scan
		w.once(id, events)
	})
}

// One that answers slowly is in the slow class, too.
func TestSlowAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(after(2*time.Second, answers200))
		w.start()
		w.emit(30)
		pass(3 * time.Second)
		w.sender.peak(w.url(id))
		pass(20 * time.Second)
		if n := w.sender.peak(w.url(id)); n != 1 {
			t.Errorf("%d requests at once, want 1", n)
		}
	})
}

// What waits is sent in the order in which it has happened, the backlog first.
func TestOrderOfSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Concurrency = 1 })
		id := w.register()
		want := w.backlogged(id, 8)
		w.sender.script(after(time.Second, answers200))
		w.start() // the first of the backlog is under way now
		for _, e := range w.emit(8) {
			want = append(want, signal.DeliveryIDOf(e, id))
		}
		pass(time.Minute)
		var got []signal.DeliveryID
		for _, s := range w.sender.sent(w.url(id)) {
			got = append(got, s.Delivery)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
	})
}

// An earlier event of a signal that is found while a later one is under way stays in the
// queue, and is sent next.
func TestAnEarlierEventIsSentAfterTheOneUnderWay(t *testing.T) {
	t.Parallel()
	q := newQueue(newWorld(t).node, func() {})
	at := func(ms int64) *item {
		d := delivery.Delivery{CreatedAt: time.UnixMilli(ms)}
		return &item{PendingDelivery: delivery.PendingDelivery{Delivery: d}, signal: "sig_1"}
	}
	earlier, later, last := at(1), at(2), at(3)
	q.addLive([]*item{later})
	if q.pop() != later {
		t.Fatal("the only delivery is not sent")
	}
	q.addBacklog([]*item{earlier})
	q.addLive([]*item{last})
	if d := q.pop(); d != nil {
		t.Errorf("the event of %d ms is sent while another one of its signal is under way", d.CreatedAt.UnixMilli())
	}
	q.unblock(later)
	if got := q.pop(); got != earlier {
		t.Fatalf("sent next: %+v, want the earlier event", got)
	}
	q.unblock(earlier)
	if q.pop() != last || q.pop() != nil {
		t.Error("the last event is not sent at the end, once")
	}
	q.unblock(last)
	if len(q.chains) != 0 || q.parked != 0 {
		t.Errorf("%d chains and %d parked deliveries are left", len(q.chains), q.parked)
	}
}

// After a failure three of the newest go for one of the oldest, until the endpoint gets
// as many requests at once as before.
func TestNewestFirstWhileRecovering(t *testing.T) {
	t.Parallel()
	q := newQueue(newWorld(t).node, func() {})
	made := func(from, n int) (items []*item) {
		for i := range n {
			d := delivery.Delivery{CreatedAt: time.UnixMilli(int64(from + i))}
			items = append(items, &item{PendingDelivery: delivery.PendingDelivery{Delivery: d}})
		}
		return items
	}
	q.addBacklog(made(0, 5))
	q.addLive(made(100, 9))
	q.concurrency.after(&sender.Result{Error: "status 503", Class: sender.ClassServerError})
	var got []int64
	take := func(n int) {
		for range n {
			got = append(got, q.pop().CreatedAt.UnixMilli())
		}
	}
	take(6)
	for range DefaultConcurrency {
		q.concurrency.after(&sender.Result{Class: sender.ClassSuccess})
	}
	take(8)
	if d := cmp.Diff([]int64{108, 107, 106, 0, 105, 104, 1, 2, 3, 4, 100, 101, 102, 103}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if q.pop() != nil {
		t.Error("there is more")
	}
}

func TestSlowStartAfterAnOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.sender.script(answers503)
		w.start()
		w.emit(40)
		synctest.Wait()
		w.sender.script(after(time.Second, answers200))
		w.sender.peak(w.url(id))
		pass(29 * time.Second)
		var got []int
		for range 6 {
			w.sender.peak(w.url(id))
			pass(time.Second)
			got = append(got, w.sender.peak(w.url(id)))
		}
		if d := cmp.Diff([]int{0, 1, 2, 4, 8, 8}, got); d != "" {
			t.Errorf("requests at once by second (-want +got):\n%s", d)
		}
		pass(10 * time.Second)
		w.statuses(id, map[string]int{"succeeded": 40})
	})
}

// An endpoint that hangs gets one request at a time, in the slow class, until it
// answers fast again.
func TestSlowClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Schedule.Retries = []time.Duration{time.Hour} })
		id := w.register()
		w.sender.script(hangs)
		w.start()
		w.emit(60)
		pass(16 * time.Second) // eight timeouts
		w.sender.peak(w.url(id))
		pass(time.Minute)
		if n := w.sender.peak(w.url(id)); n != 1 {
			t.Errorf("%d requests at once to an endpoint that hangs, want 1", n)
		}
		w.node.limiter.mu.Lock()
		slow, used := w.node.limiter.slowUsed, w.node.limiter.used
		w.node.limiter.mu.Unlock()
		if slow != 1 || used != 1 {
			t.Errorf("%d slots are taken, %d in the slow lane; want one, there", used, slow)
		}
		w.sender.script(after(100*time.Millisecond, answers200))
		pass(30 * time.Second)
		if n := w.sender.peak(w.url(id)); n != DefaultConcurrency {
			t.Errorf("%d requests at once after it has come back, want %d", n, DefaultConcurrency)
		}
		pass(2 * time.Hour)
		w.statuses(id, map[string]int{"succeeded": 60})
	})
}
