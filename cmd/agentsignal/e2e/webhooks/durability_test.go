package webhooks

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// hookSettings returns the settings of a child that delivers to this machine.
func hookSettings(more ...string) []string {
	return append([]string{"AUTH_REGISTRATION=open", "LEASE=6s", "WEBHOOKS_ALLOWED_NETWORKS=" + e2e.Loopback}, more...)
}

// TestWhatWasAcknowledgedIsDelivered kills the service and Redis, first together and then
// Redis alone, while deliveries wait, are in flight, and wait for a retry.
func TestWhatWasAcknowledgedIsDelivered(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := redistest.NewDurable(t)
	settings := e2e.ChildSettings(t, redis.URL(), hookSettings("WEBHOOKS_RETRY_SCHEDULE=1h", "WEBHOOKS_TIMEOUT=1m")...)
	first := e2e.Launch(t, settings...)
	trader := first.NewTrader(t, redis)
	before := len(trader.AllSignals())

	good, hanging := e2e.NewHookEndpoint(t, nil), e2e.NewHangingEndpoint(t)
	failing := e2e.NewFailingEndpoint(t, http.StatusServiceUnavailable, "")
	quick, slow, bad := trader.Hook(good.URL, everyEvent...), trader.Hook(hanging.URL), trader.Hook(failing.URL)
	var p e2e.Promises
	calm := p.Load(trader, 8)
	e2e.Eventually(t, "a hundred runs are acknowledged", func() bool { return p.Count() >= 100 })
	stored := func(w e2e.WireWebhook, ok func(e2e.WireDelivery) bool) map[string]e2e.WireDelivery {
		found := map[string]e2e.WireDelivery{}
		page := e2e.Decode[struct{ Deliveries []e2e.WireDelivery }](t,
			trader.Get("/v1/webhooks/"+w.ID+"/deliveries?limit=100").Ok(t).Body)
		for _, d := range page.Deliveries {
			if ok(d) {
				found[d.ID] = d
			}
		}
		return found
	}
	delivered := stored(quick, func(d e2e.WireDelivery) bool { return d.Status == "succeeded" })
	tried := stored(bad, func(d e2e.WireDelivery) bool { return d.Status == "pending" && d.AttemptCount == 1 })
	if len(delivered) == 0 || len(tried) == 0 {
		t.Fatalf("before the kill %d deliveries had succeeded and %d had failed once", len(delivered), len(tried))
	}
	underWay := len(hanging.Open())
	var killing sync.WaitGroup
	killing.Go(first.Kill)
	killing.Go(redis.Kill)
	killing.Wait()
	calm()
	byThen := map[*e2e.HookEndpoint]int{good: len(good.Got()), failing: len(failing.Got())}

	redis.Restart()
	second := e2e.LaunchReady(t, settings...)
	trader = trader.At(second.URL)
	hanging.Release()
	if lost := first.Log.Line("partition is lost") != ""; (underWay == 0 || underWay > 8) && !lost {
		t.Errorf("%d requests were under way to the endpoint that hangs", underWay)
	}

	// Then only Redis is killed, under load.
	calm = p.Load(trader, 3)
	more := p.Count() + 20
	e2e.Eventually(t, "runs are acknowledged", func() bool { return p.Count() >= more })
	redis.Kill()
	trader.Await("/readyz", http.StatusServiceUnavailable)
	redis.Restart()
	second.AwaitReady(t)
	more = p.Count() + 20
	e2e.Eventually(t, "runs are acknowledged again", func() bool { return p.Count() >= more })
	calm()
	p.Unknown += before
	p.Kept(trader)

	for _, end := range []*e2e.HookEndpoint{good, hanging, failing} {
		var missing []string
		e2e.Eventually(t, "every acknowledged signal arrives", func() bool {
			arrived := e2e.SignalsIn(t, end.Got())
			missing = slices.DeleteFunc(slices.Clone(p.Signals), func(id string) bool { return arrived[id] > 0 })
			return len(missing) == 0
		})
	}
	for w, end := range map[*e2e.WireWebhook]*e2e.HookEndpoint{&quick: good, &slow: hanging, &bad: failing} {
		all, ids := end.Got(), map[string]string{}
		for id, attempts := range byDelivery(t, all) {
			if other, twice := ids[attempts[0].Event()]; twice {
				t.Errorf("event %s has the deliveries %s and %s", attempts[0].Event(), id, other)
			}
			ids[attempts[0].Event()] = id
		}
		for _, a := range all {
			a.Verify(t, w.Secret)
		}
	}
	// What was stored before the kill is not sent again.
	for end, stored := range map[*e2e.HookEndpoint]map[string]e2e.WireDelivery{good: delivered, failing: tried} {
		for _, a := range end.Got()[byThen[end]:] {
			if d, ok := stored[a.Delivery()]; ok {
				t.Errorf("attempt %d of %s is made, which was stored as %+v", a.Attempt(), a.Delivery(), d)
			}
		}
	}
	for id, d := range tried {
		again := trader.Delivery(bad, id)
		if again.Status != "pending" || len(again.Attempts) != 1 || !again.NextAttemptAt.Equal(*d.NextAttemptAt) {
			t.Errorf("%s was due at %s, and is %+v after the restart", id, d.NextAttemptAt, again)
		} else if a := again.Attempts[0]; again.NextAttemptAt.Before(a.At.Add(time.Hour)) ||
			textOf(a.Error) != "status 503" {
			t.Errorf("%s is due at %s after the attempt %+v", id, again.NextAttemptAt, a)
		}
	}
	trader.AwaitTotal(quick, "status=pending", 0)
	trader.AwaitTotal(slow, "status=pending", 0)
	t.Logf("%d, %d and %d requests", len(good.Got()), len(hanging.Got()), len(failing.Got()))
}

// encryptionKey returns a key as the setting has it, and as the keyring does.
func encryptionKey(name string) (setting string, key credential.NamedKey) {
	key.Name, key.Value = name, sha256.Sum256([]byte(name))
	return name + ":" + base64.StdEncoding.EncodeToString(key.Value[:]), key
}

// TestSIGTERMLosesNoDelivery ends a service with requests in flight, and starts
// another one with a new key before the old one.
func TestSIGTERMLosesNoDelivery(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := redistest.NewDurable(t)
	oldSetting, _ := encryptionKey("old")
	newSetting, newKey := encryptionKey("new")
	child := e2e.LaunchReady(t, e2e.ChildSettings(t, redis.URL(),
		hookSettings("AUTH_JWT_KEYS="+e2e.SharedKeys, "SECURITY_ENCRYPTION_KEYS="+oldSetting,
			"SHUTDOWN_DELAY=0s", "WEBHOOKS_TIMEOUT=1m")...)...)
	trader := e2e.Register(child.Client(t))
	hanging := e2e.NewHangingEndpoint(t)
	w := trader.Hook(hanging.URL, "webhook.test")
	want := map[string]e2e.WireDelivery{}
	for range 20 {
		d := trader.Test(w)
		want[d.ID] = d
	}
	hanging.Await(t, 1)
	child.Signal(syscall.SIGTERM)
	code, took := child.Exit()
	if code != 0 || took > e2e.EndsWithin {
		t.Errorf("it ended with %d after %s", code, took)
	}
	child.Log.Forget(`"path":"/readyz"`) // asked before it was ready
	if line := child.Log.Line(`"level":"WARN"`); line != "" {
		t.Errorf("at the end it warns: %s", line)
	}
	cancelled := hanging.Got()
	for _, a := range cancelled {
		<-a.Ctx.Done() // the connections are closed
	}

	hanging.Release()
	c := e2e.HookConfig(t, redis.URL())
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(e2e.SharedKeys), configs.Secret(newSetting+","+oldSetting)
	s := e2e.Start(t, c)
	trader = trader.At(s.URL)
	trader.AwaitTotal(w, "status=succeeded", len(want))
	groups := byDelivery(t, hanging.Got())
	for id, d := range want {
		attempts := groups[id]
		if len(attempts) == 0 || attempts[0].Event() != d.Event || !e2e.Same(attempts[0].Body, string(d.Payload)) {
			t.Fatalf("%+v arrived as %+v", d, attempts)
		}
		attempts[len(attempts)-1].Verify(t, w.Secret)
		if got := trader.Delivery(w, id); got.AttemptCount != 1 || got.Attempts[0].Number != 1 {
			t.Errorf("an attempt that was given up counts: %+v", got)
		}
	}
	if n := len(hanging.Got()); n != len(want)+len(cancelled) {
		t.Errorf("%d requests for %d deliveries, of which %d were given up", n, len(want), len(cancelled))
	}

	// The secret is sealed by the new key, so that the old one can be removed.
	ring, err := keyring.New([]credential.NamedKey{newKey})
	e2e.Must(t, err)
	account := e2e.Decode[struct {
		ID signal.AccountID `json:"account_id"`
	}](t, trader.Get("/v1/account").Ok(t).Body).ID
	e2e.Eventually(t, "the secret is sealed by the new key", func() bool {
		stored, err := s.Webhooks().Webhook(t.Context(), account, signal.WebhookID(w.ID))
		e2e.Must(t, err)
		plain, err := ring.Open(stored.Secret, w.ID)
		return err == nil && string(plain) == w.Secret
	})
	trader.Test(w)
	all := hanging.Await(t, len(want)+len(cancelled)+1)
	all[len(all)-1].Verify(t, w.Secret)
}
