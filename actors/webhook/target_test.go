package webhook

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

func TestASecretThatNoKeyOpens(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		lost := ringOf(t, "lost")
		id := h.register()
		good := h.store.hook(id).Secret
		h.store.change(id, func(hook *delivery.Webhook) { hook.Secret = lost.Seal([]byte("secret"), string(hook.ID)) })
		healthy := h.serve(nil)
		events := h.emit(300)
		for range 20 { // a change must not cause more frequent tries
			h.store.change(id, func(hook *delivery.Webhook) { hook.URL += "x" })
			pass(time.Second)
		}
		reads := h.store.count("Webhook")
		pass(10 * time.Minute)
		if n := h.store.count("Webhook") - reads; n > 12 {
			t.Errorf("the record is read %d times in 10 minutes", n)
		}
		h.attempts(300)
		h.statuses(id, map[string]int{"pending": 300}) // the requests go to the other webhook
		if h.lines.count("secret of a webhook cannot be opened") == 0 {
			t.Error("nothing is logged")
		}
		h.once(healthy, events)
		h.store.change(id, func(hook *delivery.Webhook) { hook.Secret, hook.URL = good, h.url(id) })
		pass(time.Minute)
		h.once(id, events)
		h.statuses(id, map[string]int{"succeeded": 300})
	})
}

func TestTwoSecretsUntilTheOverlapEnds(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		h.emit(1)
		pass(time.Second)
		h.store.set(func() { h.store.late = slow("Webhook", 50*time.Millisecond) })
		until := h.store.now().Add(24 * time.Hour)
		h.store.change(id, func(hook *delivery.Webhook) {
			hook.PreviousSecret, hook.PreviousUntil = hook.Secret, until
			hook.Secret = h.keys.Seal([]byte("new"), string(id))
		})
		h.emit(1) // before the new record is read
		pass(time.Second)
		h.jump(24*time.Hour - time.Second)
		h.emit(1)
		pass(time.Second)
		want := [][]string{{"secret"}, {"new", "secret"}, {"new"}}
		all := h.attempts(3)
		for i, s := range all {
			if d := cmp.Diff(sender.NewDestination(h.url(id), want[i]...), s.To, byEffect); d != "" {
				t.Errorf("attempt %d (-want +got):\n%s", i+1, d)
			}
		}
	})
}

// An old secret that no key opens any more does not matter once it has ended.
func TestAnOldSecretThatNoKeyOpens(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		lost := ringOf(t, "lost")
		id := h.register(func(hook *delivery.Webhook) {
			hook.PreviousSecret = lost.Seal([]byte("old"), string(hook.ID))
			hook.PreviousUntil = time.Now().Add(time.Hour)
		})
		pass(2 * time.Hour)
		h.start()
		h.once(id, h.emitted(1))
		if d := cmp.Diff(sender.NewDestination(h.url(id), "secret"), h.sender.sent()[0].To, byEffect); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
	})
}

func TestSecretsAreSealedWithTheNewestKey(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register(func(hook *delivery.Webhook) {
			hook.PreviousSecret, hook.PreviousUntil = h.keys.Seal([]byte("old"), string(hook.ID)), time.Now().Add(24*time.Hour)
		})
		quiet := h.register(onlyClosed)
		h.node.keys = ringOf(t, "2027", "2026")
		h.start()
		events := h.emit(1)
		pass(time.Minute)
		h.once(id, events)
		for _, id := range []signal.WebhookID{id, quiet} {
			hook := h.store.hook(id)
			if outdated(h.node.keys, &hook, time.Now()) {
				t.Errorf("%s: not sealed with the newest key", id)
			}
			secret, err := h.node.keys.Open(hook.Secret, string(id))
			if err != nil || string(secret) != "secret" {
				t.Errorf("%s: secret %q, %v", id, secret, err)
			}
		}
	})
}

// A secret that could not be stored is sealed again in the next pass: the operator will
// remove the older key.
func TestSecretsAreSealedInEveryPass(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		h.node.keys = ringOf(t, "2027", "2026")
		down := true
		h.store.fail = failIf(false, func(op string) bool { return op == "ChangeWebhook" && down })
		h.start()
		pass(time.Minute)
		if n := h.lines.count("secret is not sealed with the newest key"); n != 2 { // by endpoint and maintenance
			t.Fatalf("%d failures are logged, want 2", n)
		}
		h.store.set(func() { down = false })
		pass(maintenanceEvery)
		if hook := h.store.hook(id); outdated(h.node.keys, &hook, time.Now()) {
			t.Error("not sealed with the newest key")
		}
	})
}
