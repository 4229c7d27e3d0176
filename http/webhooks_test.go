package http_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

const (
	aWebhook  = "/v1/webhooks/" + string(webhookID)
	aDelivery = aWebhook + "/deliveries/" + string(deliveryID)
)

// record is newWebhook in answers, without the closing brace.
const record = `{"webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1","url":"https://example.com/hooks/signals",` +
	`"events":["signal.created","signal.closed"],` +
	`"description":null,"api_version":"2026-11-01","format":"standard","chat_id":null,"template":null,"content_type":null,` +
	`"filters":null,"max_per_minute":null,"status":"enabled","disabled_at":null,` +
	`"disabled_reason":null,` +
	`"failing_since":null,"held_until":null,` +
	`"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"`

// conflict returns an error that a store raises.
func conflict(code string) error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: "m"}
}

func TestRegisteredWebhookIsAnsweredWithItsSecret(t *testing.T) {
	t.Parallel()
	var got delivery.Webhook
	f := &fakes{}
	f.add = func(w delivery.Webhook, limit int) (delivery.Webhook, error) {
		if got = w; limit != 100 {
			t.Errorf("limit %d", limit)
		}
		return w, nil
	}
	a := do(t, newServer(t, f), "POST", "/v1/webhooks",
		`{"url":"https://example.com/a?b=<c>","events":["agent.error","signal.created"],"secret":"gehe\u0000im\"",`+
			`"description":"","api_version":"2026-11-01"}`)
	want := `{"webhook_id":"` + string(got.ID) +
		`","url":"https://example.com/a?b=<c>","events":["agent.error","signal.created"],"description":"",` +
		`"api_version":"2026-11-01","format":"standard","chat_id":null,"template":null,"content_type":null,` +
		`"filters":null,"max_per_minute":null,"status":"enabled","disabled_at":null,"disabled_reason":null,` +
		`"failing_since":null,"held_until":null,` +
		`"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z","secret":"gehe\u0000im\""}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	empty := ""
	wantWebhook := delivery.Webhook{ID: got.ID, Account: accountID, URL: "https://example.com/a?b=<c>",
		Events:      []signal.EventType{signal.AgentFailed, signal.SignalCreated},
		Description: &empty, APIVersion: "2026-11-01", Status: delivery.WebhookEnabled, CreatedAt: morning,
		UpdatedAt: morning, Secret: fakeSealer{}.Seal([]byte("gehe\x00im\""), string(got.ID))}
	if d := cmp.Diff(wantWebhook, got); d != "" {
		t.Errorf("stored (-want +got):\n%s", d)
	}
	if _, ok := signal.ParseWebhookID(string(got.ID)); !ok {
		t.Errorf("identifier %s", got.ID)
	}
}

func TestSecretsAreGenerated(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=$`)
	s := newServer(t, &fakes{})
	seen := make(map[string]bool)
	for _, member := range []string{``, `,"secret":null`, `,"secret":""`, `,"description":null,"api_version":null`} {
		a := do(t, s, "POST", "/v1/webhooks", `{"url":"https://example.com","events":["webhook.test"]`+member+`}`)
		var view struct {
			Secret     string
			APIVersion string `json:"api_version"`
		}
		if err := json.Unmarshal([]byte(a.Body), &view); err != nil || a.Status != 200 ||
			!form.MatchString(view.Secret) || view.APIVersion != "2026-11-01" {
			t.Errorf("with %q: %d %s", member, a.Status, a.Body)
		}
		seen[view.Secret] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d different secrets of 4", len(seen))
	}
}

// TestLongestValues sends the longest valid values, in characters and not in bytes.
func TestLongestValues(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{"url": "https://example.com/" + strings.Repeat("x", 2048-20),
		"events": delivery.WebhookEvents, "secret": strings.Repeat("ü", 256),
		"description": strings.Repeat("ü", 200)})
	if err != nil {
		t.Fatal(err)
	}
	if a := do(t, newServer(t, &fakes{}), "POST", "/v1/webhooks", string(body)); a.Status != 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestSecretsAreShownNowhereElse(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.webhooks = func(signal.AccountID) ([]delivery.Webhook, error) { return []delivery.Webhook{newWebhook()}, nil }
	s := newServer(t, f)
	for request, body := range map[string]string{"GET /v1/webhooks": "", "GET " + aWebhook: "", "PATCH " +
		aWebhook: `{"description":"d"}`} {
		method, path, _ := strings.Cut(request, " ")
		if a := do(t, s, method, path, body); a.Status != 200 || strings.Contains(a.Body, "secret") {
			t.Errorf("%s: %d %s", request, a.Status, a.Body)
		}
	}
}

func TestWebhooksAreListed(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.webhooks = func(account signal.AccountID) ([]delivery.Webhook, error) {
		if account != accountID {
			t.Errorf("asked for %s", account)
		}
		failing := newWebhook()
		failing.Health = delivery.WebhookHealth{FailingSince: morning.Add(time.Minute), Failures: 3,
			HeldUntil: morning.Add(time.Second)}
		failing.Format = delivery.Telegram // the rest of the record is that of other formats
		disabled := newWebhook()
		disabled.Status, disabled.DisabledAt, disabled.DisabledReason = delivery.WebhookDisabled,
			morning.Add(time.Hour),
			delivery.DisabledFailing
		text := "d"
		disabled.Description = &text
		disabled.Health.HeldUntil = morning // over
		disabled.MaxPerMinute = 60_000
		return []delivery.Webhook{failing, disabled, newWebhook()}, nil
	}
	s := newServer(t, f)
	failing := strings.NewReplacer(`"failing_since":null`, `"failing_since":"2026-11-21T09:31:00.000Z"`,
		`"held_until":null`, `"held_until":"2026-11-21T09:30:01.000Z"`, `"max_per_minute":null`, `"max_per_minute":20`,
		`"format":"standard"`, `"format":"telegram"`, `hooks/signals`, `***`).Replace(record) + `}`
	disabled := strings.NewReplacer(`"status":"enabled","disabled_at":null,"disabled_reason":null`,
		`"status":"disabled","disabled_at":"2026-11-21T10:30:00.000Z","disabled_reason":"failing"`,
		`"description":null`, `"description":"d"`, `"max_per_minute":null`, `"max_per_minute":60000`).Replace(record) + `}`
	tests := []struct{ query, want string }{
		{"", failing + `,` + disabled + `,` + record + `}],"total":3,"limit":25,"offset":0,"has_more":false}`},
		{"?status=enabled", failing + `,` + record + `}],"total":2,"limit":25,"offset":0,"has_more":false}`},
		{"?status=disabled", disabled + `],"total":1,"limit":25,"offset":0,"has_more":false}`},
		{"?limit=1&offset=1&status=", disabled + `],"total":3,"limit":1,"offset":1,"has_more":true}`},
		{"?offset=3", `],"total":3,"limit":25,"offset":3,"has_more":false}`},
	}
	for _, test := range tests {
		if a := do(t, s, "GET", "/v1/webhooks"+test.query, ""); a.Status != 200 || a.Body != `{"webhooks":[`+test.want {
			t.Errorf("%s: got %d %s\nwant %s", test.query, a.Status, a.Body, test.want)
		}
	}
	f.webhooks = nil
	if a := do(t, s, "GET", "/v1/webhooks",
		""); a.Body != `{"webhooks":[],"total":0,"limit":25,"offset":0,"has_more":false}` {
		t.Errorf("none: %s", a.Body)
	}
}

func TestWebhookIsRead(t *testing.T) {
	t.Parallel()
	if a := do(t, newServer(t, &fakes{}), "GET", aWebhook, ""); a.Status != 200 || a.Body != record+`}` {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestWebhookIsRemoved(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var removed signal.WebhookID
	f.remove = func(account signal.AccountID, id signal.WebhookID) error {
		removed = id
		return nil
	}
	if a := do(t, newServer(t, f), "DELETE", aWebhook, ""); a.Status != 204 || a.Body != "" || removed != webhookID {
		t.Errorf("got %d %s, removed %s", a.Status, a.Body, removed)
	}
}

func TestChangesOfWebhooks(t *testing.T) {
	t.Parallel()
	now := morning.Add(time.Hour)
	text := "text"
	failing := delivery.WebhookHealth{FailingSince: morning, Failures: 2, Warned: 1}
	of := func(change func(w *delivery.Webhook)) delivery.Webhook {
		w := newWebhook()
		change(&w)
		return w
	}
	disabled := of(func(w *delivery.Webhook) {
		w.Status, w.DisabledAt, w.DisabledReason, w.Health = delivery.WebhookDisabled, morning,
			delivery.DisabledFailing, failing
	})
	described := of(func(w *delivery.Webhook) { w.Description = &text })
	empty := ""
	emptied := of(func(w *delivery.Webhook) { w.Description = &empty })
	tests := []struct {
		name, body string
		before     delivery.Webhook
		change     func(w *delivery.Webhook) // nil: nothing is stored
		clear      bool
	}{
		{"nothing given", `{}`, newWebhook(), nil, false},
		{"absence by null", `{"url":null,"events":null,"description":null,"api_version":null,"status":null}`,
			described, nil, false},
		{"all as it is", `{"url":"https://example.com/hooks/signals","events":["signal.created","signal.closed"],` +
			`"description":null,"api_version":"2026-11-01","format":"standard",` +
			`"chat_id":null,"template":null,"content_type":null,` +
			`"filters":null,"status":"enabled"}`, newWebhook(), nil, false},
		{"the same description", `{"description":"text"}`, described, nil, false},
		{"the address", `{"url":"https://example.org"}`, newWebhook(),
			func(w *delivery.Webhook) { w.URL = "https://example.org" }, false},
		{"the subscription", `{"events":["signal.closed"]}`, newWebhook(),
			func(w *delivery.Webhook) { w.Events = []signal.EventType{signal.SignalClosed} }, false},
		{"its order", `{"events":["signal.closed","signal.created"]}`, newWebhook(), func(w *delivery.Webhook) {
			w.Events = []signal.EventType{signal.SignalClosed, signal.SignalCreated}
		}, false},
		{"a description", `{"description":"text"}`, newWebhook(),
			func(w *delivery.Webhook) { w.Description = &text }, false},
		{"another description", `{"description":"text"}`, emptied,
			func(w *delivery.Webhook) { w.Description = &text }, false},
		{"an empty description", `{"description":""}`, described,
			func(w *delivery.Webhook) { w.Description = &empty }, false},
		{"the empty description again", `{"description":""}`, emptied, nil, false},
		{"disable", `{"status":"disabled"}`, newWebhook(), func(w *delivery.Webhook) {
			w.Status, w.DisabledAt, w.DisabledReason = delivery.WebhookDisabled, now, delivery.DisabledManual
		}, false},
		{"disable what fails", `{"status":"disabled"}`, of(func(w *delivery.Webhook) { w.Health = failing }),
			func(w *delivery.Webhook) {
				w.Status, w.DisabledAt, w.DisabledReason = delivery.WebhookDisabled, now, delivery.DisabledManual
			}, false},
		{"disable what is disabled", `{"status":"disabled"}`, disabled, nil, false},
		{"enable", `{"status":"enabled"}`, disabled, func(w *delivery.Webhook) {
			w.Status, w.DisabledAt, w.DisabledReason, w.Health = delivery.WebhookEnabled, time.Time{}, "",
				delivery.WebhookHealth{}
		}, true},
		{"enable what fails", `{"status":"enabled"}`, of(func(w *delivery.Webhook) { w.Health = failing }),
			func(w *delivery.Webhook) { w.Health = delivery.WebhookHealth{} }, true},
		{"describe what fails", `{"description":"text"}`, of(func(w *delivery.Webhook) { w.Health = failing }),
			func(w *delivery.Webhook) { w.Description = &text }, false},
		{"enable what is held", `{"status":"enabled"}`,
			of(func(w *delivery.Webhook) { w.Health.HeldUntil = now.Add(time.Minute) }),
			func(w *delivery.Webhook) { w.Health = delivery.WebhookHealth{} }, true},
		{"a rate", `{"max_per_minute":60000}`, newWebhook(), func(w *delivery.Webhook) { w.MaxPerMinute = 60_000 }, false},
		{"the rate as it is", `{"max_per_minute":6}`, of(func(w *delivery.Webhook) { w.MaxPerMinute = 6 }), nil, false},
		{"no rate given", `{"max_per_minute":null}`, of(func(w *delivery.Webhook) { w.MaxPerMinute = 6 }), nil, false},
		{"the rate of the format", `{"max_per_minute":0}`, of(func(w *delivery.Webhook) { w.MaxPerMinute = 6 }),
			func(w *delivery.Webhook) { w.MaxPerMinute = 0 }, false},
		{"several", `{"url":"https://example.org","description":"text","status":"disabled"}`, newWebhook(),
			func(w *delivery.Webhook) {
				w.URL, w.Description, w.Status, w.DisabledAt, w.DisabledReason = "https://example.org", &text,
					delivery.WebhookDisabled, now, delivery.DisabledManual
			}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &fakes{}
			f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return test.before, nil }
			var got *delivery.Webhook
			f.change = func(w delivery.Webhook, clearHealth bool) (delivery.Webhook, error) {
				if got = &w; clearHealth != test.clear {
					t.Errorf("the health is cleared: %t", clearHealth)
				}
				return w, nil
			}
			a := do(t, newServer(t, f,
				func(o *config) { o.Now = func() time.Time { return now } }), "PATCH", aWebhook, test.body)
			var want *delivery.Webhook
			if test.change != nil {
				w := test.before
				w.UpdatedAt = now
				test.change(&w)
				want = &w
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("stored (-want +got):\n%s", d)
			}
			shown := `"updated_at":"2026-11-21T10:30:00.000Z"}`
			if test.change == nil {
				shown = `"updated_at":"2026-11-21T09:30:00.000Z"}`
			}
			if a.Status != 200 || !strings.HasSuffix(a.Body, shown) {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
		})
	}
}

// TestChangesMeetOthers lets other requests change the webhook concurrently.
func TestChangesMeetOthers(t *testing.T) {
	t.Parallel()
	for others, want := range map[int]int{0: 200, 1: 200, 4: 200, 5: 503, 100: 503} {
		f := &fakes{}
		reads, writes := 0, 0
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) {
			reads++
			w := newWebhook()
			w.Revision, w.URL = fmt.Sprint(reads), fmt.Sprintf("https://example.com/%d", reads)
			return w, nil
		}
		f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) {
			writes++
			if w.Revision != fmt.Sprint(reads) || w.URL != fmt.Sprintf("https://example.com/%d", reads) ||
				*w.Description != "d" {
				t.Errorf("after %d reads the change is made to %+v", reads, w)
			}
			if writes <= others {
				return delivery.Webhook{}, conflict("webhook_changed")
			}
			return w, nil
		}
		a := do(t, newServer(t, f), "PATCH", aWebhook, `{"description":"d"}`)
		if a.Status != want || writes != min(others+1, 5) {
			t.Errorf("%d others: got %d after %d writes: %s", others, a.Status, writes, a.Body)
		}
	}
	f := &fakes{}
	reads := 0
	f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) {
		if reads++; reads > 1 {
			return delivery.Webhook{}, signal.NotFound("webhook")
		}
		return newWebhook(), nil
	}
	f.change = func(delivery.Webhook, bool) (delivery.Webhook, error) {
		return delivery.Webhook{}, conflict("webhook_changed")
	}
	if a := do(t, newServer(t, f), "PATCH", aWebhook, `{"description":"d"}`); a.Status != 404 {
		t.Errorf("removed meanwhile: %d %s", a.Status, a.Body)
	}
}

func TestSecretsAreReplaced(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var got delivery.Webhook
	f.change = func(w delivery.Webhook, clearHealth bool) (delivery.Webhook, error) {
		if got = w; clearHealth {
			t.Error("the health is cleared")
		}
		return w, nil
	}
	s := newServer(t, f)
	const until = `"previous_secret_expires_at":"2026-11-22T09:30:00.000Z"}`
	form := regexp.MustCompile(`^{"webhook_id":"` + string(webhookID) +
		`","secret":"(whsec_[A-Za-z0-9+/]{43}=|given)",` + until + `$`)
	for _, body := range []string{``, `{}`, `{"secret":null}`, `{"secret":""}`, `{"secret":"given"}`} {
		a := do(t, s, "POST", aWebhook+"/rotate-secret", body)
		m := form.FindStringSubmatch(a.Body)
		if a.Status != 200 || m == nil || (m[1] == "given") != strings.Contains(body, "given") {
			t.Errorf("%s: got %d %s", body, a.Status, a.Body)
			continue
		}
		want := newWebhook()
		want.Secret, want.PreviousSecret, want.PreviousUntil = fakeSealer{}.Seal([]byte(m[1]), string(webhookID)),
			[]byte("old"), morning.Add(24*time.Hour)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: stored (-want +got):\n%s", body, d)
		}
	}
}

// TestReplacedSecretIsTheOneInTheAnswer lets another change come first: the secret that is
// stored in the end must be the one in the answer.
func TestReplacedSecretIsTheOneInTheAnswer(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var stored [][]byte
	f.change = func(w delivery.Webhook, _ bool) (delivery.Webhook, error) {
		if stored = append(stored, w.Secret); len(stored) == 1 {
			return delivery.Webhook{}, conflict("webhook_changed")
		}
		return w, nil
	}
	a := do(t, newServer(t, f), "POST", aWebhook+"/rotate-secret", "")
	var view struct{ Secret string }
	if err := json.Unmarshal([]byte(a.Body), &view); err != nil {
		t.Fatal(err)
	}
	if len(stored) != 2 || string(stored[1]) != string(fakeSealer{}.Seal([]byte(view.Secret), string(webhookID))) {
		t.Errorf("told %s, stored %q", view.Secret, stored)
	}
}

func TestHundredWebhooksAreTheMost(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.add = func(delivery.Webhook, int) (delivery.Webhook, error) {
		return delivery.Webhook{}, conflict("limit_reached")
	}
	a := do(t, newServer(t, f), "POST", "/v1/webhooks", `{"url":"https://example.com","events":["signal.created"]}`)
	if a.Status != 409 || a.problem(t).Code != "limit_reached" {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestAURLTwiceIsAFaultOfTheBody(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.add = func(delivery.Webhook, int) (delivery.Webhook, error) {
		return delivery.Webhook{}, &signal.Error{Kind: signal.KindInvalid, Code: signal.CodeDuplicateURL}
	}
	a := do(t, newServer(t, f), "POST", "/v1/webhooks", `{"url":"https://example.com","events":["signal.created"]}`)
	if a.Status != 400 || !strings.Contains(string(a.Body), `"pointer":"/url","code":"duplicate"`) {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// everyWebhookRequest are requests that succeed, one for each operation.
var everyWebhookRequest = []struct{ method, path, body string }{
	{"POST", "/v1/webhooks", `{"url":"https://example.com","events":["signal.created"]}`},
	{"GET", "/v1/webhooks", ""},
	{"GET", aWebhook, ""},
	{"PATCH", aWebhook, `{"description":"d"}`},
	{"DELETE", aWebhook, ""},
	{"POST", aWebhook + "/rotate-secret", ""},
	{"POST", aWebhook + "/test", ""},
	{"GET", aWebhook + "/deliveries", ""},
	{"POST", aWebhook + "/deliveries/retry", ""},
	{"POST", aWebhook + "/deliveries/cancel", ""},
	{"GET", aDelivery, ""},
	{"POST", aDelivery + "/retry", ""},
	{"POST", aDelivery + "/cancel", ""},
}
