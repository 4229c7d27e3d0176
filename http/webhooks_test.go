package http_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/limits"
)

const (
	aWebhook  = "/v1/webhooks/" + string(webhookID)
	aDelivery = aWebhook + "/deliveries/" + string(deliveryID)
)

// record is newWebhook in answers, without the closing brace.
const record = `{"webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1","url":"https://example.com/hooks/signals","events":["signal.created","signal.closed"],` +
	`"description":null,"api_version":"2026-11-01","status":"enabled","disabled_at":null,"disabled_reason":null,"failing_since":null,` +
	`"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"`

// conflict returns an error that a store raises.
func conflict(code string) error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: "m"}
}

func TestRegisteredWebhookIsAnsweredWithItsSecret(t *testing.T) {
	t.Parallel()
	var got signal.Webhook
	f := &fakes{}
	f.add = func(w signal.Webhook, limit int) (signal.Webhook, error) {
		if got = w; limit != 100 {
			t.Errorf("limit %d", limit)
		}
		return w, nil
	}
	a := do(t, newServer(t, f), "POST", "/v1/webhooks", `{"url":"https://example.com/a?b=<c>","events":["agent.error","signal.created"],"secret":"gehe\u0000im\"","description":"","api_version":"2026-11-01"}`)
	want := `{"webhook_id":"` + string(got.ID) + `","url":"https://example.com/a?b=<c>","events":["agent.error","signal.created"],"description":"",` +
		`"api_version":"2026-11-01","status":"enabled","disabled_at":null,"disabled_reason":null,"failing_since":null,` +
		`"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z","secret":"gehe\u0000im\""}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	empty := ""
	wantWebhook := signal.Webhook{ID: got.ID, Account: accountID, URL: "https://example.com/a?b=<c>", Events: []signal.EventType{signal.AgentFailed, signal.SignalCreated},
		Description: &empty, APIVersion: "2026-11-01", Status: signal.WebhookEnabled, CreatedAt: morning, UpdatedAt: morning,
		Secret: fakeSealer{}.Seal([]byte("gehe\x00im\""), string(got.ID))}
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
		if err := json.Unmarshal([]byte(a.Body), &view); err != nil || a.Status != 200 || !form.MatchString(view.Secret) || view.APIVersion != "2026-11-01" {
			t.Errorf("with %q: %d %s", member, a.Status, a.Body)
		}
		seen[view.Secret] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d different secrets of 4", len(seen))
	}
}

// TestLongestValues are those that are just short enough, in characters and not in
// bytes.
func TestLongestValues(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{"url": "https://example.com/" + strings.Repeat("x", 2048-20), "events": signal.WebhookEvents,
		"secret": strings.Repeat("ü", 256), "description": strings.Repeat("ü", 200)})
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
	f.webhooks = func(signal.AccountID) ([]signal.Webhook, error) { return []signal.Webhook{newWebhook()}, nil }
	s := newServer(t, f)
	for request, body := range map[string]string{"GET /v1/webhooks": "", "GET " + aWebhook: "", "PATCH " + aWebhook: `{"description":"d"}`} {
		method, path, _ := strings.Cut(request, " ")
		if a := do(t, s, method, path, body); a.Status != 200 || strings.Contains(a.Body, "secret") {
			t.Errorf("%s: %d %s", request, a.Status, a.Body)
		}
	}
}

func TestWebhooksAreListed(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.webhooks = func(account signal.AccountID) ([]signal.Webhook, error) {
		if account != accountID {
			t.Errorf("asked for %s", account)
		}
		failing := newWebhook()
		failing.Health = signal.WebhookHealth{FailingSince: morning.Add(time.Minute), Failures: 3}
		disabled := newWebhook()
		disabled.Status, disabled.DisabledAt, disabled.DisabledReason = signal.WebhookDisabled, morning.Add(time.Hour), signal.DisabledFailing
		text := "d"
		disabled.Description = &text
		return []signal.Webhook{failing, disabled, newWebhook()}, nil
	}
	s := newServer(t, f)
	failing := strings.Replace(record, `"failing_since":null`, `"failing_since":"2026-11-21T09:31:00.000Z"`, 1) + `}`
	disabled := strings.NewReplacer(`"status":"enabled","disabled_at":null,"disabled_reason":null`, `"status":"disabled","disabled_at":"2026-11-21T10:30:00.000Z","disabled_reason":"failing"`,
		`"description":null`, `"description":"d"`).Replace(record) + `}`
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
	if a := do(t, s, "GET", "/v1/webhooks", ""); a.Body != `{"webhooks":[],"total":0,"limit":25,"offset":0,"has_more":false}` {
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
	failing := signal.WebhookHealth{FailingSince: morning, Failures: 2, Warned: 1}
	of := func(change func(w *signal.Webhook)) signal.Webhook {
		w := newWebhook()
		change(&w)
		return w
	}
	disabled := of(func(w *signal.Webhook) {
		w.Status, w.DisabledAt, w.DisabledReason, w.Health = signal.WebhookDisabled, morning, signal.DisabledFailing, failing
	})
	described := of(func(w *signal.Webhook) { w.Description = &text })
	empty := ""
	emptied := of(func(w *signal.Webhook) { w.Description = &empty })
	tests := []struct {
		name, body string
		before     signal.Webhook
		change     func(w *signal.Webhook) // nil: nothing is stored
		clear      bool
	}{
		{"nothing given", `{}`, newWebhook(), nil, false},
		{"absence by null", `{"url":null,"events":null,"description":null,"api_version":null,"status":null}`, described, nil, false},
		{"all as it is", `{"url":"https://example.com/hooks/signals","events":["signal.created","signal.closed"],"description":null,"api_version":"2026-11-01","status":"enabled"}`, newWebhook(), nil, false},
		{"the same description", `{"description":"text"}`, described, nil, false},
		{"the address", `{"url":"https://example.org"}`, newWebhook(), func(w *signal.Webhook) { w.URL = "https://example.org" }, false},
		{"the subscription", `{"events":["signal.closed"]}`, newWebhook(), func(w *signal.Webhook) { w.Events = []signal.EventType{signal.SignalClosed} }, false},
		{"its order", `{"events":["signal.closed","signal.created"]}`, newWebhook(), func(w *signal.Webhook) { w.Events = []signal.EventType{signal.SignalClosed, signal.SignalCreated} }, false},
		{"a description", `{"description":"text"}`, newWebhook(), func(w *signal.Webhook) { w.Description = &text }, false},
		{"another description", `{"description":"text"}`, emptied, func(w *signal.Webhook) { w.Description = &text }, false},
		{"an empty description", `{"description":""}`, described, func(w *signal.Webhook) { w.Description = &empty }, false},
		{"the empty description again", `{"description":""}`, emptied, nil, false},
		{"disable", `{"status":"disabled"}`, newWebhook(), func(w *signal.Webhook) {
			w.Status, w.DisabledAt, w.DisabledReason = signal.WebhookDisabled, now, signal.DisabledManual
		}, false},
		{"disable what fails", `{"status":"disabled"}`, of(func(w *signal.Webhook) { w.Health = failing }), func(w *signal.Webhook) {
			w.Status, w.DisabledAt, w.DisabledReason = signal.WebhookDisabled, now, signal.DisabledManual
		}, false},
		{"disable what is disabled", `{"status":"disabled"}`, disabled, nil, false},
		{"enable", `{"status":"enabled"}`, disabled, func(w *signal.Webhook) {
			w.Status, w.DisabledAt, w.DisabledReason, w.Health = signal.WebhookEnabled, time.Time{}, "", signal.WebhookHealth{}
		}, true},
		{"enable what fails", `{"status":"enabled"}`, of(func(w *signal.Webhook) { w.Health = failing }), func(w *signal.Webhook) { w.Health = signal.WebhookHealth{} }, true},
		{"describe what fails", `{"description":"text"}`, of(func(w *signal.Webhook) { w.Health = failing }), func(w *signal.Webhook) { w.Description = &text }, false},
		{"several", `{"url":"https://example.org","description":"text","status":"disabled"}`, newWebhook(), func(w *signal.Webhook) {
			w.URL, w.Description, w.Status, w.DisabledAt, w.DisabledReason = "https://example.org", &text, signal.WebhookDisabled, now, signal.DisabledManual
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &fakes{}
			f.webhook = func(signal.AccountID, signal.WebhookID) (signal.Webhook, error) { return test.before, nil }
			var got *signal.Webhook
			f.change = func(w signal.Webhook, clearHealth bool) (signal.Webhook, error) {
				if got = &w; clearHealth != test.clear {
					t.Errorf("the health is cleared: %t", clearHealth)
				}
				return w, nil
			}
			a := do(t, newServer(t, f, func(o *signalhttp.Options) { o.Now = func() time.Time { return now } }), "PATCH", aWebhook, test.body)
			var want *signal.Webhook
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

// TestChangesMeetOthers lets other requests change the webhook in between.
func TestChangesMeetOthers(t *testing.T) {
	t.Parallel()
	for others, want := range map[int]int{0: 200, 1: 200, 4: 200, 5: 503, 100: 503} {
		f := &fakes{}
		reads, writes := 0, 0
		f.webhook = func(signal.AccountID, signal.WebhookID) (signal.Webhook, error) {
			reads++
			w := newWebhook()
			w.Revision, w.URL = fmt.Sprint(reads), fmt.Sprintf("https://example.com/%d", reads)
			return w, nil
		}
		f.change = func(w signal.Webhook, _ bool) (signal.Webhook, error) {
			writes++
			if w.Revision != fmt.Sprint(reads) || w.URL != fmt.Sprintf("https://example.com/%d", reads) || *w.Description != "d" {
				t.Errorf("after %d reads the change is made to %+v", reads, w)
			}
			if writes <= others {
				return signal.Webhook{}, conflict("webhook_changed")
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
	f.webhook = func(signal.AccountID, signal.WebhookID) (signal.Webhook, error) {
		if reads++; reads > 1 {
			return signal.Webhook{}, signal.NotFound("webhook")
		}
		return newWebhook(), nil
	}
	f.change = func(signal.Webhook, bool) (signal.Webhook, error) {
		return signal.Webhook{}, conflict("webhook_changed")
	}
	if a := do(t, newServer(t, f), "PATCH", aWebhook, `{"description":"d"}`); a.Status != 404 {
		t.Errorf("removed meanwhile: %d %s", a.Status, a.Body)
	}
}

func TestSecretsAreReplaced(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var got signal.Webhook
	f.change = func(w signal.Webhook, clearHealth bool) (signal.Webhook, error) {
		if got = w; clearHealth {
			t.Error("the health is cleared")
		}
		return w, nil
	}
	s := newServer(t, f)
	const until = `"previous_secret_expires_at":"2026-11-22T09:30:00.000Z"}`
	form := regexp.MustCompile(`^{"webhook_id":"` + string(webhookID) + `","secret":"(whsec_[A-Za-z0-9+/]{43}=|given)",` + until + `$`)
	for _, body := range []string{``, `{}`, `{"secret":null}`, `{"secret":""}`, `{"secret":"given"}`} {
		a := do(t, s, "POST", aWebhook+"/rotate-secret", body)
		m := form.FindStringSubmatch(a.Body)
		if a.Status != 200 || m == nil || (m[1] == "given") != strings.Contains(body, "given") {
			t.Errorf("%s: got %d %s", body, a.Status, a.Body)
			continue
		}
		want := newWebhook()
		want.Secret, want.PreviousSecret, want.PreviousUntil = fakeSealer{}.Seal([]byte(m[1]), string(webhookID)), []byte("old"), morning.Add(24*time.Hour)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: stored (-want +got):\n%s", body, d)
		}
	}
}

// TestReplacedSecretIsTheOneTold lets another change come between: the secret that is
// stored in the end must be the one of the answer.
func TestReplacedSecretIsTheOneTold(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var stored [][]byte
	f.change = func(w signal.Webhook, _ bool) (signal.Webhook, error) {
		if stored = append(stored, w.Secret); len(stored) == 1 {
			return signal.Webhook{}, conflict("webhook_changed")
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
	f.add = func(signal.Webhook, int) (signal.Webhook, error) { return signal.Webhook{}, errors.New("stored") }
	f.change = func(signal.Webhook, bool) (signal.Webhook, error) { return signal.Webhook{}, errors.New("stored") }
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
		{"nested too deeply", strings.Repeat(`{"url":`, 33) + "1" + strings.Repeat("}", 33), []string{"body  invalid_format"}, nil},
		{"nested a little", `{` + ok + `,"description":{"a":[{}]}}`, []string{"body /description invalid_type"}, nil},
		{"bad UTF-8", "{" + ok + ",\"description\":\"\xff\"}", []string{"body  invalid_format"}, nil},
		{"given twice", `{` + ok + `,"url":"https://example.com"}`, []string{"body /url duplicate"}, nil},
		{"empty", `{"url":"","events":[]}`, []string{"body /url too_short", "body /events too_short"}, nil},
		{"too long", `{"url":"` + long + `","events":["signal.created","signal.updated","signal.closed","agent.started","agent.completed","agent.error","webhook.test","signal.created"],"description":"` + long[:201] + `"}`,
			[]string{"body /url too_long", "body /events too_long", "body /description too_long"}, nil},
		{"wrong types", `{"url":7,"events":"signal.created","description":false,"api_version":20261101}`,
			[]string{"body /url invalid_type", "body /events invalid_type", "body /description invalid_type", "body /api_version invalid_type"}, nil},
		{"wrong events", `{"url":"https://example.com","events":["signal.created","*","signal.old","signal.created","SIGNAL.CREATED",7,null,"system.notification"]}`,
			[]string{"body /events/1 invalid_value", "body /events/2 invalid_value", "body /events/3 duplicate", "body /events/4 invalid_value", "body /events/5 invalid_type", "body /events/6 invalid_type", "body /events too_long"}, nil},
		{"internal events", `{"url":"https://example.com","events":["webhook.changed","key.revoked"]}`, []string{"body /events/0 invalid_value", "body /events/1 invalid_value"}, nil},
		{"an unknown version", `{` + ok + `,"api_version":"2026-11-02"}`, []string{"body /api_version invalid_value"}, nil},
		{"an empty version", `{` + ok + `,"api_version":""}`, []string{"body /api_version invalid_value"}, nil},
		{"a private address", `{"url":"private","events":["signal.created"]}`, []string{"body /url url_not_allowed"}, nil},
		{"plain HTTP", `{"url":"plain","events":["signal.created"]}`, []string{"body /url https_required"}, nil},
		{"both", `{"url":"both","events":["signal.created"]}`, []string{"body /url url_not_allowed", "body /url https_required"}, nil},
		{"what cannot be checked", `{"url":"broken","events":["signal.created"]}`, []string{"body /url invalid_format"}, nil},
		{"other people's members", `{` + ok + `,"webhook_id":"whk_1","created_at":"","failing_since":null,"Url":""}`,
			[]string{"body /webhook_id unknown_field", "body /created_at unknown_field", "body /failing_since unknown_field", "body /Url unknown_field"}, nil},
		{"a status", `{` + ok + `,"status":"paused"}`, []string{"body /status unknown_field"}, []string{"body /status invalid_value"}},
		{"a secret", `{` + ok + `,"secret":7}`, []string{"body /secret invalid_type"}, []string{"body /secret unknown_field"}},
		{"a long secret", `{` + ok + `,"secret":"` + long[:257] + `"}`, []string{"body /secret too_long"}, []string{"body /secret unknown_field"}},
		{"all at once", `{"url":"both","events":[],"description":1,"api_version":"v1","x":0}`, []string{"body /url url_not_allowed", "body /url https_required", "body /events too_short",
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
			if a := do(t, s, "PATCH", aWebhook, test.body); len(want) == 0 && a.Status != 200 || len(want) > 0 && a.Status != 400 {
				t.Errorf("PATCH: got %d %s", a.Status, a.Body)
			} else if len(want) > 0 && !slices.Equal(want, a.faults(t)) {
				t.Errorf("PATCH: %v, want %v", a.faults(t), want)
			}
		})
	}
	for body, want := range map[string]string{`{"secret":7}`: "body /secret invalid_type", `{"secret":"` + long[:257] + `"}`: "body /secret too_long",
		`{"url":""}`: "body /url unknown_field", `[]`: "body  invalid_type", `{} {}`: "body  invalid_format"} {
		if a := do(t, s, "POST", aWebhook+"/rotate-secret", body); a.Status != 400 || !slices.Equal(a.faults(t), []string{want}) {
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

func TestHundredWebhooksAreTheMost(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.add = func(signal.Webhook, int) (signal.Webhook, error) { return signal.Webhook{}, conflict("limit_reached") }
	a := do(t, newServer(t, f), "POST", "/v1/webhooks", `{"url":"https://example.com","events":["signal.created"]}`)
	if a.Status != 409 || a.problem(t).Code != "limit_reached" {
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

// TestRulesOfAllWebhookRequests are those of every operation: credential, scope, class
// of the limit, version, other methods, identifiers that cannot be, and what is not
// there.
func TestRulesOfAllWebhookRequests(t *testing.T) {
	t.Parallel()
	var classes []limits.Class
	f := &fakes{take: func(class limits.Class, _ string) limits.Decision {
		classes = append(classes, class)
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 1}
	}}
	s := newServer(t, f)
	gone := &fakes{}
	gone.webhook = func(signal.AccountID, signal.WebhookID) (signal.Webhook, error) {
		return signal.Webhook{}, signal.NotFound("webhook")
	}
	gone.remove = func(signal.AccountID, signal.WebhookID) error { return signal.NotFound("webhook") }
	gone.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (signal.Delivery, []byte, error) {
		return signal.Delivery{}, nil, signal.NotFound("delivery")
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
		if a := do(t, s, r.method, r.path, "{", "Authorization: Bearer reader"); a.Status != 403 || a.problem(t).RequiredScope != "webhooks:manage" {
			t.Errorf("%s without the scope: %d %s", name, a.Status, a.Body)
		}
		if a := do(t, s, r.method, r.path, r.body, "X-Service-Version: nosuch"); a.Status != 400 || !slices.Equal(a.faults(t), []string{"header X-Service-Version invalid_value"}) {
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
		for _, id := range []string{"whk_1", string(signalID), strings.ToLower(string(webhookID)), "whk_01M7YQ1WTVKN9DZNWV9NV456V1x", "%00"} {
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

// TestValuesComeBeforeTheResource: what is not valid is told of even where nothing is
// there.
func TestValuesComeBeforeTheResource(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, r := range everyWebhookRequest {
		path := strings.Replace(r.path, string(webhookID), "nosuch", 1)
		want := 400
		switch r.method {
		case "GET":
			path, want = path+"?status=x&limit=0", 400
			if !strings.HasSuffix(r.path, "s") { // it is no list
				want = 404
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

func TestWithoutAStoreThereAreNoWebhooks(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, func(o *signalhttp.Options) { o.Webhooks = nil })
	for _, route := range s.Routes() {
		if strings.Contains(route, "webhooks") {
			t.Errorf("there is %s", route)
		}
	}
}
