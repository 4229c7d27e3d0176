package webhook

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// withTemplate gives a webhook a template that fails for events without a name.
func withTemplate(hook *delivery.Webhook) {
	allEvents(hook)
	hook.Format, hook.Template = delivery.Template, "{{.data.name}}"
}

// A template that fails for one event ends the delivery of that event at once, with the reason. The endpoint
// does not count as failing, its other deliveries and the later events of the signal are sent, and a manual retry
// uses the present template.
func TestTemplateThatFailsForOneEvent(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil, withTemplate)
		s := signal.NewSignalID()
		named := func(t signal.EventType, name string) signal.EventID {
			return h.append(signal.Event{Type: t, Data: []byte(`{"signal_id":"` + string(s) + `"` + name + `}`)})[0]
		}
		good := named(signal.SignalCreated, `,"name":"first"`)
		var bad []signal.EventID
		for range 20 { // more than halve the limit of concurrent requests away
			bad = append(bad, named(signal.SignalUpdated, ""))
		}
		last := named(signal.SignalClosed, `,"name":"last"`)
		pass(time.Second)
		const fault = "message not made: line 1: the event has no .data.name"
		h.statuses(id, map[string]int{"succeeded": 2, "failed, " + fault: 20})
		h.once(id, []signal.EventID{good, last})
		sent := h.attempts(2, id)
		if got := string(sent[0].Body) + " " + string(sent[1].Body) + " " + sent[1].To.ContentType; got !=
			"first last text/plain; charset=utf-8" {
			t.Errorf("sent %q", got)
		}
		d := h.store.delivery(signal.DeliveryIDOf(bad[0], id))
		if len(d.Attempts) != 1 || d.Attempts[0].Error != fault || d.Sent != nil || d.CompletedAt.IsZero() ||
			!d.NextAttemptAt.IsZero() {
			t.Errorf("the failed delivery is %+v", d)
		}
		if d := h.store.delivery(signal.DeliveryIDOf(good, id)); string(d.Sent) != "first" {
			t.Errorf("the log shows %q as sent", d.Sent)
		}
		if hook := h.store.hook(id); hook.Health != (delivery.WebhookHealth{}) {
			t.Errorf("the health is %+v", hook.Health)
		}
		if d := cmp.Diff(map[string]float64{"success": 2}, h.counted("agentsignal_webhook_attempts_total")); d != "" {
			t.Errorf("attempts (-want +got):\n%s", d)
		}
		pass(24 * time.Hour)
		h.attempts(2, id) // nothing is tried again by itself
		hook := h.store.hook(id)
		hook.Template = "fixed {{.type}}"
		h.store.set(func() { h.store.save(hook) })
		h.append(signal.Event{Type: signal.WebhookChanged, Subject: string(id)})
		synctest.Wait()
		h.store.retry(signal.DeliveryIDOf(bad[0], id))
		pass(window)
		if sent := h.attempts(3, id); string(sent[2].Body) != "fixed signal.updated" || sent[2].Attempt != 2 {
			t.Errorf("after the change %+v is sent", sent[2])
		}
	})
}

// Telegram asks for a pause only in the body of its answer. Retries respect it like the header.
func TestPauseThatAChatServiceAsksFor(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		busy := true
		id := h.serve(func(ctx context.Context, r sender.Request) sender.Result {
			if !busy {
				return answers200(ctx, r)
			}
			return sender.Result{At: r.At, Status: 429, Class: sender.ClassClientError, Error: "status 429",
				Body: `{"ok":false,"error_code":429,"parameters":{"retry_after":120}}`}
		}, func(hook *delivery.Webhook) {
			hook.Format, hook.ChatID, hook.URL = delivery.Telegram, "7", "https://example.com/bot1:marked/sendMessage"
		})
		h.emit(1)
		pass(time.Second)
		busy = false
		pass(118 * time.Second)
		h.attempts(1)
		pass(5 * time.Second)
		sent := h.attempts(2)
		if !strings.HasPrefix(string(sent[0].Body), `{"chat_id":7,"text":"<b>New`) ||
			string(sent[0].Body) != string(sent[1].Body) {
			t.Errorf("sent %s, then %s", sent[0].Body, sent[1].Body)
		}
		h.statuses(id, map[string]int{"succeeded": 1})
		if h.lines.count("marked") > 0 {
			t.Error("the token is in the log")
		}
	})
}

// A chat service cannot answer the token. It proves by its own answer to a message that the URL is one of it; package
// message knows those of each.
func TestChallengeOfAChatService(t *testing.T) {
	t.Parallel()
	n := New(newFakeStore(), localSender(t, sender.Options{}), ringOf(t, "2026"), Options{})
	for text, genuine := range map[string]bool{"ok": true, "anything": false} {
		server := localServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
		hook := &delivery.Webhook{ID: signal.NewWebhookID(), URL: server.URL + "/topic", Format: delivery.Slack}
		err := n.Challenge(t.Context(), hook, "secret")
		if genuine != (err == nil) || err != nil && !strings.Contains(err.Error(), "as slack does") {
			t.Errorf("answered %q: %v", text, err)
		}
	}
	hook := &delivery.Webhook{ID: signal.NewWebhookID(), URL: "https://127.0.0.1/a/b", Format: delivery.Ntfy}
	if err := n.Challenge(t.Context(), hook, "secret"); signal.CodeOf(err) != guard.CodeNotAllowed {
		t.Errorf("no topic: %v", err)
	}
}
