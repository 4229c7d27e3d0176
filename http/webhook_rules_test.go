package http_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/http/limits"
)

func TestRefusedWebhooks(t *testing.T) {
	t.Parallel()
	refusal := func(code string) error { return &signal.Error{Kind: signal.KindInvalid, Code: code, Message: "m"} }
	f := &fakes{}
	f.checkURL = func(url string) error {
		switch url {
		case "private":
			return refusal("url_not_allowed")
		case "plain":
			return refusal("https_required")
		case "both":
			return errors.Join(refusal("url_not_allowed"), refusal("https_required"))
		case "broken":
			return errors.New("secret state")
		}
		return nil
	}
	f.add = func(delivery.Webhook, int) (delivery.Webhook, error) { return delivery.Webhook{}, errors.New("stored") }
	f.change = func(delivery.Webhook, bool) (delivery.Webhook, error) {
		return delivery.Webhook{}, errors.New("stored")
	}
	s := newServer(t, f)
	long := strings.Repeat("x", 2049)
	const ok = `"url":"https://example.com","events":["signal.created"]`
	tests := []struct {
		name, body  string
		post, patch []string // nil for patch: as for post
	}{
		{"nothing", `{}`, []string{"body /url required", "body /events required"}, []string{}},
		{"null", `{"url":null,"events":null}`, []string{"body /url required", "body /events required"}, []string{}},
		{"two values", `{` + ok + `}{}`, []string{"body  invalid_format"}, nil},
		{"an array", `[]`, []string{"body  invalid_type"}, nil},
		{"no body", ``, []string{"body  invalid_format"}, nil},
		{"nested too deeply", strings.Repeat(`{"url":`, 33) + "1" + strings.Repeat("}", 33),
			[]string{"body  invalid_format"}, nil},
		{"nested a little", `{` + ok + `,"description":{"a":[{}]}}`, []string{"body /description invalid_type"}, nil},
		{"bad UTF-8", "{" + ok + ",\"description\":\"\xff\"}", []string{"body  invalid_format"}, nil},
		{"given twice", `{` + ok + `,"url":"https://example.com"}`, []string{"body /url duplicate"}, nil},
		{"empty", `{"url":"","events":[]}`, []string{"body /url too_short", "body /events too_short"}, nil},
		{"too long", `{"url":"` + long +
			`","events":["signal.created","signal.updated","signal.closed","agent.started","agent.completed",` +
			`"agent.error",` +
			`"webhook.test","log.checkpoint","signal.created"],"description":"` + long[:201] + `"}`,
			[]string{"body /url too_long", "body /events too_long", "body /description too_long"}, nil},
		{"wrong types", `{"url":7,"events":"signal.created","description":false,"api_version":20261101}`,
			[]string{"body /url invalid_type", "body /events invalid_type", "body /description invalid_type",
				"body /api_version invalid_type"}, nil},
		{"wrong events", `{"url":"https://example.com","events":["signal.created","*","signal.old","signal.created",` +
			`"SIGNAL.CREATED",7,null,"system.notification","webhook.test"]}`,
			[]string{"body /events/1 invalid_value", "body /events/2 invalid_value", "body /events/3 duplicate",
				"body /events/4 invalid_value", "body /events/5 invalid_type", "body /events/6 invalid_type",
				"body /events/7 invalid_value", "body /events too_long"}, nil},
		{"internal events", `{"url":"https://example.com","events":["webhook.changed","key.revoked"]}`,
			[]string{"body /events/0 invalid_value", "body /events/1 invalid_value"}, nil},
		{"an unknown version", `{` + ok + `,"api_version":"2026-11-02"}`,
			[]string{"body /api_version invalid_value"}, nil},
		{"bad filters", `{` + ok + `,"filters":{"assets":[""],"agents":["x"],"directions":["long","long"],` +
			`"min_confidence":2,"min_expected_r_net":"1","asset":[]}}`,
			[]string{"body /filters/assets/0 too_short", "body /filters/agents/0 invalid_value",
				"body /filters/directions/1 duplicate", "body /filters/min_confidence out_of_range",
				"body /filters/min_expected_r_net invalid_type", "body /filters/asset unknown_field"}, nil},
		{"an empty version", `{` + ok + `,"api_version":""}`, []string{"body /api_version invalid_value"}, nil},
		{"a private address", `{"url":"private","events":["signal.created"]}`,
			[]string{"body /url url_not_allowed"}, nil},
		{"plain HTTP", `{"url":"plain","events":["signal.created"]}`, []string{"body /url https_required"}, nil},
		{"both", `{"url":"both","events":["signal.created"]}`,
			[]string{"body /url url_not_allowed", "body /url https_required"}, nil},
		{"what cannot be checked", `{"url":"broken","events":["signal.created"]}`,
			[]string{"body /url invalid_format"}, nil},
		{"other people's members", `{` + ok + `,"webhook_id":"whk_1","created_at":"","failing_since":null,"Url":""}`,
			[]string{"body /webhook_id unknown_field", "body /created_at unknown_field",
				"body /failing_since unknown_field", "body /Url unknown_field"}, nil},
		{"a rate below 0", `{` + ok + `,"max_per_minute":-1}`, []string{"body /max_per_minute out_of_range"}, nil},
		{"a rate above the maximum", `{` + ok + `,"max_per_minute":60001}`,
			[]string{"body /max_per_minute out_of_range"}, nil},
		{"half a request", `{` + ok + `,"max_per_minute":0.5}`, []string{"body /max_per_minute invalid_type"}, nil},
		{"the end of a wait", `{` + ok + `,"held_until":null}`, []string{"body /held_until unknown_field"}, nil},
		{"a status", `{` + ok + `,"status":"paused"}`, []string{"body /status unknown_field"},
			[]string{"body /status invalid_value"}},
		{"a secret", `{` + ok + `,"secret":7}`, []string{"body /secret invalid_type"},
			[]string{"body /secret unknown_field"}},
		{"a long secret", `{` + ok + `,"secret":"` + long[:257] + `"}`, []string{"body /secret too_long"},
			[]string{"body /secret unknown_field"}},
		{"all at once", `{"url":"both","events":[],"description":1,"api_version":"v1","x":0}`,
			[]string{"body /url url_not_allowed", "body /url https_required", "body /events too_short",
				"body /description invalid_type", "body /api_version invalid_value", "body /x unknown_field"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if a := do(t, s, "POST", "/v1/webhooks", test.body); a.Status != 400 {
				t.Errorf("POST: got %d %s", a.Status, a.Body)
			} else if d := cmp.Diff(test.post, a.faults(t)); d != "" {
				t.Errorf("POST (-want +got):\n%s", d)
			}
			want := test.patch
			if want == nil {
				want = test.post
			}
			if a := do(t, s, "PATCH", aWebhook, test.body); len(want) == 0 && a.Status != 200 || len(want) > 0 &&
				a.Status != 400 {
				t.Errorf("PATCH: got %d %s", a.Status, a.Body)
			} else if len(want) > 0 && !slices.Equal(want, a.faults(t)) {
				t.Errorf("PATCH: %v, want %v", a.faults(t), want)
			}
		})
	}
	for body, want := range map[string]string{`{"secret":7}`: "body /secret invalid_type", `{"secret":"` + long[:257] +
		`"}`: "body /secret too_long",
		`{"url":""}`: "body /url unknown_field", `[]`: "body  invalid_type", `{} {}`: "body  invalid_format"} {
		if a := do(t, s, "POST", aWebhook+"/rotate-secret", body); a.Status != 400 ||
			!slices.Equal(a.faults(t), []string{want}) {
			t.Errorf("rotate %s: got %d %s", body, a.Status, a.Body)
		}
	}
}

func TestAddressesAreAskedForGoodURLsOnly(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	asked := 0
	f.checkURL = func(string) error {
		asked++
		return nil
	}
	s := newServer(t, f)
	for _, url := range []string{`""`, `null`, `7`, `"` + strings.Repeat("x", 2049) + `"`} {
		do(t, s, "POST", "/v1/webhooks", `{"url":`+url+`,"events":["signal.created"]}`)
	}
	do(t, s, "PATCH", aWebhook, `{"events":["signal.created"]}`)
	if asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

// TestRulesOfAllWebhookRequests checks the rules of every operation: credential, scope, class
// of the limit, version, other methods, malformed identifiers and missing things.
func TestRulesOfAllWebhookRequests(t *testing.T) {
	t.Parallel()
	var classes []limits.Class
	f := &fakes{take: func(class limits.Class, _ string) limits.Decision {
		classes = append(classes, class)
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 1}
	}}
	s := newServer(t, f)
	gone := &fakes{}
	gone.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) {
		return delivery.Webhook{}, signal.NotFound("webhook")
	}
	gone.remove = func(signal.AccountID, signal.WebhookID) error { return signal.NotFound("webhook") }
	gone.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	empty := newServer(t, gone)
	for _, r := range everyWebhookRequest {
		name := r.method + " " + r.path
		want := 200
		if r.method == "DELETE" {
			want = 204
		}
		classes = nil
		for _, token := range []string{"key", "jwt"} {
			if a := do(t, s, r.method, r.path, r.body, "Authorization: Bearer "+token); a.Status != want {
				t.Errorf("%s with a %s: %d %s", name, token, a.Status, a.Body)
			}
		}
		class := limits.Writes
		if r.method == "GET" {
			class = limits.Reads
		}
		if !slices.Equal(classes, []limits.Class{class, class}) {
			t.Errorf("%s takes %v", name, classes)
		}
		if a := do(t, s, r.method, r.path, r.body, "Authorization:"); a.Status != 401 {
			t.Errorf("%s without a credential: %d", name, a.Status)
		}
		if a := do(t, s, r.method, r.path, "{", "Authorization: Bearer reader"); a.Status != 403 ||
			a.problem(t).RequiredScope != "webhooks:manage" {
			t.Errorf("%s without the scope: %d %s", name, a.Status, a.Body)
		}
		if a := do(t, s, r.method, r.path, r.body, "X-Service-Version: nosuch"); a.Status != 400 ||
			!slices.Equal(a.faults(t), []string{"header X-Service-Version invalid_value"}) {
			t.Errorf("%s in an unknown version: %d %s", name, a.Status, a.Body)
		}
		if a := do(t, s, "PUT", r.path, r.body); a.Status != 405 {
			t.Errorf("PUT %s: %d", r.path, a.Status)
		}
		if r.path == "/v1/webhooks" {
			continue
		}
		if a := do(t, empty, r.method, r.path, r.body); a.Status != 404 || a.problem(t).Code != "not_found" {
			t.Errorf("%s of another account: %d %s", name, a.Status, a.Body)
		}
		for _, id := range []string{"whk_1", string(signalID), strings.ToLower(string(webhookID)),
			"whk_01M7YQ1WTVKN9DZNWV9NV456V1x", "%00"} {
			if a := do(t, s, r.method, strings.Replace(r.path, string(webhookID), id, 1), r.body); a.Status != 404 {
				t.Errorf("%s of the webhook %s: %d", name, id, a.Status)
			}
			if path := strings.Replace(r.path, string(deliveryID), id, 1); path != r.path {
				if a := do(t, s, r.method, path, r.body); a.Status != 404 {
					t.Errorf("%s of the delivery %s: %d", name, id, a.Status)
				}
			}
		}
	}
}

// TestValuesComeBeforeTheResource: faults are reported even if the resource does not exist.
func TestValuesComeBeforeTheResource(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, r := range everyWebhookRequest {
		path := strings.Replace(r.path, string(webhookID), "nosuch", 1)
		want := 400
		switch r.method {
		case "GET":
			if want = 404; strings.HasSuffix(r.path, "s") { // a list
				path, want = path+"?status=x&limit=0", 400
			}
		case "DELETE":
			want = 404
		}
		if a := do(t, s, r.method, path, `{"x":1}`); a.Status != want {
			t.Errorf("%s %s: got %d, want %d: %s", r.method, path, a.Status, want, a.Body)
		}
		if r.method != "POST" {
			continue
		}
		if a := do(t, s, r.method, path, r.body+" ", "Content-Type: text/plain"); a.Status != 415 {
			t.Errorf("%s %s: got %d for text", r.method, path, a.Status)
		}
		if a := do(t, s, r.method, path, strings.Repeat(" ", 1<<20+1)); a.Status != 413 {
			t.Errorf("%s %s: got %d for a large body", r.method, path, a.Status)
		}
	}
}
