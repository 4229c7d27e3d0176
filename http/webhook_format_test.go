package http_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// slackHook is a webhook whose URL has a secret.
func slackHook() delivery.Webhook {
	w := newWebhook()
	w.Format, w.URL = delivery.Slack, "https://hooks.slack.com/services/T0/B0/marked?marked"
	return w
}

const bot = "https://api.telegram.org/bot1:marked/sendMessage"

// A format is stored with what belongs to it, replaces the former one, and its URL is shown only in
// part where it has a secret.
func TestFormatsOfWebhooks(t *testing.T) {
	t.Parallel()
	const events = `"events":["signal.created"]`
	telegram := newWebhook()
	telegram.Format, telegram.URL, telegram.ChatID = delivery.Telegram, bot, "@room"
	tests := map[string]struct {
		present delivery.Webhook
		body    string // of a registration if present has no ID
		faults  []string
		detail  string
		stored  delivery.Webhook // its format, what belongs to it, and the URL; none if it is not stored
		shown   string           // URL
	}{
		"telegram": {body: `{"url":"` + bot + `",` + events + `,"format":"telegram","chat_id":"-1"}`,
			stored: delivery.Webhook{URL: bot, Format: "telegram", ChatID: "-1"}, shown: "https://api.telegram.org/***"},
		"a template": {body: `{"url":"https://a.example/h",` + events + `,"format":"template","template":"{{.type}}",` +
			`"content_type":"text/html"}`,
			stored: delivery.Webhook{URL: "https://a.example/h", Format: "template", Template: "{{.type}}",
				ContentType: "text/html"},
			shown: "https://a.example/h"},
		"standard": {body: `{"url":"https://a.example/h",` + events + `,"format":"standard","chat_id":null}`,
			stored: delivery.Webhook{URL: "https://a.example/h"}, shown: "https://a.example/h"},
		"a broken template": {body: `{"url":"https://a.example/h",` + events + `,"format":"template","template":"a\n{{.type"}`,
			faults: []string{"body /template invalid_format"}, detail: "line 2: unclosed action"},
		"a forbidden function": {body: `{"url":"https://a.example/h",` + events + `,"format":"template","template":` +
			`"{{printf 1}}"}`,
			faults: []string{"body /template invalid_format"}, detail: `line 1: function \"printf\" not defined`},
		"a long template": {body: `{"url":"https://a.example/h",` + events + `,"format":"template",` +
			`"template":"` + strings.Repeat("x", 8193) + `"}`,
			faults: []string{"body /template too_long"}},
		"without a template": {body: `{"url":"https://a.example/h",` + events + `,"format":"template","content_type":` +
			`"x\r\ny: z"}`,
			faults: []string{"body /template required", "body /content_type invalid_format"}},
		"without a chat": {body: `{"url":"https://a.example/h",` + events + `,"format":"telegram"}`,
			faults: []string{"body /chat_id required", "body /url invalid_format"}, detail: "/sendMessage"},
		"a bad chat": {body: `{"url":"` + bot + `",` + events + `,"format":"telegram","chat_id":"room"}`,
			faults: []string{"body /chat_id invalid_format"}},
		"of another format": {body: `{"url":"https://ntfy.sh/a/b",` + events + `,"format":"ntfy","chat_id":"1","template":"x"}`,
			faults: []string{"body /chat_id invalid_value", "body /template invalid_value", "body /url invalid_format"}},
		"an unknown format": {body: `{"url":"https://a.example/h",` + events + `,"format":"teams"}`,
			faults: []string{"body /format invalid_value"}},

		"a change to slack": {present: newWebhook(), body: `{"format":"slack"}`,
			stored: delivery.Webhook{URL: newWebhook().URL, Format: "slack"}, shown: "https://example.com/***"},
		"a change to telegram": {present: newWebhook(), body: `{"format":"telegram","chat_id":"1"}`,
			faults: []string{"body /url invalid_format"}},
		"another chat": {present: telegram, body: `{"url":"https://api.telegram.org/***","format":"telegram","chat_id":"2"}`,
			stored: delivery.Webhook{URL: bot, Format: "telegram", ChatID: "2"}, shown: "https://api.telegram.org/***"},
		"another URL": {present: telegram, body: `{"url":"https://b.example/bot/sendMessage"}`,
			stored: delivery.Webhook{URL: "https://b.example/bot/sendMessage", Format: "telegram", ChatID: "@room"},
			shown:  "https://b.example/***"},
		"a URL that does not fit": {present: telegram, body: `{"url":"https://b.example/"}`,
			faults: []string{"body /url invalid_format"}},
		"a change that would show the URL": {present: slackHook(), body: `{"format":"standard"}`,
			faults: []string{"body /url required"}},
		"and with the shown URL": {present: slackHook(), body: `{"format":"template","template":"x","url":"https:` +
			`//hooks.slack.com/***"}`,
			faults: []string{"body /url required"}},
		"another format and URL": {present: slackHook(), body: `{"format":"standard","url":"https://a.example/h"}`,
			stored: delivery.Webhook{URL: "https://a.example/h"}, shown: "https://a.example/h"},
		"a template without its format": {present: newWebhook(), body: `{"template":"x"}`,
			faults: []string{"body /template invalid_value"}},
	}
	for name, test := range tests {
		f := &fakes{}
		var got *delivery.Webhook
		store := func(w delivery.Webhook) (delivery.Webhook, error) { got = &w; return w, nil }
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return test.present, nil }
		f.add = func(w delivery.Webhook, _ int) (delivery.Webhook, error) { return store(w) }
		f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) { return store(w) }
		method, path := "POST", "/v1/webhooks"
		if test.present.ID != "" {
			method, path = "PATCH", aWebhook
		}
		a := do(t, newServer(t, f), method, path, test.body)
		if test.faults != nil {
			if a.Status != 400 || !slices.Equal(a.faults(t), test.faults) || !strings.Contains(a.Body, test.detail) ||
				got != nil {
				t.Errorf("%s: %d %s, stored %v", name, a.Status, a.Body, got)
			}
			continue
		}
		if a.Status != 200 || got == nil || !strings.Contains(a.Body, `"url":"`+test.shown+`"`) ||
			strings.Contains(a.Body, "marked") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		stored := delivery.Webhook{URL: got.URL, Format: got.Format, ChatID: got.ChatID, Template: got.Template,
			ContentType: got.ContentType}
		if d := cmp.Diff(test.stored, stored); d != "" {
			t.Errorf("%s: stored (-want +got):\n%s", name, d)
		}
	}
}

// What a change shows and what was shown are equal: a client may send back what it has read.
func TestShownURLIsNoChange(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return slackHook(), nil }
	f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) {
		t.Errorf("stored %+v", w)
		return w, nil
	}
	f.challenge = func(w *delivery.Webhook, _ string) error {
		t.Errorf("%s is challenged", w.URL)
		return nil
	}
	a := do(t, newServer(t, f), "PATCH", aWebhook, `{"url":"https://hooks.slack.com/***","format":"slack"}`)
	if a.Status != 200 || !strings.Contains(a.Body, `"url":"https://hooks.slack.com/***"`) {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// A delivery of another format than standard shows the event and what was sent.
func TestDeliveryShowsWhatWasSent(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
		d := newDelivery()
		d.Sent = []byte("BTC <long> \"a\"\n")
		return d, []byte(sentBody), nil
	}
	a := do(t, newServer(t, f), "GET", aDelivery, "")
	if !strings.Contains(a.Body, `"request_body":"BTC <long> \"a\"\n","payload":`+sentBody+"}") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}
