package http_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// A URL that does not answer its challenge is refused for new and changed webhooks. The present
// URL of a webhook is not challenged again.
func TestURLsAnswerAChallenge(t *testing.T) {
	t.Parallel()
	const changed = `{"url":"https://example.com/new"}`
	const create = `{"url":"https://example.com/new","events":["signal.created"],"secret":"correct horse battery"}`
	refused := &signal.Error{Kind: signal.KindInvalid, Code: "url_not_allowed",
		Message: "the endpoint has not answered"}
	busy := &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", Message: "m"}
	tests := map[string]struct {
		method, path, body string
		answer             error
		status             int
		asked              []string // the secrets of the challenges
		stored             int
	}{
		"answered":               {"POST", "/v1/webhooks", create, nil, 200, []string{"correct horse battery"}, 1},
		"not answered":           {"POST", "/v1/webhooks", create, refused, 400, []string{"correct horse battery"}, 0},
		"not asked":              {"POST", "/v1/webhooks", create, busy, 503, []string{"correct horse battery"}, 0},
		"another URL":            {"PATCH", aWebhook, changed, nil, 200, []string{"present"}, 1},
		"another URL, no answer": {"PATCH", aWebhook, changed, refused, 400, []string{"present"}, 0},
		"the same URL": {"PATCH", aWebhook, `{"url":"https://example.com/hooks/signals","description":"d"}`,
			refused, 200, nil, 1},
		"another description only": {"PATCH", aWebhook, `{"description":"d"}`, refused, 200, nil, 1},
	}
	for name, test := range tests {
		f := &fakes{}
		stored := 0
		var asked []string
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) {
			w := newWebhook()
			w.Secret = fakeSealer{}.Seal([]byte("present"), string(w.ID))
			return w, nil
		}
		f.add = func(w delivery.Webhook, _ int) (delivery.Webhook, error) { stored++; return w, nil }
		f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) { stored++; return w, nil }
		f.challenge = func(w *delivery.Webhook, secret string) error {
			asked = append(asked, secret)
			if w.URL != "https://example.com/new" || w.Account != accountID || w.APIVersion == "" {
				t.Errorf("%s: asked %+v", name, w)
			}
			return test.answer
		}
		a := do(t, newServer(t, f), test.method, test.path, test.body)
		if a.Status != test.status || stored != test.stored {
			t.Errorf("%s: %d %s, stored %d times", name, a.Status, a.Body, stored)
		}
		if d := cmp.Diff(test.asked, asked); d != "" {
			t.Errorf("%s: asked (-want +got):\n%s", name, d)
		}
		if test.status == 400 && !slices.Equal(a.faults(t), []string{"body /url url_not_allowed"}) {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}

// A duplicate URL, and one webhook too many, are not challenged.
func TestRefusedURLsAreNotChallenged(t *testing.T) {
	t.Parallel()
	duplicate := &signal.Error{Kind: signal.KindInvalid, Code: signal.CodeDuplicateURL, Message: "m"}
	tests := map[string]struct {
		method, path, body string
		err                error
		status             int
	}{
		"a URL twice": {"POST", "/v1/webhooks", `{"url":"https://example.com/new","events":["signal.created"]}`,
			duplicate, 400},
		"one too many": {"POST", "/v1/webhooks", `{"url":"https://example.com/new","events":["signal.created"]}`,
			&signal.Error{Kind: signal.KindConflict, Code: "limit_reached", Message: "m"}, 409},
		"a change": {"PATCH", aWebhook, `{"url":"https://example.com/new"}`, duplicate, 400},
		"unknown": {"POST", "/v1/webhooks", `{"url":"https://example.com/new","events":["signal.created"]}`,
			errors.New("m"), 500},
	}
	for name, test := range tests {
		f := &fakes{}
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) {
			w := newWebhook()
			w.Secret = fakeSealer{}.Seal([]byte("present"), string(w.ID))
			return w, nil
		}
		f.allowed = func(w *delivery.Webhook, limit int) error {
			if w.URL != "https://example.com/new" || w.Account != accountID || limit != 100 {
				t.Errorf("%s: checked %+v with limit %d", name, w, limit)
			}
			return test.err
		}
		f.challenge = func(w *delivery.Webhook, _ string) error {
			t.Errorf("%s: %s is asked", name, w.URL)
			return nil
		}
		f.add = func(w delivery.Webhook, _ int) (delivery.Webhook, error) { return w, test.err }
		f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) { return w, test.err }
		a := do(t, newServer(t, f), test.method, test.path, test.body)
		if a.Status != test.status {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, test.status)
		}
		if test.status == 400 && !slices.Equal(a.faults(t), []string{"body /url duplicate"}) {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}
