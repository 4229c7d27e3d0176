package webhooks

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// everyEvent lists what a webhook may subscribe to.
var everyEvent = []string{"signal.created", "signal.updated", "signal.closed", "agent.started", "agent.completed",
	"agent.error", "webhook.test"}

func TestEveryEventReachesAWebhook(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, account := s.Account(t)
	end := e2e.NewHookEndpoint(t, nil)
	w := trader.Hook(end.URL, everyEvent...)

	ran := trader.TryRun("BTC", "momentum").Ok(t)
	made := e2e.Decode[e2e.WireSignal](t, ran.Body)
	failed := trader.TryRun("NOSUCH", "momentum").Fails(t, "agent_failed")
	job := trader.AwaitJob(trader.Submit("BTC", "breakout").ID)
	// The owner of a signal appends its changes and its end.
	changed := `{"signal_id":"` + made.ID + `","confidence":0.5,"previous":{"confidence":0.4372}}`
	closed := `{"signal_id":"` + made.ID + `","asset":"BTC","close_reason":"take_profit"}`
	s.Change(t, account.ID, made.ID, signal.SignalUpdated, changed, func(s *signal.Signal) { s.Confidence = .5 })
	s.Change(t, account.ID, made.ID, signal.SignalClosed, closed, func(s *signal.Signal) {
		s.Closing = &signal.Closing{Reason: signal.CloseReasons[0], At: s.CreatedAt.Add(1)}
	})
	byKey := trader.Test(w)
	user := trader.With(trader.With("").Login(account.Email, e2e.Password).Access)
	byUser := user.Test(w)

	all := end.Await(t, 12)
	want := []string{"agent.completed", "agent.completed", "agent.error", "agent.started", "agent.started",
		"agent.started",
		"signal.closed", "signal.created", "signal.created", "signal.updated", "webhook.test", "webhook.test"}
	if got := kinds(all); !slices.Equal(got, want) {
		t.Fatalf("the events are %v, want %v", got, want)
	}
	runID := ran.Header.Get("X-Run-Id")
	seen := 0
	for _, a := range all {
		e := a.Verify(t, w.Secret)
		var data struct {
			Run       string  `json:"run_id"`
			Job       *string `json:"job_id"`
			Signal    string  `json:"signal_id"`
			Triggered string  `json:"triggered_by"`
			Webhook   string  `json:"webhook_id"`
			Code      string  `json:"error_code"`
			Retryable *bool
		}
		e2e.Must(t, json.Unmarshal(e.Data, &data))
		names := e2e.MemberNames(t, string(e.Data))
		good := false
		switch {
		case e.Type == "signal.created":
			good = data.Signal == job.Signal.ID || e2e.Same(string(e.Data), e2e.Members(t, ran.Body,
				slices.DeleteFunc(slices.Clone(e2e.SignalMembers), func(n string) bool { return n == "created_at" })...))
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
		case a.Delivery() == byKey.ID:
			good = e.ID == byKey.Event && e2e.Same(a.Body, string(byKey.Payload)) && data.Triggered == "api" &&
				data.Webhook == w.ID
		case a.Delivery() == byUser.ID:
			good = e.ID == byUser.Event && data.Triggered == "dashboard"
		}
		if !good || a.Attempt() != 1 {
			t.Errorf("attempt %d of %s: %s", a.Attempt(), e.Type, a.Body)
		}
		// The delivery shows the sent body and has succeeded.
		d := trader.AwaitEnd(w, a.Delivery(), "succeeded")
		if string(d.Payload) != a.Body || d.Event != e.ID || d.Type != e.Type || d.AttemptCount != 1 ||
			len(d.Attempts) != 1 || d.Error != nil ||
			d.CompletedAt == nil || d.NextAttemptAt != nil || *d.ResponseStatus != http.StatusOK ||
			d.Attempts[0].Trigger != "schedule" {
			t.Errorf("%s was sent and is shown as %+v", a.Body, d)
		}
		seen++
	}
	// Lists have them by state and by type, newest first.
	listed := trader.Deliveries(w, "")
	if len(listed) != seen || !slices.IsSortedFunc(listed,
		func(a, b e2e.WireDelivery) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Errorf("%d deliveries are listed: %+v", len(listed), listed)
	}
	for query, want := range map[string]int{"status=succeeded": seen, "status=failed": 0, "event=agent.started": 3,
		"event=signal.created&status=succeeded": 2, "status=pending": 0} {
		if got := len(trader.Deliveries(w, query)); got != want {
			t.Errorf("%q finds %d deliveries, want %d", query, got, want)
		}
	}
	if n := len(end.Got()); n != seen {
		t.Errorf("%d requests, want %d", n, seen)
	}
}

// TestAWebhookGetsItsSubscription: no other types or accounts, nothing from
// before it or while it is disabled, and the new subscription after a change.
func TestAWebhookGetsItsSubscription(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	eve, _ := s.Account(t)
	hers, his, other := e2e.NewHookEndpoint(t, nil), e2e.NewHookEndpoint(t, nil), e2e.NewHookEndpoint(t, nil)
	trader.Run("BTC", "momentum") // before the webhook
	w := trader.Hook(his.URL, "signal.created")
	second := trader.Hook(his.URL+"?second", "signal.created") // the same host
	eve.Hook(hers.URL, everyEvent...)
	first := trader.Run("BTC", "momentum")
	all := his.Await(t, 2)
	if all[0].Event() != all[1].Event() || all[0].Delivery() == all[1].Delivery() || all[0].Body != all[1].Body {
		t.Errorf("one event to two webhooks is %v %v", all[0], all[1])
	}
	if got := e2e.SignalsIn(t, all); got[first.ID] != 2 {
		t.Errorf("they got %v, want %s", got, first.ID)
	}

	path := "/v1/webhooks/" + second.ID
	eve.Get(path).Fails(t, "not_found")
	eve.Post(path+"/test", "").Fails(t, "not_found")
	eve.Get("/v1/webhooks/"+w.ID+"/deliveries/"+all[0].Delivery()).Fails(t, "not_found")
	trader.Do(http.MethodDelete, path, "").Want(t, http.StatusNoContent)
	changed := e2e.Decode[e2e.WireWebhook](t, trader.Do(http.MethodPatch, "/v1/webhooks/"+w.ID,
		`{"events":["agent.completed"],"url":"`+other.URL+`"}`).Ok(t).Body)
	if changed.URL != other.URL || !slices.Equal(changed.Events, []string{"agent.completed"}) || changed.Secret != "" {
		t.Errorf("changed to %+v", changed)
	}
	// The test comes after the change: later events go to the new URL.
	trader.Test(w)
	other.Await(t, 1)
	trader.Run("BTC", "breakout")
	if got, want := kinds(other.Await(t, 2)), []string{"agent.completed", "webhook.test"}; !slices.Equal(got, want) {
		t.Errorf("after the change it got %v, want %v", got, want)
	}

	disabled := e2e.Decode[e2e.WireWebhook](t, trader.Do(http.MethodPatch, "/v1/webhooks/"+w.ID,
		`{"status":"disabled"}`).Ok(t).Body)
	if disabled.Status != "disabled" || textOf(disabled.DisabledReason) != "manual" {
		t.Errorf("disabled is %+v", disabled)
	}
	once := trader.Test(w) // is sent nevertheless
	other.Await(t, 3)
	trader.AwaitEnd(w, once.ID, "succeeded")
	trader.Run("BTC", "momentum")
	trader.Post("/v1/webhooks/"+w.ID+"/deliveries/retry", "").Fails(t, "webhook_disabled")
	trader.Do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"status":"enabled"}`).Ok(t)
	trader.Test(w)
	other.Await(t, 4)
	trader.Run("BTC", "momentum")
	if got, want := kinds(other.Await(t, 5)), []string{"agent.completed", "agent.completed", "webhook.test",
		"webhook.test", "webhook.test"}; !slices.Equal(got, want) {
		t.Errorf("while it was disabled it got %v, want %v", got, want)
	}
	if len(hers.Got()) != 0 || len(his.Got()) != 2 {
		t.Errorf("eve got %v, the old address %v", kinds(hers.Got()), kinds(his.Got()))
	}
}

func TestAHangingEndpointCostsOthersNothing(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	hanging, good := e2e.NewHangingEndpoint(t), e2e.NewHookEndpoint(t, nil)
	slow, quick := trader.Hook(hanging.URL), trader.Hook(good.URL)
	want := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	const workers, runs = 3, 10
	for range workers {
		wg.Go(func() {
			for range runs {
				id := trader.Run("BTC", "momentum").ID
				mu.Lock()
				want[id]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all := good.Await(t, len(want))
	if got := e2e.SignalsIn(t, all); !e2e.SameCounts(got, want) {
		t.Errorf("the good endpoint got %v, want %v", got, want)
	}
	trader.AwaitTotal(quick, "status=succeeded", len(want))
	hanging.Await(t, 1)
	trader.AwaitTotal(slow, "status=pending", len(want))
	if n := len(hanging.Open()); n > 8 {
		t.Errorf("%d requests are under way to one endpoint", n)
	}
	hanging.Release()
	trader.AwaitTotal(slow, "status=succeeded", len(want))
	got := e2e.SignalsIn(t, hanging.Got()) // some twice: those that hung too long
	for id := range want {
		if got[id] == 0 {
			t.Errorf("the endpoint that hung did not get %s", id)
		}
	}
}

func TestSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	end := e2e.NewHookEndpoint(t, nil)
	given := "plain secret " + string(signal.NewKeyID())
	body := e2e.JsonOf(t, map[string]any{"url": end.URL, "events": []string{"webhook.test"}, "secret": given})
	key := "Idempotency-Key: secret"
	answered := trader.Post("/v1/webhooks", body, key).Ok(t)
	w := e2e.Decode[e2e.WireWebhook](t, answered.Body)
	if w.Secret != given {
		t.Fatalf("registered with the secret %q, want %q", w.Secret, given)
	}
	// A repeated request has the same answer, which is stored sealed.
	if again := trader.Post("/v1/webhooks", body, key); again.Header.Get("Idempotency-Replayed") != "true" ||
		again.Body != answered.Body {
		t.Errorf("the replay is %v %s", again.Header, again.Body)
	}
	made := trader.Hook(end.URL+"/generated", "webhook.test")
	if !strings.HasPrefix(made.Secret, "whsec_") || len(made.Secret) != 50 {
		t.Errorf("the generated secret is %q", made.Secret)
	}

	trader.Test(w)
	end.Await(t, 1)[0].Verify(t, given)
	turned := e2e.Decode[struct {
		ID      string `json:"webhook_id"`
		Secret  string
		Expires string `json:"previous_secret_expires_at"`
	}](t, trader.Post("/v1/webhooks/"+w.ID+"/rotate-secret", "").Ok(t).Body)
	if turned.ID != w.ID || !strings.HasPrefix(turned.Secret, "whsec_") || turned.Expires == "" {
		t.Errorf("rotated to %+v", turned)
	}
	trader.Test(w)
	latest := end.Await(t, 2)[1]
	latest.Verify(t, turned.Secret)
	latest.VerifyStandard(t, given)
	if n := len(strings.Fields(latest.Header.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures during the overlap", n)
	}
	// After a second rotation the first secret is no longer valid.
	third := "third secret " + string(signal.NewKeyID())
	trader.Post("/v1/webhooks/"+w.ID+"/rotate-secret", `{"secret":"`+third+`"}`).Ok(t)
	trader.Test(w)
	latest = end.Await(t, 3)[2]
	latest.Verify(t, third)
	latest.VerifyStandard(t, turned.Secret)
	if n := len(strings.Fields(latest.Header.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures after the second rotation", n)
	}

	secrets := []string{given, turned.Secret, third, made.Secret}
	for _, secret := range secrets[1:] {
		secrets = append(secrets, strings.TrimPrefix(secret, "whsec_"))
	}
	var shown strings.Builder
	for _, path := range []string{"/v1/webhooks", "/v1/webhooks/" + w.ID, "/v1/webhooks/" + w.ID + "/deliveries",
		"/v1/webhooks/" + w.ID + "/deliveries/" + latest.Delivery()} {
		shown.WriteString(trader.Get(path).Ok(t).Body)
	}
	shown.WriteString(trader.Do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"description":"changed"}`).Ok(t).Body)
	for _, secret := range secrets {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("%q is shown again: %s", secret, shown.String())
		}
		if line := s.Log.Line(secret); line != "" {
			t.Errorf("%q is logged: %s", secret, line)
		}
	}
	if found := s.Traces(t, secrets); len(found) > 0 {
		t.Errorf("Redis has %v", found)
	}
	if found := s.Traces(t, []string{w.ID}); len(found) == 0 {
		t.Error("the scan finds nothing at all")
	}
}
