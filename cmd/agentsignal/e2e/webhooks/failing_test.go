package webhooks

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAFailingDeliveryIsRetriedAndGivenUp(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	end := e2e.NewFailingEndpoint(t, http.StatusInternalServerError, "<b>broken</b>")
	w := trader.Hook(end.URL, "webhook.test")
	first := trader.Test(w)
	waits := trader.AwaitDelivery(w, first.ID, "tried once", func(d e2e.WireDelivery) bool { return d.AttemptCount > 0 })
	if waits.Status == "pending" && (waits.NextAttemptAt == nil || waits.NextAttemptAt.Before(waits.Attempts[0].At) ||
		textOf(waits.Error) != "status 500") {
		t.Errorf("between two attempts it is %+v", waits)
	}
	trader.Post("/v1/webhooks/"+w.ID+"/deliveries/"+waits.ID+"/retry", "").Fails(t, "delivery_not_failed")

	d := trader.AwaitEnd(w, first.ID, "failed")
	if d.AttemptCount != 7 || len(d.Attempts) != 7 || textOf(d.Error) != "status 500" || *d.ResponseStatus != 500 ||
		d.NextAttemptAt != nil || d.CompletedAt == nil {
		t.Errorf("given up is %+v", d)
	}
	d.HoldsTo(t, e2e.TestRetries)
	for _, a := range d.Attempts {
		if a.Trigger != "schedule" || textOf(a.Error) != "status 500" || *a.ResponseStatus != 500 ||
			textOf(a.ResponseBody) != "<b>broken</b>" {
			t.Errorf("attempt %+v", a)
		}
	}
	all := end.Got()
	if groups := byDelivery(t, all); len(all) != 7 || len(groups) != 1 {
		t.Errorf("%d requests for %d deliveries", len(all), len(groups))
	}
	for i, a := range all {
		if a.Verify(t, w.Secret); a.Attempt() != i+1 || a.Delivery() != first.ID || a.Event() != first.Event {
			t.Errorf("request %d is attempt %d of %s, event %s", i, a.Attempt(), a.Delivery(), a.Event())
		}
	}
	shown := e2e.Decode[e2e.WireWebhook](t, trader.Get("/v1/webhooks/"+w.ID).Body)
	if shown.FailingSince == nil || shown.Status != "enabled" {
		t.Errorf("an endpoint that fails is %+v", shown)
	}

	// A manual retry makes one attempt at once.
	retry := "/v1/webhooks/" + w.ID + "/deliveries/" + first.ID + "/retry"
	if again := e2e.Decode[e2e.WireDelivery](t, trader.Post(retry, "",
		"Idempotency-Key: once").Ok(t).Body); again.Status != "pending" {
		t.Errorf("retried is %+v", again)
	}
	d = trader.AwaitEnd(w, first.ID, "failed")
	if d.AttemptCount != 8 || d.Attempts[7].Trigger != "manual" {
		t.Errorf("after a retry that failed it is %+v", d)
	}
	if a := trader.Post(retry, "", "Idempotency-Key: once"); a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeated retry is answered with %v %s", a.Header, a.Body)
	}
	end.Release()
	trader.Post(retry, "").Ok(t)
	d = trader.AwaitEnd(w, first.ID, "succeeded")
	if d.AttemptCount != 9 || d.Error != nil || *d.ResponseStatus != http.StatusOK {
		t.Errorf("retried with success it is %+v", d)
	}
	if shown := e2e.Decode[e2e.WireWebhook](t, trader.Get("/v1/webhooks/"+w.ID).Body); shown.FailingSince != nil {
		t.Errorf("after a success it is failing since %s", *shown.FailingSince)
	}
	if all := end.Got(); len(all) != 9 || all[8].Attempt() != 9 || all[8].Body != all[0].Body {
		t.Errorf("%d requests, the last %+v", len(all), all[len(all)-1])
	}
}

func TestDeliveriesAreSentAgain(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	end := e2e.NewFailingEndpoint(t, http.StatusBadGateway, "")
	w := trader.Hook(end.URL, "webhook.test")
	all := "/v1/webhooks/" + w.ID + "/deliveries/"
	var made []e2e.WireDelivery
	for range 5 {
		d := trader.Test(w)
		made = append(made, d)
		e2e.Eventually(t, "the next one has another time",
			func() bool { return s.Store().Client.Now().Sub(d.CreatedAt) > time.Millisecond })
	}
	trader.AwaitTotal(w, "status=failed", 5)
	end.Release()
	stamp := func(d e2e.WireDelivery) string { return d.CreatedAt.UTC().Format(signal.TimeLayout) }
	between := `"since":"` + stamp(made[1]) + `","until":"` + stamp(made[4]) + `"`
	for body, want := range map[string]int{`{"dry_run":true}`: 5, `{"dry_run":true,` + between + `}`: 3,
		`{"dry_run":true,"status":"succeeded"}`:             0,
		`{"dry_run":true,"since":"` + stamp(made[4]) + `"}`: 1,
		`{"dry_run":true,"until":"` + stamp(made[0]) + `"}`: 0} {
		trader.Post(all+"retry", body).Counts(t, "retried", want)
	}
	before := len(end.Got())
	if n := trader.Total(w, "status=failed"); n != 5 {
		t.Errorf("after a dry run %d are failed", n)
	}
	trader.Post(all+"retry", `{`+between+`}`).Counts(t, "retried", 3)
	trader.AwaitTotal(w, "status=succeeded", 3)
	for i, d := range made {
		d = trader.Delivery(w, d.ID)
		want := map[bool]string{true: "succeeded", false: "failed"}[i >= 1 && i < 4]
		if d.Status != want {
			t.Errorf("delivery %d is %s, want %s", i, d.Status, want)
		}
	}
	// Replay: what has succeeded once more, with the same ids and bodies.
	trader.Post(all+"retry", `{"status":"succeeded"}`).Counts(t, "retried", 3)
	requests := end.Await(t, before+6)
	for id, attempts := range byDelivery(t, requests[before:]) {
		if len(attempts) != 2 || attempts[0].Attempt() != 8 || attempts[1].Attempt() != 9 {
			t.Errorf("delivery %s was repeated as %+v", id, attempts)
		}
	}
	trader.AwaitTotal(w, "status=succeeded", 3)
	out := e2e.ClientCommands(t).Do("webhook", "retry", w.ID, made[0].ID, "--url", s.URL,
		"--key-file", e2e.Written(t, trader.Token))
	if !strings.Contains(out, made[0].ID) {
		t.Errorf("the command prints %s", out)
	}
	trader.AwaitEnd(w, made[0].ID, "succeeded")
	trader.Post(all+"retry", "").Counts(t, "retried", 1)
	trader.AwaitTotal(w, "status=succeeded", 5)
	if n := len(end.Got()); n != before+8 {
		t.Errorf("%d manual requests, want 8", n-before)
	}
}

func TestAWebhookIsRemovedWithARequestInFlight(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	hanging := e2e.NewHangingEndpoint(t)
	w := trader.Hook(hanging.URL, everyEvent...)
	for range 12 {
		trader.Test(w)
	}
	trader.Run("BTC", "momentum")
	held := hanging.Await(t, 1)
	path := "/v1/webhooks/" + w.ID
	trader.Do(http.MethodDelete, path, "").Want(t, http.StatusNoContent)
	for _, sub := range []string{"", "/deliveries", "/deliveries/" + held[0].Delivery()} {
		trader.Get(path+sub).Fails(t, "not_found")
	}
	trader.Do(http.MethodDelete, path, "").Fails(t, "not_found")
	<-held[0].Ctx.Done() // it is given up
	hanging.Release()
	s.NothingLeft(t, w, hanging.Got())
	// Later requests are of another webhook.
	before := len(hanging.Got())
	next := trader.Hook(hanging.URL, "webhook.test")
	trader.AwaitEnd(next, trader.Test(next).ID, "succeeded")
	trader.Run("BTC", "momentum")
	for _, a := range hanging.Got()[before:] {
		if e2e.Decode[e2e.Envelope](t, a.Body).Type != "webhook.test" || !strings.Contains(a.Body, next.ID) {
			t.Errorf("after the webhook was removed, %s was sent", a.Body)
		}
	}
}

// Further deliveries of an account with the maximum of pending ones are dropped, which its
// dashboards show; its other endpoint gets everything.
func TestPendingDeliveriesOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := redistest.New(t)
	c := e2e.HookConfig(t, redis.URL())
	c.Webhooks.MaxPending = 10
	s := e2e.StartHooks(t, redis, c)
	trader, _ := s.Account(t)
	live := trader.Dial()
	live.Subscribe(`"channels":["system.notification"]`)
	bad, good := trader.Hook(e2e.NewHangingEndpoint(t).URL, "agent.started"), e2e.NewHookEndpoint(t, nil)
	trader.Hook(good.URL, "agent.started")
	const runs = 40
	for range runs {
		trader.TryRun("BTC", "momentum").Ok(t)
	}
	live.Await("the notification", func(m e2e.Message) bool {
		return m.Type == "system.notification" && strings.Contains(string(m.Data), `"code":"deliveries_dropped"`)
	})
	good.Await(t, runs)
	if n := trader.Total(bad, "status=pending"); n != c.Webhooks.MaxPending {
		t.Errorf("%d deliveries are pending, %d may be", n, c.Webhooks.MaxPending)
	}
	if n := s.Metric(t, "agentsignal_webhook_deliveries_dropped_total"); n == 0 || n > runs-10 {
		t.Errorf("%v deliveries are dropped", n)
	}
}

func TestADeletedAccountLeavesNoDeliveries(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, account := s.Account(t)
	hanging, good := e2e.NewHangingEndpoint(t), e2e.NewHookEndpoint(t, nil)
	slow, quick := trader.Hook(hanging.URL, everyEvent...), trader.Hook(good.URL, everyEvent...)
	for range 10 {
		trader.Test(slow)
		trader.Run("BTC", "momentum")
	}
	held := hanging.Await(t, 1)
	sent := good.Await(t, 30)
	trader.AwaitTotal(quick, "status=succeeded", 30)
	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), account.ID))
	trader.Get("/v1/webhooks").Fails(t, "invalid_token")
	<-held[0].Ctx.Done()
	hanging.Release()
	s.NothingLeft(t, slow, hanging.Got())
	s.NothingLeft(t, quick, sent)
	var events []string
	for _, a := range sent {
		events = append(events, a.Event(), e2e.RawID(t, a.Event()))
	}
	if left := s.Traces(t, events, "}:events", "}:signals"); len(left) > 0 {
		t.Errorf("traces of what was sent: %v", left)
	}
	if n := len(good.Got()); n != 30 {
		t.Errorf("after the end there are %d requests, want 30", n)
	}
}
