package http_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// fakeReads confirms nothing while unconfirmed is set, and counts its calls.
type fakeReads struct {
	unconfirmed bool
	calls       int
}

func (f *fakeReads) ConfirmRead(_ context.Context, account signal.AccountID) error {
	if f.calls++; f.unconfirmed && account == accountID {
		return signal.Unavailable(nil)
	}
	return nil
}

func (f *fakeReads) use(o *config) { o.Reads = f }

// immediateReads are the operations that show nothing of an account that a failover may lose, or that
// was not confirmed where it was read. TestReadsOfRecordsAreConfirmed finds those that are missing
// here or there.
var immediateReads = []string{"/", "/dashboard", "/dashboard/", "/dashboard/{file}", "/docs", "/docs/{file}", "/healthz",
	"/log/checkpoint", "/log/tile/{path}", "/log/{log}/tile/{path}",
	"/metrics", "/problems", "/problems/{code}", "/r/{slug}", "/r/{slug}.json", "/r/{slug}/badge.svg",
	"/r/{slug}/feed.xml", "/r/{slug}/proof/{signal_id}", "/readyz", "/v1/account", "/v1/account/public", "/v1/agents",
	"/v1/agents/{id}", "/v1/agents/{id}/intakes", "/v1/agents/{id}/intakes/{intake_id}/requests", "/v1/assets",
	"/v1/assets/{asset}/bars", "/v1/asyncapi.yaml", "/v1/auth/api-keys", "/v1/log/checkpoint", "/v1/log/consistency",
	"/v1/log/key", "/v1/log/tiles/{log}/{path}", "/v1/log/witness", "/v1/openapi.json", "/v1/openapi.yaml", "/v1/signals",
	"/v1/signals/weather", "/v1/signals/weather/{id}", "/v1/signals/{id}/proof", "/v1/sse/dashboard", "/v1/versions",
	"/v1/ws/dashboard",
	"/ws/dashboard"}

// What a failover may lose is not shown, whether the record is there or not.
func TestReadsOfRecordsAreConfirmed(t *testing.T) {
	t.Parallel()
	ids := map[string]string{"/v1/webhooks/": string(webhookID), "/v1/jobs/": string(jobID),
		"/v1/signals/": string(signalID), "/v1/schedules/": string(scheduleID)}
	for _, unknown := range []bool{false, true} {
		reads := &fakeReads{unconfirmed: true}
		s := newServer(t, &fakes{}, reads.use)
		for _, operation := range s.Routes() {
			path, isGet := strings.CutPrefix(operation, "GET ")
			if !isGet || strings.HasSuffix(path, "/ws/dashboard") {
				continue
			}
			target := strings.Replace(path, "{delivery_id}", string(deliveryID), 1)
			for prefix, id := range ids {
				if !unknown && strings.HasPrefix(target, prefix+"{id}") {
					target = strings.Replace(target, "{id}", id, 1)
				}
			}
			target = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(target, "x")
			a := do(t, s, "GET", target, "", "Authorization: Bearer jwt")
			if immediate := slices.Contains(immediateReads, path); immediate == (a.Status == 503) {
				t.Errorf("%s answers %d %s", target, a.Status, a.Body)
			}
		}
	}
}

// An answer that shows a former change, or what refuses the present one, is confirmed, too.
func TestAnswersToChangesAreConfirmed(t *testing.T) {
	t.Parallel()
	conflict := &signal.Error{Kind: signal.KindConflict, Code: "delivery_not_failed", Message: "it has not failed"}
	duplicate := &signal.Error{Kind: signal.KindInvalid, Code: signal.CodeDuplicateURL, Message: "duplicate"}
	f := &fakes{}
	f.webhookFakes.retry = func(signal.DeliveryID) (delivery.Delivery, error) { return delivery.Delivery{}, conflict }
	f.add = func(delivery.Webhook, int) (delivery.Webhook, error) { return delivery.Webhook{}, duplicate }
	reads := &fakeReads{}
	s := newServer(t, f, reads.use)
	webhook := "/v1/webhooks/" + string(webhookID)
	for _, c := range []struct {
		name, method, path, body string
		confirmed                int
	}{
		{"no change of a webhook", "PATCH", webhook, `{"status":"enabled"}`, 200},
		{"no change of a schedule", "PATCH", "/v1/schedules/" + string(scheduleID), `{}`, 200},
		{"a dry run", "POST", webhook + "/deliveries/retry", `{"dry_run":true}`, 200},
		{"a state that refuses", "POST", webhook + "/deliveries/" + string(deliveryID) + "/retry", "", 409},
		{"a URL that is taken", "POST", "/v1/webhooks", `{"url":"https://example.com/a","events":["signal.created"]}`, 400},
		{"no such webhook", "POST", "/v1/webhooks/x/test", "", 404},
	} {
		for unconfirmed, want := range map[bool]int{false: c.confirmed, true: 503} {
			reads.unconfirmed = unconfirmed
			if a := do(t, s, c.method, c.path, c.body); a.Status != want {
				t.Errorf("%s, unconfirmed %t: %d %s", c.name, unconfirmed, a.Status, a.Body)
			}
		}
	}
}

// What a change has made is shown although a read would be refused: the change itself was confirmed. A refusal would
// lose a secret that is shown only once, and a client that repeats it would have two schedules.
func TestWhatIsNewIsShown(t *testing.T) {
	t.Parallel()
	reads := &fakeReads{unconfirmed: true}
	s := newServer(t, &fakes{}, reads.use)
	for _, c := range []struct{ path, body, shown string }{
		{"/v1/webhooks", `{"url":"https://example.com/a","events":["signal.created"]}`, `"secret":"whsec_`},
		{"/v1/webhooks/" + string(webhookID) + "/rotate-secret", "", `"secret":"whsec_`},
		{"/v1/schedules", `{"agent_id":"trading","assets":["BTC"],"strategy":"momentum","every":"5m"}`, `"schedule_id":"sch_`},
	} {
		if a := do(t, s, "POST", c.path, c.body); a.Status != 200 || !strings.Contains(a.Body, c.shown) {
			t.Errorf("%s answers %d %s", c.path, a.Status, a.Body)
		}
	}
}

// Only the view of a list that reads records waits; the list itself has what was confirmed.
func TestFullListsAreConfirmed(t *testing.T) {
	t.Parallel()
	reads := &fakeReads{unconfirmed: true}
	s := newServer(t, &fakes{}, reads.use)
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 || reads.calls != 0 {
		t.Errorf("the list answers %d and was confirmed %d times", a.Status, reads.calls)
	}
	if a := do(t, s, "GET", "/v1/signals?view=full", ""); a.Status != 503 {
		t.Errorf("the full list answers %d", a.Status)
	}
}

// Runs and logins wait where they are stored. A request that is not valid depends on no record.
func TestWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	reads := &fakeReads{}
	s := newServer(t, &fakes{}, reads.use)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`, 200},
		{"POST", "/v1/auth/login", `{"email":"ada@example.com","password":"correct horse"}`, 200},
		{"GET", "/v1/webhooks?limit=x", "", 400},
	} {
		if a := do(t, s, c.method, c.path, c.body); a.Status != c.want || reads.calls != 0 {
			t.Errorf("%s %s answers %d %s and was confirmed %d times", c.method, c.path, a.Status, a.Body, reads.calls)
		}
	}
}
