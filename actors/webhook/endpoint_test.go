package webhook

import (
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
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		other := h.register(onlyClosed)
		h.start()
		events := h.emit(1)
		synctest.Wait()
		h.once(id, events)
		h.attempts(0, other)
		got := h.sender.sent()[0].Request
		want := sender.Request{
			To:       sender.NewDestination(h.url(id), "secret"),
			Body:     AppendBody(nil, events[0], signal.SignalCreated, "2026-11-01", time.Now(), []byte(`{"n":1}`)),
			Event:    events[0],
			Type:     signal.SignalCreated,
			Delivery: signal.DeliveryIDOf(events[0], id),
			Attempt:  1,
			At:       time.Now(),
		}
		if d := cmp.Diff(want, got, byEffect); d != "" {
			t.Errorf("request (-want +got):\n%s", d)
		}
		h.statuses(id, map[string]int{"succeeded": 1})
		pass(3 * time.Hour)
		h.once(id, events)
		d := h.store.delivery(want.Delivery)
		if d.AttemptCount() != 1 || d.CompletedAt.IsZero() || !d.NextAttemptAt.IsZero() ||
			d.Attempts[0].Trigger != delivery.Scheduled {
			t.Errorf("stored %+v", d)
		}
		for name, want := range map[string]map[string]float64{
			"agentsignal_webhook_deliveries_total": {"pending": 1, "succeeded": 1},
			"agentsignal_webhook_attempts_total":   {"success": 1},
		} {
			if d := cmp.Diff(want, h.counted(name)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	})
}

func TestOutcomesOfOneWrite(t *testing.T) {
	t.Parallel()
	of := func(event *inFlightEvent, bytes int) outcome {
		return outcome{item: &item{event: event, PendingDelivery: delivery.PendingDelivery{Body: make([]byte, bytes)}}}
	}
	open := func(bytes int) outcome { return of(&inFlightEvent{}, bytes) }
	pending := of(nil, maxStoredBytes)
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

// The first outcome is stored at once; the next ones are collected, up to a limit.
func TestOutcomesAreCollected(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.emit(1)
		synctest.Wait()
		h.statuses(id, map[string]int{"succeeded": 1})
		for range 20 {
			h.emit(1)
			time.Sleep(time.Millisecond)
		}
		pass(storeEvery)
		h.statuses(id, map[string]int{"succeeded": 21})
		h.calls("StoreOutcomes", 2)
		h.emit(maxStored / 2)
		synctest.Wait()
		h.statuses(id, map[string]int{"succeeded": 21 + maxStored/2})
	})
}

func TestScheduleOfRetries(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(700*time.Millisecond, answers503))
		h.emit(1)
		pass(12 * time.Hour)
		all := h.attempts(7)
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
		h.statuses(id, map[string]int{"failed, status 503": 1})
		d := h.store.delivery(all[0].Delivery)
		if d.CompletedAt.Sub(d.Attempts[6].At) != 700*time.Millisecond || d.Scheduled != 7 {
			t.Errorf("stored %+v", d)
		}
	})
}

func TestManualRetryIsOneAttempt(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503)
		h.emit(1)
		pass(11 * time.Hour)
		first := h.sender.sent()[0].Delivery
		h.store.retry(first)
		pass(time.Hour)
		h.attempts(8)
		h.statuses(id, map[string]int{"failed, status 503": 1})
		h.sender.script(nil)
		h.store.retry(first)
		pass(time.Second)
		if n := h.attempts(9)[8].Attempt; n != 9 {
			t.Errorf("the last attempt has number %d, want 9", n)
		}
		h.statuses(id, map[string]int{"succeeded": 1})
		d := h.store.delivery(first)
		var triggers []delivery.Trigger
		for _, a := range d.Attempts[6:] {
			triggers = append(triggers, a.Trigger)
		}
		if d := cmp.Diff([]delivery.Trigger{delivery.Scheduled, delivery.Manual, delivery.Manual}, triggers); d != "" {
			t.Errorf("triggers (-want +got):\n%s", d)
		}
		if health := h.store.healthOf(id); health != (delivery.WebhookHealth{}) {
			t.Errorf("health after a manual success: %+v", health)
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
		{"new", delivery.Delivery{}, schedule},
		{"retry", delivery.Delivery{Attempts: tried, Error: "status 500"}, schedule},
		{"manual", delivery.Delivery{Attempts: tried, Error: "status 500", Single: true}, manual},
		{"manual, cancelled before the first", delivery.Delivery{Error: delivery.Cancelled, Single: true}, manual},
		{"test", delivery.Delivery{Type: signal.WebhookTest}, schedule},
		{"test of a disabled webhook", delivery.Delivery{Type: signal.WebhookTest, Single: true}, schedule},
		{"manual test", delivery.Delivery{Type: signal.WebhookTest, Attempts: tried, Single: true}, manual},
		{"manual test, cancelled before the first",
			delivery.Delivery{Type: signal.WebhookTest, Error: delivery.Cancelled, Single: true}, manual},
	} {
		if test.d.Type == "" {
			test.d.Type = signal.SignalCreated
		}
		if got := triggerOf(&test.d); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Deliveries that do not fit into memory go through Redis: each event is sent once.
func TestMoreThanFits(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		h.store.takes = 2 * time.Millisecond
		h.sender.script(after(20*time.Millisecond, answers200))
		h.start()
		var events []signal.EventID
		for range 6 {
			events = append(events, h.emit(500)...)
			pass(700 * time.Millisecond)
		}
		pass(time.Minute)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": 3000})
		if h.store.count("DueDeliveries") < 10 {
			t.Error("nothing went through Redis")
		}
	})
}

// Deliveries that did not fit are read as soon as there is room.
func TestMoreThanFitsDoesNotWaitForAScan(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(20*time.Millisecond, answers200))
		pass(time.Second)
		events := h.emit(500)
		pass(2 * time.Second) // before the next scan
		h.once(id, events)
	})
}

// An endpoint that answers slowly is in the slow class, too.
func TestSlowAnswers(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(2*time.Second, answers200))
		h.emit(30)
		pass(3 * time.Second)
		h.sender.peak(h.url(id))
		pass(20 * time.Second)
		h.peak(id, 1)
	})
}

// Waiting deliveries are sent in the order of their events, the backlog first.
func TestOrderOfSending(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, h *harness) {
		id := h.register()
		want := h.backlogged(id, 8)
		h.sender.script(after(time.Second, answers200))
		h.start() // the first of the backlog is in flight now
		for _, e := range h.emit(8) {
			want = append(want, signal.DeliveryIDOf(e, id))
		}
		pass(time.Minute)
		var got []signal.DeliveryID
		for _, s := range h.sender.sent(h.url(id)) {
			got = append(got, s.Delivery)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
	})
}

func TestSlowStartAfterAnOutage(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503)
		h.emit(40)
		synctest.Wait()
		h.sender.script(after(time.Second, answers200))
		h.sender.peak(h.url(id))
		pass(29 * time.Second)
		var got []int
		for range 6 {
			h.sender.peak(h.url(id))
			pass(time.Second)
			got = append(got, h.sender.peak(h.url(id)))
		}
		if d := cmp.Diff([]int{0, 1, 2, 4, 8, 8}, got); d != "" {
			t.Errorf("requests at once by second (-want +got):\n%s", d)
		}
		pass(10 * time.Second)
		h.statuses(id, map[string]int{"succeeded": 40})
	})
}

// An endpoint that hangs gets one request at a time, in the slow class, until it
// answers fast again.
func TestSlowClass(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.Schedule.Retries = []time.Duration{time.Hour} }, func(t *testing.T, h *harness) {
		id := h.serve(hangs)
		h.emit(60)
		pass(16 * time.Second) // eight timeouts
		h.sender.peak(h.url(id))
		pass(time.Minute)
		h.peak(id, 1)
		h.node.limiter.mu.Lock()
		slow, used := h.node.limiter.slowUsed, h.node.limiter.used
		h.node.limiter.mu.Unlock()
		if slow != 1 || used != 1 {
			t.Errorf("%d slots are taken, %d by the slow class; want 1 and 1", used, slow)
		}
		h.sender.script(after(100*time.Millisecond, answers200))
		pass(30 * time.Second)
		h.peak(id, DefaultConcurrency)
		pass(2 * time.Hour)
		h.statuses(id, map[string]int{"succeeded": 60})
	})
}
