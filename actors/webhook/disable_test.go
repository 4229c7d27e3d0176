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
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(answers503)
		begin := w.store.now()
		for w.store.now().Sub(begin) < 71*time.Hour {
			w.emit(1)
			pass(30 * time.Second)
			w.jump(29*time.Minute + 30*time.Second)
		}
		fail := delivery.MailWebhookFailing
		if got := w.store.healthOf(id); !got.FailingSince.Equal(begin) || got.Warned != 2 {
			t.Errorf("health %+v", got)
		}
		w.mails(fail, fail)
		sending := len(w.sender.sent())
		for range 4 {
			w.emit(1)
			pass(time.Minute)
			w.jump(29 * time.Minute)
		}
		if len(w.sender.sent()) == sending {
			t.Error("there were no attempts until the end")
		}
		hook := w.store.hook(id)
		after := hook.DisabledAt.Sub(begin)
		if hook.Status != delivery.WebhookDisabled || hook.DisabledReason != delivery.DisabledFailing ||
			after < 72*time.Hour || after > 73*time.Hour || !hook.UpdatedAt.Equal(hook.DisabledAt) {
			t.Errorf("record %+v", hook)
		}
		w.mails(fail, fail, delivery.MailWebhookDisabled)
		notices := peek(w.store, func() []signal.Event { return w.store.notices })
		want := `{"message":"Webhook ` + string(id) + ` was disabled after 72 hours of failures.",` +
			`"severity":"warning","code":"webhook_disabled"}`
		if len(notices) != 1 || notices[0].Type != signal.SystemNotification || notices[0].Account != w.account ||
			string(notices[0].Data) != want {
			t.Errorf("notification %+v", notices)
		}
		for text, n := range w.store.statuses(id) {
			if text != "failed, status 503" && text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		if w.store.statuses(id)["failed, cancelled"] == 0 {
			t.Error("no pending delivery was cancelled")
		}
		// Nothing more happens, and nothing is recorded.
		recorded := func() int { return len(w.store.deliveries) }
		n, requests := peek(w.store, recorded), len(w.sender.sent())
		w.emit(3)
		pass(time.Minute)
		w.jump(48 * time.Hour)
		pass(time.Minute)
		if peek(w.store, recorded) != n || len(w.sender.sent()) != requests {
			t.Error("events are recorded for a disabled webhook")
		}
		if got := w.counted("agentsignal_webhook_disabled_total"); got["failing"] != 1 || got["manual"] != 0 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		w.sender.script(nil)
		w.store.enable(id)
		synctest.Wait()
		events := w.emit(1)
		pass(time.Second)
		w.once(id, events)
		w.mails(fail, fail, delivery.MailWebhookDisabled)
	})
}

// mails checks the kinds of the stored mails, by time.
func (w *world) mails(want ...delivery.MailKind) {
	w.t.Helper()
	if got := w.store.kinds(); !slices.Equal(got, want) {
		w.t.Errorf("mails %v, want %v", got, want)
	}
}

// A record that changes while the endpoint disables the webhook is not overwritten; the
// next failure disables it.
func TestAChangeDuringDisabling(t *testing.T) {
	inWorldWith(t, func(o *Options) { o.Health.DisableAfter = time.Hour }, func(t *testing.T, w *world) {
		id := w.serve(answers503)
		for range 3 {
			w.emit(1)
			pass(19 * time.Minute)
		}
		crossed := false
		w.store.set(func() {
			w.store.fail = func(op string) (error, bool) {
				if op == "StoreOutcomes" && !crossed && time.Since(w.store.health[id].FailingSince) > time.Hour {
					crossed = true
					hook := w.store.webhooks[id]
					hook.URL = "https://example.com/changed"
					w.store.save(hook)
				}
				return nil, false
			}
		})
		w.emit(1)
		pass(10 * time.Minute)
		w.emit(1)
		pass(10 * time.Minute)
		hook := w.store.hook(id)
		if !crossed || hook.Status != delivery.WebhookDisabled || hook.URL != "https://example.com/changed" {
			t.Errorf("crossed: %t, record %+v", crossed, hook)
		}
		if n := peek(w.store, func() int { return len(w.store.notices) }); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}
		w.mails(delivery.MailWebhookDisabled)
		if got := w.store.statuses(id)["pending"]; got != 0 {
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
func (w *world) failed(id signal.WebhookID, ago time.Duration, warned int) {
	w.store.health[id] = delivery.WebhookHealth{FailingSince: time.Now().Add(-ago), Failures: 10, Warned: warned}
}

// A record that was read before an outcome was stored does not restore an old failure.
func TestARecordThatComesLate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.failed(id, 30*time.Hour, 1)
		w.sender.script(after(50*time.Millisecond, answers200))
		w.start()
		w.emit(1)
		pass(10 * time.Millisecond)
		w.store.set(func() { w.store.late = slow("Webhook", 100*time.Millisecond) })
		w.store.change(id, func(h *delivery.Webhook) { h.Description = new(string) })
		pass(time.Second)
		w.mails(delivery.MailWebhookRecovered)
		w.emit(1)
		pass(time.Second)
		w.mails(delivery.MailWebhookRecovered)
	})
}

// Enabling an enabled webhook clears its failures, including those being stored.
func TestFailuresAreClearedManually(t *testing.T) {
	t.Parallel()
	for name, storing := range map[string]time.Duration{"stored": 0, "being stored": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.register()
				w.failed(id, 71*time.Hour, 2)
				w.sender.script(answers503)
				w.start()
				w.store.set(func() { w.store.early = slow("StoreOutcomes", storing) })
				w.emit(1)
				pass(time.Second)
				w.store.enable(id)
				pass(5 * time.Second)
				w.jump(2 * time.Hour)
				w.emit(5)
				pass(5 * time.Second)
				status, h := w.store.hook(id).Status, w.store.healthOf(id)
				if status != delivery.WebhookEnabled || h.Warned != 0 || h.Failures == 0 ||
					w.store.now().Sub(h.FailingSince) > time.Minute {
					t.Errorf("%s, health %+v", status, h)
				}
			})
		})
	}
}

func TestDisabledManually(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(answers503)
		w.emit(400)
		pass(5 * time.Second)
		w.sender.script(after(10*time.Second, answers503)) // eight are in flight when it is disabled
		w.emit(300)
		pass(time.Second)
		w.store.disable(id)
		pass(time.Minute)
		for text, n := range w.store.statuses(id) {
			if text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		n := len(w.sender.sent())
		pass(3 * time.Hour)
		w.attempts(n)
		if got := w.counted("agentsignal_webhook_disabled_total")["manual"]; got != 1 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		// A test is still sent, once.
		w.sender.script(answers503)
		test := w.pendingDelivery(id, dueTime(time.Now()))
		test.Type = signal.WebhookTest
		w.store.create(test, "test")
		pass(3 * time.Hour)
		w.attempts(n + 1)
		if got := w.store.statuses(id)["failed, status 503"]; got != 1 {
			t.Errorf("%d tests have failed, want 1", got)
		}

		w.sender.script(nil)
		w.store.enable(id)
		synctest.Wait()
		w.once(id, w.emitted(20))
	})
}

// emitted appends n events and waits for their delivery.
func (w *world) emitted(n int) []signal.EventID {
	events := w.emit(n)
	pass(time.Minute)
	return events
}

// The pending deliveries of a webhook that is disabled while its partition has no owner are
// cancelled by the next owner.
func TestDisabledWithoutAnOwner(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.backlogged(id, 250)
		w.store.set(func() {
			for _, d := range w.store.deliveries {
				d.NextAttemptAt = d.NextAttemptAt.Add(8 * time.Hour)
			}
		})
		w.store.disable(id)
		w.store.position = w.end() // the last owner has handled it
		w.start()
		pass(time.Second)
		w.statuses(id, map[string]int{"failed, cancelled": 250})
	})
}
