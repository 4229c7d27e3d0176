package service

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// holdsTo fails the test if an attempt of a delivery was made before its time in the
// schedule, by the recorded times.
func (d wireDelivery) holdsTo(tb testing.TB, delays []time.Duration) {
	tb.Helper()
	for i, a := range d.Attempts {
		if a.Number != i+1 {
			tb.Errorf("attempt %d has the number %d", i+1, a.Number)
		}
		if i == 0 || a.Trigger == "manual" {
			continue
		}
		before := d.Attempts[i-1]
		// Recorded times are whole milliseconds: each may be up to one too small.
		due := before.At.Add(time.Duration(before.DurationMS)*time.Millisecond + delays[i-1] - 2*time.Millisecond)
		if a.At.Before(due) {
			tb.Errorf("attempt %d is made at %s, which is before %s", a.Number, a.At, due)
		}
	}
}

func TestAFailingDeliveryIsRetriedAndGivenUp(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	end := newFailingEndpoint(t, http.StatusInternalServerError, "<b>broken</b>")
	w := trader.hook(end.url, "webhook.test")
	first := trader.test(w)
	waits := trader.awaitDelivery(w, first.ID, "tried once", func(d wireDelivery) bool { return d.AttemptCount > 0 })
	if waits.Status == "pending" && (waits.NextAttemptAt == nil || waits.NextAttemptAt.Before(waits.Attempts[0].At) ||
		textOf(waits.Error) != "status 500") {
		t.Errorf("between two attempts it is %+v", waits)
	}
	trader.post("/v1/webhooks/"+w.ID+"/deliveries/"+waits.ID+"/retry", "").fails(t, "delivery_not_failed")

	d := trader.awaitEnd(w, first.ID, "failed")
	if d.AttemptCount != 7 || len(d.Attempts) != 7 || textOf(d.Error) != "status 500" || *d.ResponseStatus != 500 ||
		d.NextAttemptAt != nil || d.CompletedAt == nil {
		t.Errorf("given up is %+v", d)
	}
	d.holdsTo(t, testRetries)
	for _, a := range d.Attempts {
		if a.Trigger != "schedule" || textOf(a.Error) != "status 500" || *a.ResponseStatus != 500 ||
			textOf(a.ResponseBody) != "<b>broken</b>" {
			t.Errorf("attempt %+v", a)
		}
	}
	all := end.got()
	if groups := byDelivery(t, all); len(all) != 7 || len(groups) != 1 {
		t.Errorf("%d requests for %d deliveries", len(all), len(groups))
	}
	for i, a := range all {
		if a.verify(t, w.Secret); a.attempt() != i+1 || a.delivery() != first.ID || a.event() != first.Event {
			t.Errorf("request %d is attempt %d of %s, event %s", i, a.attempt(), a.delivery(), a.event())
		}
	}
	shown := decode[wireWebhook](t, trader.get("/v1/webhooks/"+w.ID).Body)
	if shown.FailingSince == nil || shown.Status != "enabled" {
		t.Errorf("an endpoint that fails is %+v", shown)
	}

	// A manual retry makes one attempt at once.
	retry := "/v1/webhooks/" + w.ID + "/deliveries/" + first.ID + "/retry"
	if again := decode[wireDelivery](t, trader.post(retry, "",
		"Idempotency-Key: once").ok(t).Body); again.Status != "pending" {
		t.Errorf("retried is %+v", again)
	}
	d = trader.awaitEnd(w, first.ID, "failed")
	if d.AttemptCount != 8 || d.Attempts[7].Trigger != "manual" {
		t.Errorf("after a retry that failed it is %+v", d)
	}
	if a := trader.post(retry, "", "Idempotency-Key: once"); a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeated retry is answered with %v %s", a.Header, a.Body)
	}
	end.release()
	trader.post(retry, "").ok(t)
	d = trader.awaitEnd(w, first.ID, "succeeded")
	if d.AttemptCount != 9 || d.Error != nil || *d.ResponseStatus != http.StatusOK {
		t.Errorf("retried with success it is %+v", d)
	}
	if shown := decode[wireWebhook](t, trader.get("/v1/webhooks/"+w.ID).Body); shown.FailingSince != nil {
		t.Errorf("after a success it is failing since %s", *shown.FailingSince)
	}
	if all := end.got(); len(all) != 9 || all[8].attempt() != 9 || all[8].Body != all[0].Body {
		t.Errorf("%d requests, the last %+v", len(all), all[len(all)-1])
	}
}

func TestDeliveriesAreSentAgain(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	end := newFailingEndpoint(t, http.StatusBadGateway, "")
	w := trader.hook(end.url, "webhook.test")
	all := "/v1/webhooks/" + w.ID + "/deliveries/"
	var made []wireDelivery
	for range 5 {
		d := trader.test(w)
		made = append(made, d)
		eventually(t, "the next one has another time",
			func() bool { return s.process.store.Client.Now().Sub(d.CreatedAt) > time.Millisecond })
	}
	trader.awaitTotal(w, "status=failed", 5)
	end.release()
	stamp := func(d wireDelivery) string { return d.CreatedAt.UTC().Format(signal.TimeLayout) }
	between := `"since":"` + stamp(made[1]) + `","until":"` + stamp(made[4]) + `"`
	for body, want := range map[string]int{`{"dry_run":true}`: 5, `{"dry_run":true,` + between + `}`: 3,
		`{"dry_run":true,"status":"succeeded"}`:             0,
		`{"dry_run":true,"since":"` + stamp(made[4]) + `"}`: 1,
		`{"dry_run":true,"until":"` + stamp(made[0]) + `"}`: 0} {
		trader.post(all+"retry", body).counts(t, "retried", want)
	}
	before := len(end.got())
	if n := trader.total(w, "status=failed"); n != 5 {
		t.Errorf("after a dry run %d are failed", n)
	}
	trader.post(all+"retry", `{`+between+`}`).counts(t, "retried", 3)
	trader.awaitTotal(w, "status=succeeded", 3)
	for i, d := range made {
		d = trader.delivery(w, d.ID)
		want := map[bool]string{true: "succeeded", false: "failed"}[i >= 1 && i < 4]
		if d.Status != want {
			t.Errorf("delivery %d is %s, want %s", i, d.Status, want)
		}
	}
	// Replay: what has succeeded once more, with the same ids and bodies.
	trader.post(all+"retry", `{"status":"succeeded"}`).counts(t, "retried", 3)
	requests := end.await(t, before+6)
	for id, attempts := range byDelivery(t, requests[before:]) {
		if len(attempts) != 2 || attempts[0].attempt() != 8 || attempts[1].attempt() != 9 {
			t.Errorf("delivery %s was repeated as %+v", id, attempts)
		}
	}
	trader.awaitTotal(w, "status=succeeded", 3)
	out := clientCommands(t).Do("webhook", "retry", w.ID, made[0].ID, "--url", s.url, "--key-file", written(t, trader.token))
	if !strings.Contains(out, made[0].ID) {
		t.Errorf("the command prints %s", out)
	}
	trader.awaitEnd(w, made[0].ID, "succeeded")
	trader.post(all+"retry", "").counts(t, "retried", 1)
	trader.awaitTotal(w, "status=succeeded", 5)
	if n := len(end.got()); n != before+8 {
		t.Errorf("%d manual requests, want 8", n-before)
	}
}

func TestWhatIsCancelledIsNotSent(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	hanging := newHangingEndpoint(t)
	w := trader.hook(hanging.url, "webhook.test")
	var made []wireDelivery
	for range 14 {
		made = append(made, trader.test(w))
	}
	hanging.await(t, 1)
	all := "/v1/webhooks/" + w.ID + "/deliveries/"
	inFlight := map[string]bool{}
	for _, a := range hanging.got() {
		inFlight[a.delivery()] = true
	}
	for i, d := range made { // one that waits
		if !inFlight[d.ID] && i > 8 {
			one := decode[wireDelivery](t, trader.post(all+d.ID+"/cancel", "").ok(t).Body)
			if one.Status != "failed" || textOf(one.Error) != "cancelled" || one.CompletedAt == nil ||
				one.NextAttemptAt != nil {
				t.Errorf("cancelled is %+v", one)
			}
			trader.post(all+d.ID+"/cancel", "").fails(t, "delivery_not_pending")
			break
		}
	}
	trader.post(all+"cancel", "").counts(t, "cancelled", len(made)-1)
	trader.test(w) // is not cancelled
	// The owner has cancelled the others before it handles a later event of the account.
	other := newHookEndpoint(t, func(http.ResponseWriter, hookRequest) {})
	trader.test(trader.hook(other.url, "webhook.test"))
	other.await(t, 1)
	hanging.release()
	trader.awaitTotal(w, "status=succeeded", 1)
	got := hanging.got()
	if len(got) > 9+1 {
		t.Errorf("%d requests of deliveries of which at most 8 were in flight", len(got))
	}
	for _, d := range made {
		if d = trader.delivery(w, d.ID); d.Status != "failed" || textOf(d.Error) != "cancelled" || d.AttemptCount != 0 {
			t.Errorf("cancelled is %+v", d)
		}
	}
}

func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	end := newHookEndpoint(t, func(w http.ResponseWriter, a hookRequest) {
		if a.attempt() == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	w := trader.hook(end.url, "webhook.test")
	d := trader.awaitEnd(w, trader.test(w).ID, "succeeded")
	if d.AttemptCount != 2 {
		t.Fatalf("it is %+v", d)
	}
	d.holdsTo(t, []time.Duration{time.Second})
}

func TestAWebhookIsRemovedWithARequestInFlight(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	hanging := newHangingEndpoint(t)
	w := trader.hook(hanging.url, everyEvent...)
	for range 12 {
		trader.test(w)
	}
	trader.run("BTC", "momentum")
	held := hanging.await(t, 1)
	path := "/v1/webhooks/" + w.ID
	trader.do(http.MethodDelete, path, "").want(t, http.StatusNoContent)
	for _, sub := range []string{"", "/deliveries", "/deliveries/" + held[0].delivery()} {
		trader.get(path+sub).fails(t, "not_found")
	}
	trader.do(http.MethodDelete, path, "").fails(t, "not_found")
	<-held[0].ctx.Done() // it is given up
	hanging.release()
	s.nothingLeft(t, w, hanging.got())
	// Later requests are of another webhook.
	before := len(hanging.got())
	next := trader.hook(hanging.url, "webhook.test")
	trader.awaitEnd(next, trader.test(next).ID, "succeeded")
	trader.run("BTC", "momentum")
	for _, a := range hanging.got()[before:] {
		if decode[envelope](t, a.Body).Type != "webhook.test" || !strings.Contains(a.Body, next.ID) {
			t.Errorf("after the webhook was removed, %s was sent", a.Body)
		}
	}
}

// nothingLeft waits until Redis holds no traces of a webhook and of deliveries. Only the
// event log may name the webhook.
func (h hookService) nothingLeft(tb testing.TB, w wireWebhook, sent []hookRequest) {
	tb.Helper()
	texts := []string{w.ID, w.URL, rawID(tb, w.ID)}
	for _, a := range sent {
		texts = append(texts, a.delivery(), rawID(tb, a.delivery()))
	}
	var left []string
	defer func() {
		if tb.Failed() {
			tb.Logf("left of the webhook: %v", left)
		}
	}()
	eventually(tb, "everything of the webhook is erased", func() bool {
		left = h.traces(tb, texts, "}:events")
		if len(left) > 0 {
			time.Sleep(50 * time.Millisecond) // a scan of all keys costs more than other conditions
		}
		return len(left) == 0
	})
}

func TestAnAccountHasAHundredWebhooks(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	const asked, maxWebhooks = 150, 100
	answers := make([]answer, asked)
	var wg sync.WaitGroup
	for i := range asked {
		wg.Go(func() { answers[i] = trader.tryHook("http://127.0.0.1:9999/" + strings.Repeat("x", i)) })
	}
	wg.Wait()
	var made []wireWebhook
	for _, a := range answers {
		if a.Status == http.StatusOK {
			made = append(made, decode[wireWebhook](t, a.Body))
		} else {
			a.fails(t, "limit_reached")
		}
	}
	if len(made) != maxWebhooks {
		t.Errorf("%d of %d registrations succeed, want %d", len(made), asked, maxWebhooks)
	}
	list := decode[struct {
		Webhooks []wireWebhook
		Total    int
	}](t, trader.get("/v1/webhooks?limit=100").ok(t).Body)
	if list.Total != maxWebhooks || len(list.Webhooks) != maxWebhooks {
		t.Errorf("%d of %d are listed", len(list.Webhooks), list.Total)
	}
	trader.do(http.MethodDelete, "/v1/webhooks/"+made[0].ID, "").want(t, http.StatusNoContent)
	trader.hook("http://127.0.0.1:9999/last")
	trader.tryHook("http://127.0.0.1:9999/toomany").fails(t, "limit_reached")
	other, _ := s.account(t)
	other.hook("http://127.0.0.1:9999/other")
}

// Further deliveries of an account with the maximum of pending ones are dropped, which its
// dashboards show; its other endpoint gets everything.
func TestPendingDeliveriesOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := hookConfig(t, redis.URL())
	c.Webhooks.MaxPending = 10
	s := startHooks(t, redis, c)
	trader, _ := s.account(t)
	live := trader.dial()
	live.subscribe(`"channels":["system.notification"]`)
	bad, good := trader.hook(newHangingEndpoint(t).url, "agent.started"), newHookEndpoint(t, nil)
	trader.hook(good.url, "agent.started")
	const runs = 40
	for range runs {
		trader.tryRun("BTC", "momentum").ok(t)
	}
	live.await("the notification", func(m message) bool {
		return m.Type == "system.notification" && strings.Contains(string(m.Data), `"code":"deliveries_dropped"`)
	})
	good.await(t, runs)
	if n := trader.total(bad, "status=pending"); n != c.Webhooks.MaxPending {
		t.Errorf("%d deliveries are pending, %d may be", n, c.Webhooks.MaxPending)
	}
	if n := s.metric(t, "agentsignal_webhook_deliveries_dropped_total"); n == 0 || n > runs-10 {
		t.Errorf("%v deliveries are dropped", n)
	}
}

func TestADeletedAccountLeavesNoDeliveries(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, account := s.account(t)
	hanging, good := newHangingEndpoint(t), newHookEndpoint(t, nil)
	slow, quick := trader.hook(hanging.url, everyEvent...), trader.hook(good.url, everyEvent...)
	for range 10 {
		trader.test(slow)
		trader.run("BTC", "momentum")
	}
	held := hanging.await(t, 1)
	sent := good.await(t, 30)
	trader.awaitTotal(quick, "status=succeeded", 30)
	must(t, s.process.credentials.DeleteAccount(t.Context(), account.ID))
	trader.get("/v1/webhooks").fails(t, "invalid_token")
	<-held[0].ctx.Done()
	hanging.release()
	s.nothingLeft(t, slow, hanging.got())
	s.nothingLeft(t, quick, sent)
	var events []string
	for _, a := range sent {
		events = append(events, a.event(), rawID(t, a.event()))
	}
	if left := s.traces(t, events, "}:events", "}:signals"); len(left) > 0 {
		t.Errorf("traces of what was sent: %v", left)
	}
	if n := len(good.got()); n != 30 {
		t.Errorf("after the end there are %d requests, want 30", n)
	}
}
