package service

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
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// hookSettings returns the settings of a child that delivers to this machine.
func hookSettings(more ...string) []string {
	return append([]string{"AUTH_REGISTRATION=open", "LEASE=6s", "WEBHOOKS_ALLOWED_NETWORKS=" + loopback}, more...)
}

// TestWhatWasAcknowledgedIsDelivered kills the service and Redis, first together and then
// Redis alone, while deliveries wait, are in flight, and wait for a retry.
func TestWhatWasAcknowledgedIsDelivered(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	settings := childSettings(t, redis.URL(), hookSettings("WEBHOOKS_RETRY_SCHEDULE=1h", "WEBHOOKS_TIMEOUT=1m")...)
	first := launch(t, settings...)
	trader := first.newTrader(t, redis)
	before := len(trader.allSignals())

	good, hanging := newHookEndpoint(t, nil), newHangingEndpoint(t)
	failing := newFailingEndpoint(t, http.StatusServiceUnavailable, "")
	quick, slow, bad := trader.hook(good.url, everyEvent...), trader.hook(hanging.url), trader.hook(failing.url)
	var p promises
	calm := p.load(trader, 8)
	eventually(t, "a hundred runs are acknowledged", func() bool { return p.count() >= 100 })
	stored := func(w wireWebhook, ok func(wireDelivery) bool) map[string]wireDelivery {
		found := map[string]wireDelivery{}
		page := decode[struct{ Deliveries []wireDelivery }](t,
			trader.get("/v1/webhooks/"+w.ID+"/deliveries?limit=100").ok(t).Body)
		for _, d := range page.Deliveries {
			if ok(d) {
				found[d.ID] = d
			}
		}
		return found
	}
	delivered := stored(quick, func(d wireDelivery) bool { return d.Status == "succeeded" })
	tried := stored(bad, func(d wireDelivery) bool { return d.Status == "pending" && d.AttemptCount == 1 })
	if len(delivered) == 0 || len(tried) == 0 {
		t.Fatalf("before the kill %d deliveries had succeeded and %d had failed once", len(delivered), len(tried))
	}
	underWay := len(hanging.open())
	var killing sync.WaitGroup
	killing.Go(first.kill)
	killing.Go(redis.Kill)
	killing.Wait()
	calm()
	byThen := map[*hookEndpoint]int{good: len(good.got()), failing: len(failing.got())}

	redis.Restart()
	second := launchReady(t, settings...)
	trader = trader.at(second.url)
	hanging.release()
	if lost := first.log.Line("partition is lost") != ""; (underWay == 0 || underWay > 8) && !lost {
		t.Errorf("%d requests were under way to the endpoint that hangs", underWay)
	}

	// Then only Redis is killed, under load.
	calm = p.load(trader, 3)
	more := p.count() + 20
	eventually(t, "runs are acknowledged", func() bool { return p.count() >= more })
	redis.Kill()
	trader.await("/readyz", http.StatusServiceUnavailable)
	redis.Restart()
	second.awaitReady(t)
	more = p.count() + 20
	eventually(t, "runs are acknowledged again", func() bool { return p.count() >= more })
	calm()
	p.unknown += before
	p.kept(trader)

	for _, end := range []*hookEndpoint{good, hanging, failing} {
		var missing []string
		eventually(t, "every acknowledged signal arrives", func() bool {
			arrived := signalsIn(t, end.got())
			missing = slices.DeleteFunc(slices.Clone(p.signals), func(id string) bool { return arrived[id] > 0 })
			return len(missing) == 0
		})
	}
	for w, end := range map[*wireWebhook]*hookEndpoint{&quick: good, &slow: hanging, &bad: failing} {
		all, ids := end.got(), map[string]string{}
		for id, attempts := range byDelivery(t, all) {
			if other, twice := ids[attempts[0].event()]; twice {
				t.Errorf("event %s has the deliveries %s and %s", attempts[0].event(), id, other)
			}
			ids[attempts[0].event()] = id
		}
		for _, a := range all {
			a.verify(t, w.Secret)
		}
	}
	// What was stored before the kill is not sent again.
	for end, stored := range map[*hookEndpoint]map[string]wireDelivery{good: delivered, failing: tried} {
		for _, a := range end.got()[byThen[end]:] {
			if d, ok := stored[a.delivery()]; ok {
				t.Errorf("attempt %d of %s is made, which was stored as %+v", a.attempt(), a.delivery(), d)
			}
		}
	}
	for id, d := range tried {
		again := trader.delivery(bad, id)
		if again.Status != "pending" || len(again.Attempts) != 1 || !again.NextAttemptAt.Equal(*d.NextAttemptAt) {
			t.Errorf("%s was due at %s, and is %+v after the restart", id, d.NextAttemptAt, again)
		} else if a := again.Attempts[0]; again.NextAttemptAt.Before(a.At.Add(time.Hour)) ||
			textOf(a.Error) != "status 503" {
			t.Errorf("%s is due at %s after the attempt %+v", id, again.NextAttemptAt, a)
		}
	}
	trader.awaitTotal(quick, "status=pending", 0)
	trader.awaitTotal(slow, "status=pending", 0)
	t.Logf("%d, %d and %d requests", len(good.got()), len(hanging.got()), len(failing.got()))
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
	redis := redistest.NewDurable(t)
	oldSetting, _ := encryptionKey("old")
	newSetting, newKey := encryptionKey("new")
	child := launchReady(t, childSettings(t, redis.URL(),
		hookSettings("AUTH_JWT_KEYS="+sharedKeys, "SECURITY_ENCRYPTION_KEYS="+oldSetting,
			"SHUTDOWN_DELAY=0s", "WEBHOOKS_TIMEOUT=1m")...)...)
	trader := register(child.client(t))
	hanging := newHangingEndpoint(t)
	w := trader.hook(hanging.url, "webhook.test")
	want := map[string]wireDelivery{}
	for range 20 {
		d := trader.test(w)
		want[d.ID] = d
	}
	hanging.await(t, 1)
	child.signal(syscall.SIGTERM)
	code, took := child.exit()
	if code != 0 || took > endsWithin {
		t.Errorf("it ended with %d after %s", code, took)
	}
	child.log.Forget(`"path":"/readyz"`) // asked before it was ready
	if line := child.log.Line(`"level":"WARN"`); line != "" {
		t.Errorf("at the end it warns: %s", line)
	}
	cancelled := hanging.got()
	for _, a := range cancelled {
		<-a.ctx.Done() // the connections are closed
	}

	hanging.release()
	c := hookConfig(t, redis.URL())
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(newSetting+","+oldSetting)
	s := start(t, c)
	trader = trader.at(s.url)
	trader.awaitTotal(w, "status=succeeded", len(want))
	groups := byDelivery(t, hanging.got())
	for id, d := range want {
		attempts := groups[id]
		if len(attempts) == 0 || attempts[0].event() != d.Event || !same(attempts[0].Body, string(d.Payload)) {
			t.Fatalf("%+v arrived as %+v", d, attempts)
		}
		attempts[len(attempts)-1].verify(t, w.Secret)
		if got := trader.delivery(w, id); got.AttemptCount != 1 || got.Attempts[0].Number != 1 {
			t.Errorf("an attempt that was given up counts: %+v", got)
		}
	}
	if n := len(hanging.got()); n != len(want)+len(cancelled) {
		t.Errorf("%d requests for %d deliveries, of which %d were given up", n, len(want), len(cancelled))
	}

	// The secret is sealed by the new key, so that the old one can be removed.
	ring, err := keyring.New([]credential.NamedKey{newKey})
	must(t, err)
	account := decode[struct {
		ID signal.AccountID `json:"account_id"`
	}](t, trader.get("/v1/account").ok(t).Body).ID
	eventually(t, "the secret is sealed by the new key", func() bool {
		stored, err := s.process.webhooks.Webhook(t.Context(), account, signal.WebhookID(w.ID))
		must(t, err)
		plain, err := ring.Open(stored.Secret, w.ID)
		return err == nil && string(plain) == w.Secret
	})
	trader.test(w)
	all := hanging.await(t, len(want)+len(cancelled)+1)
	all[len(all)-1].verify(t, w.Secret)
}
