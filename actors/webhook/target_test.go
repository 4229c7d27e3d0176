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
	inWorld(t, func(t *testing.T, w *world) {
		lost := ringOf(t, "lost")
		id := w.register()
		good := w.store.hook(id).Secret
		w.store.change(id, func(h *delivery.Webhook) { h.Secret = lost.Seal([]byte("secret"), string(h.ID)) })
		healthy := w.serve(nil)
		events := w.emit(300)
		for range 20 { // a change must not cause more frequent tries
			w.store.change(id, func(h *delivery.Webhook) { h.URL += "x" })
			pass(time.Second)
		}
		reads := w.store.count("Webhook")
		pass(10 * time.Minute)
		if n := w.store.count("Webhook") - reads; n > 12 {
			t.Errorf("the record is read %d times in 10 minutes", n)
		}
		w.attempts(300)
		w.statuses(id, map[string]int{"pending": 300}) // the requests go to the other webhook
		if w.lines.count("secret of a webhook cannot be opened") == 0 {
			t.Error("nothing is logged")
		}
		w.once(healthy, events)
		w.store.change(id, func(h *delivery.Webhook) { h.Secret, h.URL = good, w.url(id) })
		pass(time.Minute)
		w.once(id, events)
		w.statuses(id, map[string]int{"succeeded": 300})
	})
}

func TestTwoSecretsUntilTheOverlapEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.serve(nil)
		w.emit(1)
		pass(time.Second)
		w.store.set(func() { w.store.late = slow("Webhook", 50*time.Millisecond) })
		until := w.store.now().Add(24 * time.Hour)
		w.store.change(id, func(h *delivery.Webhook) {
			h.PreviousSecret, h.PreviousUntil = h.Secret, until
			h.Secret = w.keys.Seal([]byte("new"), string(id))
		})
		w.emit(1) // before the new record is read
		pass(time.Second)
		w.jump(24*time.Hour - time.Second)
		w.emit(1)
		pass(time.Second)
		want := [][]string{{"secret"}, {"new", "secret"}, {"new"}}
		all := w.attempts(3)
		for i, s := range all {
			if d := cmp.Diff(sender.NewDestination(w.url(id), want[i]...), s.To, byEffect); d != "" {
				t.Errorf("attempt %d (-want +got):\n%s", i+1, d)
			}
		}
	})
}

// An old secret that no key opens any more does not matter once it has ended.
func TestAnOldSecretThatNoKeyOpens(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lost := ringOf(t, "lost")
		id := w.register(func(h *delivery.Webhook) {
			h.PreviousSecret = lost.Seal([]byte("old"), string(h.ID))
			h.PreviousUntil = time.Now().Add(time.Hour)
		})
		pass(2 * time.Hour)
		w.start()
		w.once(id, w.emitted(1))
		if d := cmp.Diff(sender.NewDestination(w.url(id), "secret"), w.sender.sent()[0].To, byEffect); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
	})
}

func TestSecretsAreSealedWithTheNewestKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register(func(h *delivery.Webhook) {
			h.PreviousSecret, h.PreviousUntil = w.keys.Seal([]byte("old"), string(h.ID)), time.Now().Add(24*time.Hour)
		})
		quiet := w.register(onlyClosed)
		w.node.keys = ringOf(t, "2027", "2026")
		w.start()
		events := w.emit(1)
		pass(time.Minute)
		w.once(id, events)
		for _, id := range []signal.WebhookID{id, quiet} {
			hook := w.store.hook(id)
			if outdated(w.node.keys, &hook, time.Now()) {
				t.Errorf("%s: not sealed with the newest key", id)
			}
			secret, err := w.node.keys.Open(hook.Secret, string(id))
			if err != nil || string(secret) != "secret" {
				t.Errorf("%s: secret %q, %v", id, secret, err)
			}
		}
	})
}

// A secret that could not be stored is sealed again in the next pass: the operator will
// remove the older key.
func TestSecretsAreSealedInEveryPass(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.node.keys = ringOf(t, "2027", "2026")
		down := true
		w.store.fail = failIf(false, func(op string) bool { return op == "ChangeWebhook" && down })
		w.start()
		pass(time.Minute)
		if n := w.lines.count("secret is not sealed with the newest key"); n != 2 { // by endpoint and maintenance
			t.Fatalf("%d failures are logged, want 2", n)
		}
		w.store.set(func() { down = false })
		pass(maintenanceEvery)
		if hook := w.store.hook(id); outdated(w.node.keys, &hook, time.Now()) {
			t.Error("not sealed with the newest key")
		}
	})
}
