package webhook

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

func TestDisabledAfterThreeDays(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503)
		begin := h.store.now()
		for h.store.now().Sub(begin) < 71*time.Hour {
			h.emit(1)
			pass(30 * time.Second)
			h.jump(29*time.Minute + 30*time.Second)
		}
		fail := delivery.MailWebhookFailing
		if got := h.store.healthOf(id); !got.FailingSince.Equal(begin) || got.Warned != 2 {
			t.Errorf("health %+v", got)
		}
		h.mails(fail, fail)
		sending := len(h.sender.sent())
		for range 4 {
			h.emit(1)
			pass(time.Minute)
			h.jump(29 * time.Minute)
		}
		if len(h.sender.sent()) == sending {
			t.Error("there were no attempts until the end")
		}
		hook := h.store.hook(id)
		after := hook.DisabledAt.Sub(begin)
		if hook.Status != delivery.WebhookDisabled || hook.DisabledReason != delivery.DisabledFailing ||
			after < 72*time.Hour || after > 73*time.Hour || !hook.UpdatedAt.Equal(hook.DisabledAt) {
			t.Errorf("record %+v", hook)
		}
		h.mails(fail, fail, delivery.MailWebhookDisabled)
		notices := peek(h.store, func() []signal.Event { return h.store.notices })
		want := `{"message":"Webhook ` + string(id) + ` was disabled after 72 hours of failures.",` +
			`"severity":"warning","code":"webhook_disabled"}`
		if len(notices) != 1 || notices[0].Type != signal.SystemNotification || notices[0].Account != h.account ||
			string(notices[0].Data) != want {
			t.Errorf("notification %+v", notices)
		}
		for text, n := range h.store.statuses(id) {
			if text != "failed, status 503" && text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		if h.store.statuses(id)["failed, cancelled"] == 0 {
			t.Error("no pending delivery was cancelled")
		}
		// Nothing more happens, and nothing is recorded.
		recorded := func() int { return len(h.store.deliveries) }
		n, requests := peek(h.store, recorded), len(h.sender.sent())
		h.emit(3)
		pass(time.Minute)
		h.jump(48 * time.Hour)
		pass(time.Minute)
		if peek(h.store, recorded) != n || len(h.sender.sent()) != requests {
			t.Error("events are recorded for a disabled webhook")
		}
		if got := h.counted("agentsignal_webhook_disabled_total"); got["failing"] != 1 || got["manual"] != 0 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		h.sender.script(nil)
		h.store.enable(id)
		synctest.Wait()
		events := h.emit(1)
		pass(time.Second)
		h.once(id, events)
		h.mails(fail, fail, delivery.MailWebhookDisabled)
	})
}

// mails checks the kinds of the stored mails, by time.
func (h *harness) mails(want ...delivery.MailKind) {
	h.t.Helper()
	if got := h.store.kinds(); !slices.Equal(got, want) {
		h.t.Errorf("mails %v, want %v", got, want)
	}
}

// A record that changes while the endpoint disables the webhook is not overwritten; the
// next failure disables it.
func TestAChangeDuringDisabling(t *testing.T) {
	withHarnessOptions(t, func(o *Options) { o.Health.DisableAfter = time.Hour }, func(t *testing.T, h *harness) {
		id := h.serve(answers503)
		for range 3 {
			h.emit(1)
			pass(19 * time.Minute)
		}
		crossed := false
		h.store.set(func() {
			h.store.fail = func(op string) (error, bool) {
				if op == "StoreOutcomes" && !crossed && time.Since(h.store.health[id].FailingSince) > time.Hour {
					crossed = true
					hook := h.store.webhooks[id]
					hook.URL = "https://example.com/changed"
					h.store.save(hook)
				}
				return nil, false
			}
		})
		h.emit(1)
		pass(10 * time.Minute)
		h.emit(1)
		pass(10 * time.Minute)
		hook := h.store.hook(id)
		if !crossed || hook.Status != delivery.WebhookDisabled || hook.URL != "https://example.com/changed" {
			t.Errorf("crossed: %t, record %+v", crossed, hook)
		}
		if n := peek(h.store, func() int { return len(h.store.notices) }); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}
		h.mails(delivery.MailWebhookDisabled)
		if got := h.store.statuses(id)["pending"]; got != 0 {
			t.Errorf("%d deliveries are pending", got)
		}
	})
}

// Attempts that fail while the disabling of their webhook waits or is being stored do not disable it again.
func TestAWebhookIsDisabledOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	r := outcomes{health: delivery.WebhookHealth{FailingSince: now.Add(-DefaultDisableAfter), Failures: 9, Warned: 2}}
	fail := func() {
		r.applyHealth(HealthRules{}, &delivery.Webhook{}, &attempt{result: sender.Result{Error: "timeout"}, ended: now})
		r.add(delivery.Delivery{}, &item{})
	}
	fail()
	first := r.waiting.disabled
	fail()
	if r.waiting.disabled != first || first == nil || len(r.waiting.mails) != 1 {
		t.Errorf("a second attempt changes the disabling that waits, or adds to its mail: %+v", r.waiting.mails)
	}
	if _, write := r.prepare(now, &waits{}); !write {
		t.Fatal("nothing is stored")
	}
	fail()
	if w := &r.waiting; w.disabled != nil || w.event != nil || len(w.mails) != 0 || !w.health {
		t.Errorf("another disabling follows the one being stored, with mails %+v", w.mails)
	}
	if o := r.changes(&r.storing); o.Disabled != first || len(o.Mails) != 1 {
		t.Errorf("stored: %+v, mails %+v", o.Disabled, o.Mails)
	}
}

// failed puts the health of a failing webhook into the store.
func (h *harness) failed(id signal.WebhookID, ago time.Duration, warned int) {
	h.store.health[id] = delivery.WebhookHealth{FailingSince: time.Now().Add(-ago), Failures: 10, Warned: warned}
}

// A record that was read before an outcome was stored does not restore an old failure.
func TestARecordThatComesLate(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		h.failed(id, 30*time.Hour, 1)
		h.sender.script(after(50*time.Millisecond, answers200))
		h.start()
		h.emit(1)
		pass(10 * time.Millisecond)
		h.store.set(func() { h.store.late = slow("Webhook", 100*time.Millisecond) })
		h.store.change(id, func(hook *delivery.Webhook) { hook.Description = new(string) })
		pass(time.Second)
		h.mails(delivery.MailWebhookRecovered)
		h.emit(1)
		pass(time.Second)
		h.mails(delivery.MailWebhookRecovered)
	})
}

// Enabling an enabled webhook clears its failures, including those being stored.
func TestFailuresAreClearedManually(t *testing.T) {
	t.Parallel()
	for name, storing := range map[string]time.Duration{"stored": 0, "being stored": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				id := h.register()
				h.failed(id, 71*time.Hour, 2)
				h.sender.script(answers503)
				h.start()
				h.store.set(func() { h.store.early = slow("StoreOutcomes", storing) })
				h.emit(1)
				pass(time.Second)
				h.store.enable(id)
				pass(5 * time.Second)
				h.jump(2 * time.Hour)
				h.emit(5)
				pass(5 * time.Second)
				status, health := h.store.hook(id).Status, h.store.healthOf(id)
				if status != delivery.WebhookEnabled || health.Warned != 0 || health.Failures == 0 ||
					h.store.now().Sub(health.FailingSince) > time.Minute {
					t.Errorf("%s, health %+v", status, health)
				}
			})
		})
	}
}

func TestDisabledManually(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503)
		h.emit(400)
		pass(5 * time.Second)
		h.sender.script(after(10*time.Second, answers503)) // eight are in flight when it is disabled
		h.emit(300)
		pass(time.Second)
		h.store.disable(id)
		pass(time.Minute)
		for text, n := range h.store.statuses(id) {
			if text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		n := len(h.sender.sent())
		pass(3 * time.Hour)
		h.attempts(n)
		if got := h.counted("agentsignal_webhook_disabled_total")["manual"]; got != 1 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		// A test is still sent, once.
		h.sender.script(answers503)
		test := h.pendingDelivery(id, dueTime(time.Now()))
		test.Type = signal.WebhookTest
		h.store.create(test, "test")
		pass(3 * time.Hour)
		h.attempts(n + 1)
		if got := h.store.statuses(id)["failed, status 503"]; got != 1 {
			t.Errorf("%d tests have failed, want 1", got)
		}

		h.sender.script(nil)
		h.store.enable(id)
		synctest.Wait()
		h.once(id, h.emitted(20))
	})
}

// emitted appends n events and waits for their delivery.
func (h *harness) emitted(n int) []signal.EventID {
	events := h.emit(n)
	pass(time.Minute)
	return events
}

// The pending deliveries of a webhook that is disabled while its partition has no owner are
// cancelled by the next owner.
func TestDisabledWithoutAnOwner(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		h.backlogged(id, 250)
		h.store.set(func() {
			for _, d := range h.store.deliveries {
				d.NextAttemptAt = d.NextAttemptAt.Add(8 * time.Hour)
			}
		})
		h.store.disable(id)
		h.store.position = h.end() // the last owner has handled it
		h.start()
		pass(time.Second)
		h.statuses(id, map[string]int{"failed, cancelled": 250})
	})
}
