package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// everyEvent lists what a webhook may subscribe to.
var everyEvent = []string{"signal.created", "signal.updated", "signal.closed", "agent.started", "agent.completed",
	"agent.error", "webhook.test"}

func TestEveryEventReachesAWebhook(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, account := s.account(t)
	end := newHookEndpoint(t, nil)
	w := trader.hook(end.url, everyEvent...)

	ran := trader.tryRun("BTC", "momentum").ok(t)
	made := decode[wireSignal](t, ran.Body)
	failed := trader.tryRun("NOSUCH", "momentum").fails(t, "agent_failed")
	job := trader.awaitJob(trader.submit("BTC", "breakout").ID)
	// The owner of a signal appends its changes and its end.
	changed := `{"signal_id":"` + made.ID + `","confidence":0.5,"previous":{"confidence":0.4372}}`
	closed := `{"signal_id":"` + made.ID + `","asset":"BTC","close_reason":"take_profit"}`
	s.change(t, account.ID, made.ID, signal.SignalUpdated, changed, func(s *signal.Signal) { s.Confidence = .5 })
	s.change(t, account.ID, made.ID, signal.SignalClosed, closed, func(s *signal.Signal) {
		s.Closing = &signal.Closing{Reason: signal.CloseReasons[0], At: s.CreatedAt.Add(1)}
	})
	byKey := trader.test(w)
	user := trader.with(trader.with("").login(account.Email, password).Access)
	byUser := user.test(w)

	all := end.await(t, 12)
	want := []string{"agent.completed", "agent.completed", "agent.error", "agent.started", "agent.started",
		"agent.started",
		"signal.closed", "signal.created", "signal.created", "signal.updated", "webhook.test", "webhook.test"}
	if got := kinds(all); !slices.Equal(got, want) {
		t.Fatalf("the events are %v, want %v", got, want)
	}
	runID := ran.Header.Get("X-Run-Id")
	seen := 0
	for _, a := range all {
		e := a.verify(t, w.Secret)
		var data struct {
			Run       string  `json:"run_id"`
			Job       *string `json:"job_id"`
			Signal    string  `json:"signal_id"`
			Triggered string  `json:"triggered_by"`
			Webhook   string  `json:"webhook_id"`
			Code      string  `json:"error_code"`
			Retryable *bool
		}
		must(t, json.Unmarshal(e.Data, &data))
		names := memberNames(t, string(e.Data))
		good := false
		switch {
		case e.Type == "signal.created":
			good = data.Signal == job.Signal.ID || same(string(e.Data), members(t, ran.Body,
				slices.DeleteFunc(slices.Clone(signalMembers), func(n string) bool { return n == "created_at" })...))
		case e.Type == "signal.updated":
			good = string(e.Data) == changed
		case e.Type == "signal.closed":
			good = string(e.Data) == closed
		case e.Type == "agent.started":
			good = names == "agent_id asset job_id risk_level run_id started_at strategy timeframe" &&
				(data.Run == job.Run) == (data.Job != nil && *data.Job == job.ID) &&
				(data.Run == job.Run || data.Run == runID || data.Run == failed.RunID)
		case e.Type == "agent.completed" && data.Run == runID:
			good = names == "agent_id asset completed_at duration_ms job_id run_id signal_id strategy" &&
				data.Signal == made.ID && data.Job == nil
		case e.Type == "agent.completed":
			good = data.Run == job.Run && data.Signal == job.Signal.ID && *data.Job == job.ID
		case e.Type == "agent.error":
			good = names == "agent_id error_code message retryable run_id" && data.Run == failed.RunID &&
				data.Code == failed.ErrorCode && !*data.Retryable
		case a.delivery() == byKey.ID:
			good = e.ID == byKey.Event && same(a.Body, string(byKey.Payload)) && data.Triggered == "api" &&
				data.Webhook == w.ID
		case a.delivery() == byUser.ID:
			good = e.ID == byUser.Event && data.Triggered == "dashboard"
		}
		if !good || a.attempt() != 1 {
			t.Errorf("attempt %d of %s: %s", a.attempt(), e.Type, a.Body)
		}
		// The delivery shows the sent body and has succeeded.
		d := trader.awaitEnd(w, a.delivery(), "succeeded")
		if string(d.Payload) != a.Body || d.Event != e.ID || d.Type != e.Type || d.AttemptCount != 1 ||
			len(d.Attempts) != 1 || d.Error != nil ||
			d.CompletedAt == nil || d.NextAttemptAt != nil || *d.ResponseStatus != http.StatusOK ||
			d.Attempts[0].Trigger != "schedule" {
			t.Errorf("%s was sent and is shown as %+v", a.Body, d)
		}
		seen++
	}
	// Lists have them by state and by type, newest first.
	listed := trader.deliveries(w, "")
	if len(listed) != seen || !slices.IsSortedFunc(listed,
		func(a, b wireDelivery) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Errorf("%d deliveries are listed: %+v", len(listed), listed)
	}
	for query, want := range map[string]int{"status=succeeded": seen, "status=failed": 0, "event=agent.started": 3,
		"event=signal.created&status=succeeded": 2, "status=pending": 0} {
		if got := len(trader.deliveries(w, query)); got != want {
			t.Errorf("%q finds %d deliveries, want %d", query, got, want)
		}
	}
	if n := len(end.got()); n != seen {
		t.Errorf("%d requests, want %d", n, seen)
	}
}

// TestAWebhookGetsItsSubscription: no other types or accounts, nothing from
// before it or while it is disabled, and the new subscription after a change.
func TestAWebhookGetsItsSubscription(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	eve, _ := s.account(t)
	hers, his, other := newHookEndpoint(t, nil), newHookEndpoint(t, nil), newHookEndpoint(t, nil)
	trader.run("BTC", "momentum") // before the webhook
	w := trader.hook(his.url, "signal.created")
	second := trader.hook(his.url+"?second", "signal.created") // the same host
	eve.hook(hers.url, everyEvent...)
	first := trader.run("BTC", "momentum")
	all := his.await(t, 2)
	if all[0].event() != all[1].event() || all[0].delivery() == all[1].delivery() || all[0].Body != all[1].Body {
		t.Errorf("one event to two webhooks is %v %v", all[0], all[1])
	}
	if got := signalsIn(t, all); got[first.ID] != 2 {
		t.Errorf("they got %v, want %s", got, first.ID)
	}

	path := "/v1/webhooks/" + second.ID
	eve.get(path).fails(t, "not_found")
	eve.post(path+"/test", "").fails(t, "not_found")
	eve.get("/v1/webhooks/"+w.ID+"/deliveries/"+all[0].delivery()).fails(t, "not_found")
	trader.do(http.MethodDelete, path, "").want(t, http.StatusNoContent)
	changed := decode[wireWebhook](t, trader.do(http.MethodPatch, "/v1/webhooks/"+w.ID,
		`{"events":["agent.completed"],"url":"`+other.url+`"}`).ok(t).Body)
	if changed.URL != other.url || !slices.Equal(changed.Events, []string{"agent.completed"}) || changed.Secret != "" {
		t.Errorf("changed to %+v", changed)
	}
	// The test comes after the change: later events go to the new URL.
	trader.test(w)
	other.await(t, 1)
	trader.run("BTC", "breakout")
	if got, want := kinds(other.await(t, 2)), []string{"agent.completed", "webhook.test"}; !slices.Equal(got, want) {
		t.Errorf("after the change it got %v, want %v", got, want)
	}

	disabled := decode[wireWebhook](t, trader.do(http.MethodPatch, "/v1/webhooks/"+w.ID,
		`{"status":"disabled"}`).ok(t).Body)
	if disabled.Status != "disabled" || textOf(disabled.DisabledReason) != "manual" {
		t.Errorf("disabled is %+v", disabled)
	}
	once := trader.test(w) // is sent nevertheless
	other.await(t, 3)
	trader.awaitEnd(w, once.ID, "succeeded")
	trader.run("BTC", "momentum")
	trader.post("/v1/webhooks/"+w.ID+"/deliveries/retry", "").fails(t, "webhook_disabled")
	trader.do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"status":"enabled"}`).ok(t)
	trader.test(w)
	other.await(t, 4)
	trader.run("BTC", "momentum")
	if got, want := kinds(other.await(t, 5)), []string{"agent.completed", "agent.completed", "webhook.test",
		"webhook.test", "webhook.test"}; !slices.Equal(got, want) {
		t.Errorf("while it was disabled it got %v, want %v", got, want)
	}
	if len(hers.got()) != 0 || len(his.got()) != 2 {
		t.Errorf("eve got %v, the old address %v", kinds(hers.got()), kinds(his.got()))
	}
}

func TestAHangingEndpointCostsOthersNothing(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	hanging, good := newHangingEndpoint(t), newHookEndpoint(t, nil)
	slow, quick := trader.hook(hanging.url), trader.hook(good.url)
	want := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	const workers, runs = 3, 10
	for range workers {
		wg.Go(func() {
			for range runs {
				id := trader.run("BTC", "momentum").ID
				mu.Lock()
				want[id]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all := good.await(t, len(want))
	if got := signalsIn(t, all); !sameCounts(got, want) {
		t.Errorf("the good endpoint got %v, want %v", got, want)
	}
	trader.awaitTotal(quick, "status=succeeded", len(want))
	hanging.await(t, 1)
	trader.awaitTotal(slow, "status=pending", len(want))
	if n := len(hanging.open()); n > 8 {
		t.Errorf("%d requests are under way to one endpoint", n)
	}
	hanging.release()
	trader.awaitTotal(slow, "status=succeeded", len(want))
	got := signalsIn(t, hanging.got()) // some twice: those that hung too long
	for id := range want {
		if got[id] == 0 {
			t.Errorf("the endpoint that hung did not get %s", id)
		}
	}
}

// sameCounts compares two counts.
func sameCounts(a, b map[string]int) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	end := newHookEndpoint(t, nil)
	given := "plain secret " + string(signal.NewKeyID())
	body := jsonOf(t, map[string]any{"url": end.url, "events": []string{"webhook.test"}, "secret": given})
	key := "Idempotency-Key: secret"
	answered := trader.post("/v1/webhooks", body, key).ok(t)
	w := decode[wireWebhook](t, answered.Body)
	if w.Secret != given {
		t.Fatalf("registered with the secret %q, want %q", w.Secret, given)
	}
	// A repeated request has the same answer, which is stored sealed.
	if again := trader.post("/v1/webhooks", body, key); again.Header.Get("Idempotency-Replayed") != "true" ||
		again.Body != answered.Body {
		t.Errorf("the replay is %v %s", again.Header, again.Body)
	}
	made := trader.hook(end.url+"/generated", "webhook.test")
	if !strings.HasPrefix(made.Secret, "whsec_") || len(made.Secret) != 50 {
		t.Errorf("the generated secret is %q", made.Secret)
	}

	trader.test(w)
	end.await(t, 1)[0].verify(t, given)
	turned := decode[struct {
		ID      string `json:"webhook_id"`
		Secret  string
		Expires string `json:"previous_secret_expires_at"`
	}](t, trader.post("/v1/webhooks/"+w.ID+"/rotate-secret", "").ok(t).Body)
	if turned.ID != w.ID || !strings.HasPrefix(turned.Secret, "whsec_") || turned.Expires == "" {
		t.Errorf("rotated to %+v", turned)
	}
	trader.test(w)
	latest := end.await(t, 2)[1]
	latest.verify(t, turned.Secret)
	latest.verifyStandard(t, given)
	if n := len(strings.Fields(latest.Header.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures during the overlap", n)
	}
	// After a second rotation the first secret is no longer valid.
	third := "third secret " + string(signal.NewKeyID())
	trader.post("/v1/webhooks/"+w.ID+"/rotate-secret", `{"secret":"`+third+`"}`).ok(t)
	trader.test(w)
	latest = end.await(t, 3)[2]
	latest.verify(t, third)
	latest.verifyStandard(t, turned.Secret)
	if n := len(strings.Fields(latest.Header.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures after the second rotation", n)
	}

	secrets := []string{given, turned.Secret, third, made.Secret}
	for _, secret := range secrets[1:] {
		secrets = append(secrets, strings.TrimPrefix(secret, "whsec_"))
	}
	var shown strings.Builder
	for _, path := range []string{"/v1/webhooks", "/v1/webhooks/" + w.ID, "/v1/webhooks/" + w.ID + "/deliveries",
		"/v1/webhooks/" + w.ID + "/deliveries/" + latest.delivery()} {
		shown.WriteString(trader.get(path).ok(t).Body)
	}
	shown.WriteString(trader.do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"description":"changed"}`).ok(t).Body)
	for _, secret := range secrets {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("%q is shown again: %s", secret, shown.String())
		}
		if line := s.log.Line(secret); line != "" {
			t.Errorf("%q is logged: %s", secret, line)
		}
	}
	if found := s.traces(t, secrets); len(found) > 0 {
		t.Errorf("Redis has %v", found)
	}
	if found := s.traces(t, []string{w.ID}); len(found) == 0 {
		t.Error("the scan finds nothing at all")
	}
}
