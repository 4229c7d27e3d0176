package http_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Deliveries in answers, without the closing brace.
const (
	shown = `{"delivery_id":"dlv_01M7YQ1X7PE2DGEP087XGX6XDW","webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1",` +
		`"event_id":"evt_01M7YQ1X3DTRA4S2456P21NJZ0",` +
		`"event_type":"signal.created","status":"pending","attempt_count":1,` +
		`"next_attempt_at":"2026-11-21T09:30:31.120Z",` +
		`"completed_at":null,` +
		`"response_status":503,"error":"status 503","created_at":"2026-11-21T09:30:00.000Z"`
	shownWhole = shown + `,"attempts":[{"number":1,"trigger":"schedule","at":"2026-11-21T09:30:00.410Z",` +
		`"duration_ms":710,` +
		`"response_status":503,"error":"status 503","response_body":"busy"}],"payload":` + sentBody
)

// disabledWebhook is a newWebhook that is disabled.
func disabledWebhook() delivery.Webhook {
	w := newWebhook()
	w.Status, w.DisabledAt, w.DisabledReason = delivery.WebhookDisabled, morning, delivery.DisabledManual
	return w
}

func TestTestEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		token, by string
		webhook   delivery.Webhook
		single    bool
	}{
		{"key", "api", newWebhook(), false},
		{"jwt", "dashboard", newWebhook(), false},
		{"key", "api", disabledWebhook(), true},
	} {
		f := &fakes{}
		test.webhook.APIVersion = "2020-02-20" // of the webhook, not of the request
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return test.webhook, nil }
		var got delivery.Delivery
		var sent string
		f.create = func(d delivery.Delivery, body []byte) error {
			got, sent = d, string(body)
			return nil
		}
		a := do(t, newServer(t, f), "POST", aWebhook+"/test", "", "Authorization: Bearer "+test.token)
		want := delivery.Delivery{ID: got.ID, Webhook: webhookID, Account: accountID, Event: got.Event,
			Type: signal.WebhookTest, Status: delivery.Pending,
			CreatedAt: morning, NextAttemptAt: morning, Single: test.single}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		wantSent := `{"id":"` + string(got.Event) +
			`","type":"webhook.test","api_version":"2020-02-20","created_at":"2026-11-21T09:30:00.000Z",` +
			`"data":{"webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1","message":"This is a test event.","triggered_by":"` +
			test.by + `"}}`
		if sent != wantSent {
			t.Errorf("sent %s\nwant %s", sent, wantSent)
		}
		wantBody := `{"delivery_id":"` + string(got.ID) +
			`","webhook_id":"whk_01M7YQ1WTVKN9DZNWV9NV456V1","event_id":"` +
			string(got.Event) + `","event_type":"webhook.test",` +
			`"status":"pending","attempt_count":0,"next_attempt_at":"2026-11-21T09:30:00.000Z","completed_at":null,` +
			`"response_status":null,"error":null,` +
			`"created_at":"2026-11-21T09:30:00.000Z","attempts":[],"payload":` + wantSent + `}`
		if a.Status != 200 || a.Body != wantBody {
			t.Errorf("got %d %s\nwant %s", a.Status, a.Body, wantBody)
		}
	}
}

func TestDeliveriesAreListed(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var got delivery.Query
	f.deliveries = func(account signal.AccountID, webhook signal.WebhookID,
		q delivery.Query) ([]delivery.Delivery, int, error) {
		if got = q; account != accountID || webhook != webhookID {
			t.Errorf("asked for %s %s", account, webhook)
		}
		ended := newDelivery()
		ended.Status, ended.NextAttemptAt, ended.CompletedAt, ended.Error = delivery.Succeeded, time.Time{},
			morning.Add(time.Minute), ""
		ended.Attempts = append(ended.Attempts, delivery.Attempt{Number: 9, ResponseStatus: 204})
		return []delivery.Delivery{newDelivery(), ended}, 7, nil
	}
	s := newServer(t, f)
	a := do(t, s, "GET", aWebhook+"/deliveries?status=failed&event=agent.error&limit=2&offset=1", "")
	ended := strings.NewReplacer(`"pending","attempt_count":1,"next_attempt_at":"2026-11-21T09:30:31.120Z",`+
		`"completed_at":null`,
		`"succeeded","attempt_count":9,"next_attempt_at":null,"completed_at":"2026-11-21T09:31:00.000Z"`,
		`503,"error":"status 503"`, `204,"error":null`).Replace(shown)
	if want := `{"deliveries":[` + shown + `},` + ended +
		`}],"total":7,"limit":2,"offset":1,"has_more":true}`; a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	if d := cmp.Diff(delivery.Query{Status: delivery.Failed, Type: signal.AgentFailed, Limit: 2, Offset: 1},
		got); d != "" {
		t.Errorf("query (-want +got):\n%s", d)
	}
	do(t, s, "GET", aWebhook+"/deliveries?status=&event=&limit=&offset=", "")
	if d := cmp.Diff(delivery.Query{Limit: 25}, got); d != "" {
		t.Errorf("empty values are not as absent (-want +got):\n%s", d)
	}
	f.deliveries = nil
	if a := do(t, s, "GET", aWebhook+"/deliveries",
		""); a.Body != `{"deliveries":[],"total":0,"limit":25,"offset":0,"has_more":false}` {
		t.Errorf("none: %s", a.Body)
	}
	a = do(t, s, "GET", aWebhook+"/deliveries?status=queued&event=system.notification&limit=101&offset=-1", "")
	if want := []string{"query limit out_of_range", "query offset out_of_range", "query status invalid_value",
		"query event invalid_value"}; !slices.Equal(a.faults(t), want) {
		t.Errorf("faults %v", a.faults(t))
	}
	a = do(t, s, "GET", "/v1/webhooks?status=failing&limit=0", "")
	if want := []string{"query status invalid_value", "query limit out_of_range"}; !slices.Equal(a.faults(t), want) {
		t.Errorf("faults %v", a.faults(t))
	}
}

// TestDeliveryIsShownWhole demands the payload byte for byte, which encoding/json changes.
func TestDeliveryIsShownWhole(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f)
	if a := do(t, s, "GET", aDelivery, ""); a.Status != 200 || a.Body != shownWhole+`}` {
		t.Errorf("got %d %s\nwant %s}", a.Status, a.Body, shownWhole)
	}
	f.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
		d := newDelivery()
		d.Status, d.NextAttemptAt, d.CompletedAt, d.Error = delivery.Failed, time.Time{}, morning, "cancelled"
		d.Attempts = []delivery.Attempt{
			{Number: 51, Trigger: delivery.Manual, At: morning, Error: "host not found"},
			{Number: 52, Trigger: delivery.Manual, At: morning, Duration: time.Minute, ResponseStatus: 200,
				ResponseBody: "<script>alert(\"1\")</script>\x00\xff\u2028"},
			{Number: 53, Trigger: delivery.Manual, At: morning, ResponseStatus: 204},
			{Number: 54, Trigger: delivery.Scheduled, At: morning, Error: "timeout"},
		}
		return d, []byte(sentBody), nil
	}
	a := do(t, s, "GET", aDelivery, "")
	for _, part := range []string{
		`"status":"failed","attempt_count":54,"next_attempt_at":null,"completed_at":"2026-11-21T09:30:00.000Z",` +
			`"response_status":null,"error":"cancelled",`,
		`{"number":51,"trigger":"manual","at":"2026-11-21T09:30:00.000Z","duration_ms":0,"response_status":null,` +
			`"error":"host not found","response_body":null}`,
		`"duration_ms":60000,"response_status":200,"error":null,` +
			`"response_body":"<script>alert(\"1\")</script>\u0000\ufffd\u2028"}`,
		`"response_status":204,"error":null,"response_body":""}`,
		`"response_status":null,"error":"timeout","response_body":null}],"payload":{`,
	} {
		if !strings.Contains(a.Body, part) {
			t.Errorf("no %s in %s", part, a.Body)
		}
	}
	if h := a.Header; a.Status != 200 || h.Get("Content-Type") != "application/json" ||
		h.Get("X-Content-Type-Options") != "nosniff" || !json.Valid([]byte(a.Body)) {
		t.Errorf("got %d %v", a.Status, h)
	}
}

func TestDeliveriesAreRetriedAndCancelled(t *testing.T) {
	t.Parallel()
	after := newDelivery()
	after.NextAttemptAt = morning
	wantAfter := strings.Replace(shownWhole, "09:30:31.120Z", "09:30:00.000Z", 1) + `}`
	tests := []struct {
		action, refused string
		disabled        delivery.WebhookStatus
		status          int // if the webhook is disabled
	}{
		{"retry", "delivery_not_failed", "", 409},
		{"cancel", "delivery_not_pending", "", 200},
	}
	for _, test := range tests {
		f := &fakes{}
		var err error
		asked := 0
		act := func(id signal.DeliveryID) (delivery.Delivery, error) {
			if asked++; id != deliveryID {
				t.Errorf("asked for %s", id)
			}
			return after, err
		}
		f.retry, f.cancel = act, act
		s := newServer(t, f)
		path := aDelivery + "/" + test.action
		for _, body := range []string{"", "{}", " {} "} {
			if a := do(t, s, "POST", path, body); a.Status != 200 || a.Body != wantAfter {
				t.Errorf("%s with %q: got %d %s", test.action, body, a.Status, a.Body)
			}
		}
		err = conflict(test.refused)
		if a := do(t, s, "POST", path, ""); a.Status != 409 || a.problem(t).Code != test.refused {
			t.Errorf("%s refused: %d %s", test.action, a.Status, a.Body)
		}
		err, asked = nil, 0
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return disabledWebhook(), nil }
		a := do(t, s, "POST", path, "")
		if a.Status != test.status || a.Status == 409 && (a.problem(t).Code != "webhook_disabled" || asked != 0) {
			t.Errorf("%s of a disabled webhook: %d %s", test.action, a.Status, a.Body)
		}
		f.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
			return delivery.Delivery{}, nil, signal.NotFound("delivery")
		}
		if a := do(t, s, "POST", path, ""); a.Status != 404 {
			t.Errorf("%s of nothing in a disabled webhook: %d %s", test.action, a.Status, a.Body)
		}
	}
}

func TestManyDeliveriesAreRetried(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var got *delivery.RetryQuery
	f.retryAll = func(webhook signal.WebhookID, q delivery.RetryQuery) (int, error) {
		if got = &q; webhook != webhookID {
			t.Errorf("asked for %s", webhook)
		}
		return 42, nil
	}
	s := newServer(t, f)
	tests := []struct {
		body string
		want delivery.RetryQuery
	}{
		{``, delivery.RetryQuery{Status: delivery.Failed}},
		{`{"since":null,"until":null,"status":null,"dry_run":null}`, delivery.RetryQuery{Status: delivery.Failed}},
		{`{"since":"2026-11-21T10:30:00+01:00","until":"2026-11-22","status":"succeeded","dry_run":true}`,
			delivery.RetryQuery{Status: delivery.Succeeded, Since: morning,
				Until: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), DryRun: true}},
		{`{"since":"2026-11-21t09:30:00.000z","until":"2026-11-21T09:30:00"}`,
			delivery.RetryQuery{Status: delivery.Failed, Since: morning, Until: morning}},
		{`{"until":"2026-11-21T09:30:00Z","dry_run":false}`,
			delivery.RetryQuery{Status: delivery.Failed, Until: morning}},
	}
	for _, test := range tests {
		a := do(t, s, "POST", aWebhook+"/deliveries/retry", test.body)
		if a.Status != 200 || a.Body != `{"retried":42}` {
			t.Errorf("%s: got %d %s", test.body, a.Status, a.Body)
		}
		if d := cmp.Diff(&test.want, got); d != "" {
			t.Errorf("%s: query (-want +got):\n%s", test.body, d)
		}
	}
	got = nil
	for body, want := range map[string][]string{
		`{"since":7,"until":"tomorrow","status":"pending","dry_run":"yes","limit":1}`: {"body /since invalid_type",
			"body /until invalid_format", "body /status invalid_value",
			"body /dry_run invalid_type", "body /limit unknown_field"},
		`{"since":"","until":"2026-02-30"}`:           {"body /since invalid_format", "body /until invalid_format"},
		`{"since":"2026-11-21 09:30:00Z"}`:            {"body /since invalid_format"},
		`{"since":"2026-11-22","until":"2026-11-21"}`: {"body /until out_of_range"},
		`{} {}`: {"body  invalid_format"},
		`[]`:    {"body  invalid_type"},
		`{"since":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: {"body  invalid_format"},
		`{"since":"2026-11-21T09:30:00Z","since":"2026-11-21T09:30:00Z"}`:     {"body /since duplicate"},
		`{"status":["failed"],"dry_run":0,"since":{"a":1},"until":["2026-11-21"]}`: {"body /since invalid_type",
			"body /until invalid_type", "body /status invalid_type", "body /dry_run invalid_type"},
	} {
		if a := do(t, s, "POST", aWebhook+"/deliveries/retry", body); a.Status != 400 ||
			!slices.Equal(a.faults(t), want) {
			t.Errorf("%s: got %d %s", body, a.Status, a.Body)
		}
	}
	f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return disabledWebhook(), nil }
	for _, body := range []string{``, `{"dry_run":true}`} {
		if a := do(t, s, "POST", aWebhook+"/deliveries/retry", body); a.Status != 409 ||
			a.problem(t).Code != "webhook_disabled" || got != nil {
			t.Errorf("disabled: %d %s", a.Status, a.Body)
		}
	}
}

func TestManyDeliveriesAreCancelled(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.cancelAll = func(webhook signal.WebhookID) (int, error) { return len(webhook), nil }
	f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return disabledWebhook(), nil }
	if a := do(t, newServer(t, f), "POST", aWebhook+"/deliveries/cancel", ""); a.Status != 200 ||
		a.Body != `{"cancelled":30}` {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// TestStoreFailsBehindWebhooks checks the answer to every error of the store.
func TestStoreFailsBehindWebhooks(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{503: signal.Unavailable(errors.New("secret state")),
		500: errors.New("secret state")} {
		f := &fakes{}
		f.add = func(delivery.Webhook, int) (delivery.Webhook, error) { return delivery.Webhook{}, err }
		f.webhook = func(signal.AccountID, signal.WebhookID) (delivery.Webhook, error) { return newWebhook(), nil }
		f.webhooks = func(signal.AccountID) ([]delivery.Webhook, error) { return nil, err }
		f.change = func(delivery.Webhook, bool) (delivery.Webhook, error) { return delivery.Webhook{}, err }
		f.remove = func(signal.AccountID, signal.WebhookID) error { return err }
		f.create = func(delivery.Delivery, []byte) error { return err }
		f.deliveries = func(signal.AccountID, signal.WebhookID, delivery.Query) ([]delivery.Delivery, int, error) {
			return nil, 0, err
		}
		f.retry = func(signal.DeliveryID) (delivery.Delivery, error) { return delivery.Delivery{}, err }
		f.cancel = f.retry
		f.retryAll = func(signal.WebhookID, delivery.RetryQuery) (int, error) { return 0, err }
		f.cancelAll = func(signal.WebhookID) (int, error) { return 0, err }
		f.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
			return newDelivery(), []byte(sentBody), err
		}
		s := newServer(t, f)
		for _, r := range everyWebhookRequest {
			if r.method == "GET" && r.path == aWebhook {
				continue // it exists
			}
			if a := do(t, s, r.method, r.path, r.body); a.Status != want || strings.Contains(a.Body, "secret state") {
				t.Errorf("%s %s: got %d %s", r.method, r.path, a.Status, a.Body)
			}
		}
	}
}
