package webhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
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
			if n := len(w.courier.sent()); n > maxUnstored {
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.store.takes = time.Millisecond
		ids := []signal.WebhookID{w.register(), w.register(), w.register()}
		w.courier.script(after(5*time.Millisecond, answers200))
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register()
		w.courier.script(after(time.Second, answers200))
		w.start()
		w.emit(20)
		pass(1500 * time.Millisecond) // the first eight are stored, eight more under way
		w.store.set(func() { w.store.epoch = 2 })
		pass(time.Second)
		if n := w.losses(); n != 1 {
			t.Errorf("the owner was told %d times that it is none", n)
		}
		n := len(w.courier.sent())
		pass(time.Hour)
		if got := len(w.courier.sent()); got != n {
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
		first.courier.script(after(time.Second, answers200))
		first.start()
		first.emit(20)
		first.store.set(func() { first.store.early = slow("StoreOutcomes", 100*time.Millisecond) })
		pass(1050 * time.Millisecond) // the outcomes of eight are being stored
		first.owner.Tell("stop")
		pass(time.Second)
		for _, s := range first.courier.sent()[8:] {
			if !s.cancelled {
				t.Error("a request goes on after its owner has ended")
			}
		}
		first.statuses(id, map[string]int{"succeeded": 8, "pending": 12})
		if n := len(first.courier.sent()); n != 16 {
			t.Errorf("%d requests, want 16", n)
		}

		second := newWorld(t)
		second.store, second.node.store = first.store, first.store
		second.start()
		pass(time.Second)
		first.statuses(id, map[string]int{"succeeded": 20})
		n := map[signal.EventID]int{}
		for _, s := range second.courier.sent() {
			n[s.Event]++
		}
		if len(n) != 12 {
			t.Errorf("%d deliveries are sent by the next owner, want 12", len(n))
		}
	})
}

func TestDisabledAfterThreeDays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(answers503)
		w.start()
		begin := w.store.now()
		for w.store.now().Sub(begin) < 71*time.Hour {
			w.emit(1)
			pass(30 * time.Second)
			w.jump(29*time.Minute + 30*time.Second)
		}
		if got := w.store.healthOf(id); !got.FailingSince.Equal(begin) || got.Warned != 2 {
			t.Errorf("health %+v", got)
		}
		w.mails(signal.MailWebhookFailing, signal.MailWebhookFailing)
		sending := len(w.courier.sent())
		for range 4 {
			w.emit(1)
			pass(time.Minute)
			w.jump(29 * time.Minute)
		}
		if len(w.courier.sent()) == sending {
			t.Error("it was not tried to the end")
		}
		hook := w.store.hook(id)
		if hook.Status != signal.WebhookDisabled || hook.DisabledReason != signal.DisabledFailing ||
			hook.DisabledAt.Sub(begin) < 72*time.Hour || hook.DisabledAt.Sub(begin) > 73*time.Hour || !hook.UpdatedAt.Equal(hook.DisabledAt) {
			t.Errorf("record %+v", hook)
		}
		w.mails(signal.MailWebhookFailing, signal.MailWebhookFailing, signal.MailWebhookDisabled)
		notices := peek(w.store, func() []signal.Event { return w.store.notices })
		if len(notices) != 1 || notices[0].Type != signal.SystemNotification || notices[0].Account != w.account ||
			string(notices[0].Data) != `{"message":"Webhook `+string(id)+` was disabled after 72 hours of failures.","severity":"warning","code":"webhook_disabled"}` {
			t.Errorf("notification %+v", notices)
		}
		for text, n := range w.store.statuses(id) {
			if text != "failed, status 503" && text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		if w.store.statuses(id)["failed, cancelled"] == 0 {
			t.Error("no pending delivery was given up")
		}
		// Nothing more happens, and nothing is recorded.
		recorded := func() int { return len(w.store.deliveries) }
		n, requests := peek(w.store, recorded), len(w.courier.sent())
		w.emit(3)
		pass(time.Minute)
		w.jump(48 * time.Hour)
		pass(time.Minute)
		if peek(w.store, recorded) != n || len(w.courier.sent()) != requests {
			t.Error("events are recorded for a webhook that is disabled")
		}
		if got := w.counted("agentsignal_webhook_disabled_total"); got["failing"] != 1 || got["manual"] != 0 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		w.courier.script(nil)
		w.store.enable(id)
		synctest.Wait()
		events := w.emit(1)
		pass(time.Second)
		w.once(id, events)
		w.mails(signal.MailWebhookFailing, signal.MailWebhookFailing, signal.MailWebhookDisabled)
	})
}

// mails checks what mails there are, by their time.
func (w *world) mails(want ...signal.MailKind) {
	w.t.Helper()
	got := w.store.kinds()
	if len(got) != len(want) {
		w.t.Errorf("mails %v, want %v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			w.t.Errorf("mails %v, want %v", got, want)
		}
	}
}

func TestAWarnedWebhookRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(answers503)
		w.start()
		for range 30 {
			w.emit(1)
			pass(30 * time.Second)
			w.jump(59*time.Minute + 30*time.Second)
		}
		w.mails(signal.MailWebhookFailing)
		w.courier.script(nil)
		w.emit(2)
		pass(time.Minute)
		w.jump(10 * time.Hour)
		pass(time.Minute)
		w.mails(signal.MailWebhookFailing, signal.MailWebhookRecovered)
		if h := w.store.healthOf(id); h != (signal.WebhookHealth{}) {
			t.Errorf("health %+v", h)
		}
		if w.store.hook(id).Status != signal.WebhookEnabled {
			t.Error("it is disabled")
		}
	})
}

// A record that is changed while the endpoint disables the webhook is not overwritten;
// the next failure disables it.
func TestAChangeAndDisablingCross(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Health.DisableAfter = time.Hour })
		id := w.register()
		w.courier.script(answers503)
		w.start()
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
		if !crossed || hook.Status != signal.WebhookDisabled || hook.URL != "https://example.com/changed" {
			t.Errorf("crossed: %t, record %+v", crossed, hook)
		}
		if n := peek(w.store, func() int { return len(w.store.notices) }); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}
		w.mails(signal.MailWebhookDisabled)
		if got := w.store.statuses(id)["pending"]; got != 0 {
			t.Errorf("%d deliveries are pending", got)
		}
	})
}

// A record that was read before an outcome was stored does not bring a failure back
// that is over.
func TestARecordThatComesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.store.health[id] = signal.WebhookHealth{FailingSince: time.Now().Add(-30 * time.Hour), Failures: 10, Warned: 1}
		w.courier.script(after(50*time.Millisecond, answers200))
		w.start()
		w.emit(1)
		pass(10 * time.Millisecond)
		w.store.set(func() { w.store.late = slow("Webhook", 100*time.Millisecond) })
		w.store.change(id, func(h *signal.Webhook) { h.Description = new(string) })
		pass(time.Second)
		w.mails(signal.MailWebhookRecovered)
		w.emit(1)
		pass(time.Second)
		w.mails(signal.MailWebhookRecovered)
	})
}

// To enable a webhook that is enabled forgets its failures, too.
func TestFailuresAreForgottenByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.store.health[id] = signal.WebhookHealth{FailingSince: time.Now().Add(-71 * time.Hour), Failures: 10, Warned: 2}
		w.courier.script(answers503)
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.enable(id)
		pass(time.Second)
		w.jump(2 * time.Hour)
		w.emit(5)
		pass(time.Second)
		if h := w.store.healthOf(id); w.store.hook(id).Status != signal.WebhookEnabled || h.Warned != 0 || h.Failures == 0 || w.store.now().Sub(h.FailingSince) > time.Minute {
			t.Errorf("%s, health %+v", w.store.hook(id).Status, h)
		}
	})
}

func TestDisabledByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(answers503)
		w.start()
		w.emit(400)
		pass(5 * time.Second)
		w.courier.script(after(10*time.Second, answers503)) // eight are under way when it is disabled
		w.emit(300)
		pass(time.Second)
		w.store.disable(id)
		pass(time.Minute)
		for text, n := range w.store.statuses(id) {
			if text != "failed, cancelled" {
				t.Errorf("%d deliveries are %s", n, text)
			}
		}
		n := len(w.courier.sent())
		pass(3 * time.Hour)
		if got := len(w.courier.sent()); got != n {
			t.Errorf("%d requests after it was disabled", got-n)
		}
		if got := w.counted("agentsignal_webhook_disabled_total")["manual"]; got != 1 {
			t.Errorf("disabled webhooks counted: %v", got)
		}

		// A test is sent nevertheless, once.
		w.courier.script(answers503)
		e := signal.NewEventID()
		w.store.create(signal.Delivery{ID: signal.NewDeliveryID(), Webhook: id, Account: w.account, Event: e, Type: signal.WebhookTest,
			Status: signal.DeliveryPending, CreatedAt: time.Now(), NextAttemptAt: dueTime(time.Now())}, "test")
		pass(3 * time.Hour)
		if got := len(w.courier.sent()); got != n+1 {
			t.Errorf("%d attempts of a test, want 1", got-n)
		}
		if got := w.store.statuses(id)["failed, status 503"]; got != 1 {
			t.Errorf("%d tests have failed, want 1", got)
		}

		w.courier.script(nil)
		w.store.enable(id)
		synctest.Wait()
		w.once(id, w.emitted(20))
	})
}

// emitted appends n events and lets them be delivered.
func (w *world) emitted(n int) []signal.EventID {
	events := w.emit(n)
	pass(time.Minute)
	return events
}

// Deliveries that are pending when nobody owns the partition of a webhook that is
// disabled are seen to by the next owner.
func TestDisabledWhileNobodyOwnedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.backlogged(id, 250)
		w.store.set(func() {
			for _, d := range w.store.deliveries {
				d.NextAttemptAt = d.NextAttemptAt.Add(8 * time.Hour)
			}
		})
		w.store.disable(id)
		w.store.position = w.store.log[len(w.store.log)-1].Position // the last owner has seen it
		w.start()
		pass(time.Second)
		w.statuses(id, map[string]int{"failed, cancelled": 250})
	})
}

func TestRemovedWhileInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, other := w.register(), w.register()
		w.courier.script(after(10*time.Second, answers200))
		w.start()
		w.emit(20)
		pass(time.Second)
		w.store.remove(id)
		pass(time.Millisecond)
		for _, s := range w.courier.sent(w.url(id)) {
			if !s.cancelled {
				t.Error("a request of a webhook that was removed goes on")
			}
		}
		pass(3 * time.Minute)
		if n := len(w.courier.sent(w.url(id))); n != 8 {
			t.Errorf("%d requests, want 8", n)
		}
		if got := w.store.statuses(id); len(got) != 0 {
			t.Errorf("stored %v", got)
		}
		w.statuses(other, map[string]int{"succeeded": 20})
		pass(5 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor", n)
		}
	})
}

func TestAccountDeletedWhileInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(after(10*time.Second, answers200))
		w.start()
		w.emit(20)
		pass(time.Second)
		w.store.set(func() {
			clear(w.store.webhooks)
			clear(w.store.deliveries)
			w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.AccountDeleted})
		})
		pass(time.Millisecond)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor", n)
		}
		for _, s := range w.courier.sent() {
			if !s.cancelled {
				t.Error("a request of an account that was deleted goes on")
			}
		}
		pass(time.Minute)
		if n := len(w.courier.sent(w.url(id))); n != 8 {
			t.Errorf("%d requests, want 8", n)
		}
	})
}

func TestCancelledByHandWhileInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(after(10*time.Second, answers503))
		w.start()
		events := w.emit(2)
		pass(time.Second)
		d := signal.DeliveryIDOf(events[0], id)
		w.store.cancel(d)
		pass(20 * time.Second)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "pending, status 503": 1})
		if got := w.store.delivery(d); len(got.Attempts) != 0 {
			t.Errorf("stored %+v", got)
		}

		// Cancelled and retried while it is in flight: the attempt by hand is made, too.
		other := signal.DeliveryIDOf(events[1], id)
		pass(25 * time.Second) // its first retry is under way
		if n := len(w.courier.sent()); n != 3 {
			t.Fatalf("%d attempts, want 3", n)
		}
		w.store.cancel(other)
		pass(time.Second)
		w.store.retry(other)
		pass(time.Hour)
		w.statuses(id, map[string]int{"failed, cancelled": 1, "failed, status 503": 1})
		if n := len(w.courier.sent()); n != 4 {
			t.Errorf("%d attempts, want one more", n-3)
		}
	})
}

// A delivery that waits and is cancelled is not sent.
func TestCancelledByHandWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Concurrency = 1 })
		id := w.register()
		w.courier.script(after(time.Second, answers200))
		w.start()
		events := w.emit(5)
		pass(500 * time.Millisecond) // one of the five is under way
		underWay := w.courier.sent()[0].Event
		for _, e := range events {
			if e != underWay {
				w.store.cancel(signal.DeliveryIDOf(e, id))
			}
		}
		pass(time.Minute)
		if n := len(w.courier.sent()); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
		w.statuses(id, map[string]int{"failed, cancelled": 4, "succeeded": 1})
	})
}

func TestASecretThatNoKeyOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lost := newKeyring(t, keyNamed("lost", 9))
		id := w.register()
		good := w.store.hook(id).Secret
		w.store.change(id, func(h *signal.Webhook) { h.Secret = lost.Seal([]byte("secret"), string(h.ID)) })
		healthy := w.register()
		w.start()
		events := w.emit(300)
		for range 20 { // a change is no reason to try it more often from then on
			w.store.change(id, func(h *signal.Webhook) { h.URL += "x" })
			pass(time.Second)
		}
		reads := w.store.count("Webhook")
		pass(10 * time.Minute)
		if n := w.store.count("Webhook") - reads; n > 12 {
			t.Errorf("the record is read %d times in 10 minutes", n)
		}
		if n := len(w.courier.sent()); n != 300 {
			t.Errorf("%d requests, want 300, to the other webhook only", n)
		}
		w.statuses(id, map[string]int{"pending": 300})
		if w.lines.count("secret of a webhook cannot be opened") == 0 {
			t.Error("nothing is logged")
		}
		w.once(healthy, events)
		w.store.change(id, func(h *signal.Webhook) { h.Secret, h.URL = good, w.url(id) })
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 300})
	})
}

func TestTwoSecretsUntilTheOverlapEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.set(func() { w.store.late = slow("Webhook", 50*time.Millisecond) })
		until := w.store.now().Add(24 * time.Hour)
		w.store.change(id, func(h *signal.Webhook) {
			h.PreviousSecret, h.PreviousUntil = h.Secret, until
			h.Secret = w.keys.Seal([]byte("new"), string(id))
		})
		w.emit(1) // before the new record is read
		pass(time.Second)
		w.jump(24*time.Hour - time.Second)
		w.emit(1)
		pass(time.Second)
		want := [][]string{{"secret"}, {"new", "secret"}, {"new"}}
		all := w.courier.sent()
		if len(all) != 3 {
			t.Fatalf("%d attempts, want 3", len(all))
		}
		for i, s := range all {
			if len(s.Secrets) != len(want[i]) || s.Secrets[0] != want[i][0] || len(want[i]) == 2 && s.Secrets[1] != want[i][1] {
				t.Errorf("attempt %d is signed with %v, want %v", i+1, s.Secrets, want[i])
			}
		}
	})
}

// An old secret that no key opens any more is in nobody's way once it has ended.
func TestAnOldSecretThatNoKeyOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lost := newKeyring(t, keyNamed("lost", 9))
		id := w.register(func(h *signal.Webhook) {
			h.PreviousSecret, h.PreviousUntil = lost.Seal([]byte("old"), string(h.ID)), time.Now().Add(time.Hour)
		})
		pass(2 * time.Hour)
		w.start()
		w.once(id, w.emitted(1))
		if s := w.courier.sent()[0].Secrets; len(s) != 1 {
			t.Errorf("signed with %d secrets, want 1", len(s))
		}
	})
}

func TestSecretsAreSealedWithTheNewestKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register(func(h *signal.Webhook) {
			h.PreviousSecret, h.PreviousUntil = w.keys.Seal([]byte("old"), string(h.ID)), time.Now().Add(24*time.Hour)
		})
		quiet := w.register(func(h *signal.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
		w.node.keys = newKeyring(t, keyNamed("2027", 2), keyNamed("2026", 1))
		w.start()
		events := w.emit(1)
		pass(time.Minute)
		w.once(id, events)
		for _, id := range []signal.WebhookID{id, quiet} {
			hook := w.store.hook(id)
			if w.node.keys.outdated(&hook, time.Now()) {
				t.Errorf("%s: not sealed with the newest key", id)
			}
			secret, err := w.node.keys.Open(hook.Secret, string(id))
			if err != nil || string(secret) != "secret" {
				t.Errorf("%s: secret %q, %v", id, secret, err)
			}
		}
	})
}

// endpoints returns how many endpoints have an actor.
func (w *world) endpoints() int {
	families, err := w.actors.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "agentsignal_actor_running" && m.GetLabel()[0].GetValue() == string(engine.Webhook) {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	w.t.Fatal("actors are not counted")
	return 0
}

// Whatever has nothing to do for a minute ends, and is there again when it is needed.
func TestPassivation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 50 {
			w.register()
		}
		w.start()
		w.emit(3)
		pass(30 * time.Second)
		if n := w.endpoints(); n != 50 {
			t.Errorf("%d endpoints have an actor, want 50", n)
		}
		pass(2 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor after two minutes, want 0", n)
		}
		w.emit(1)
		pass(time.Second)
		if n := len(w.courier.sent()); n != 200 {
			t.Errorf("%d requests, want 200", n)
		}
	})
}

// A message that comes in the moment in which an endpoint rests is not lost.
func TestAMessageAtTheMomentOfRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.start()
		var events []signal.EventID
		for i := range 40 { // around the second look, a minute or two after the start
			events = append(events, w.emit(1)...)
			pass(2*time.Minute + time.Duration(i-20)*time.Millisecond)
		}
		for range 40 {
			events = append(events, w.emit(1)...)
			time.Sleep(time.Minute) // exactly when it looks
		}
		pass(time.Second)
		w.once(id, events)
		for _, s := range w.courier.sent() {
			if late := s.At.Sub(w.store.delivery(s.Delivery).CreatedAt); late > time.Second {
				t.Errorf("sent %v late", late)
			}
		}
	})
}

// probe is the partition's webhooks, to which a test may tell what to do.
type probe struct{ *webhooks }

func (p probe) Receive(c engine.Context) {
	if f, ok := c.Message().(func(engine.Context, *webhooks)); ok {
		f(c, p.webhooks)
		return
	}
	p.webhooks.Receive(c)
}

// An endpoint that wants to end while a message is under way to it stays.
func TestRestNeedsTheParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		id := w.register()
		o := &owned{Node: w.node, epoch: 1, log: w.node.log}
		o.recorder = newRecorder(o)
		parent := w.system.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return probe{newWebhooks(o)} }, engine.Supervision{})
		parent.Tell(webhookPoked{w.account, id})
		synctest.Wait()
		parent.Tell(func(c engine.Context, p *webhooks) {
			e := p.children[id]
			p.tell(c, w.account, id, look{})
			p.onResting(c, resting{id: id, ref: e.ref, heard: 1}) // sent before it heard of look
			if p.children[id] != e {
				t.Error("it was ended with a message in its mailbox")
			}
		})
		synctest.Wait()
		if n := w.endpoints(); n != 1 {
			t.Errorf("%d endpoints have an actor, want 1", n)
		}
		pass(3 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor at last, want 0", n)
		}
	})
}

// Whoever has something due soon does not rest.
func TestNoRestBeforeARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// It looks at 61 s and 121 s; the parent scans at 120 s and 125 s.
		w := newWorld(t, func(o *Options) { o.Schedule.Retries = []time.Duration{122500 * time.Millisecond} })
		w.register()
		w.courier.script(answers503)
		w.start()
		pass(time.Second)
		w.emit(1)
		pass(5 * time.Minute)
		all := w.courier.sent()
		if len(all) != 2 || all[1].At.Sub(all[0].ended) > 123*time.Second {
			t.Errorf("%d attempts, the last %v after the first", len(all), all[len(all)-1].At.Sub(all[0].ended))
		}
	})
}

// A delivery may be read from Redis and sent before the endpoint is told of it.
func TestReadBeforeItWasTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.set(func() { w.store.late = slow("StoreDeliveries", 100*time.Millisecond) })
		events := w.emit(1)
		pass(10 * time.Millisecond)
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		synctest.Wait()
		w.once(id, events) // it is not told yet
		pass(time.Second)
		w.once(id, events)
	})
}

// What is read may be older than an outcome that was stored meanwhile.
func TestDoneWhileAPageIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.courier.script(after(60*time.Millisecond, answers200))
		w.start()
		w.emit(1)
		pass(time.Second)
		w.store.set(func() {
			w.store.early = func(op string) time.Duration {
				return slow("DueDeliveries", 50*time.Millisecond)(op) + slow("StoreDeliveries", 10*time.Millisecond)(op)
			}
			w.store.late = slow("DueDeliveries", 100*time.Millisecond)
		})
		events := w.emit(1) // it is under way when Redis reads, and done when the page arrives
		pass(5 * time.Millisecond)
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		pass(time.Second)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 2})
	})
}

// What is read may be older than a change by hand.
func TestCancelledWhileAPageIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		w.start()
		w.emit(1)
		pass(time.Second)
		d := w.backlogged(id, 1)[0]
		w.store.set(func() { w.store.late = slow("DueDeliveries", 100*time.Millisecond) })
		w.recorder.parent.Tell(webhookPoked{w.account, id})
		pass(10 * time.Millisecond)
		w.store.cancel(d)
		pass(time.Second)
		if n := len(w.courier.sent()); n != 1 {
			t.Errorf("%d attempts, want 1: a delivery is sent after it was cancelled", n)
		}
	})
}

func TestTenThousandFailingDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Schedule.Retries = []time.Duration{time.Minute, 2 * time.Minute} })
		id, healthy := w.register(), w.register(func(h *signal.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
		w.courier.script(func(ctx context.Context, r Request) Result {
			if r.URL == w.url(id) {
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
		if most := peek(w.store, func() int { return w.store.mostHeld }); most < maxBacklog || most > maxLive+maxBacklog+lowBacklog+maxUnstored {
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
		if n := len(w.courier.sent(w.url(id))); n != 30_000 {
			t.Errorf("%d attempts, want 30000", n)
		}
	})
}

// An endpoint that panics costs the others nothing, and goes on itself.
func TestAPanicHarmsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, healthy := w.register(), w.register()
		panics := 0
		w.courier.script(func(ctx context.Context, r Request) Result {
			if r.URL == w.url(id) {
				w.courier.mu.Lock()
				panics++
				n := panics
				w.courier.mu.Unlock()
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ids := []signal.WebhookID{w.register(), w.register()}
		w.courier.script(after(time.Second, answers200))
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
func TestUpkeepIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register(func(h *signal.Webhook) { h.Secret = w.keys.Seal([]byte("secret"), string(h.ID)) })
		w.store.fail = func(op string) (error, bool) {
			if op == "PruneDeliveries" && w.store.calls[op] < 4 {
				return errDown, false
			}
			return nil, false
		}
		w.start()
		pass(upkeepStart + 3*upkeepRetry + time.Second)
		if n := w.store.prunings(id); n != 2 {
			t.Errorf("pruned in %d steps, want 2", n)
		}
		pass(upkeepEvery)
		if n := w.store.prunings(id); n != 4 {
			t.Errorf("pruned in %d steps after %v, want 4", n, upkeepEvery)
		}
		w.store.set(func() { w.store.epoch = 2 })
		pass(upkeepEvery)
		if w.losses() != 1 {
			t.Errorf("the owner was told %d times that it is none", w.losses())
		}
	})
}

func TestDeliveriesArePruned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.register()
		quiet := w.register(func(h *signal.Webhook) { h.Events = []signal.EventType{signal.SignalClosed} })
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
