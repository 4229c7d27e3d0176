package http_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// keptReplies is a fakeReplies that stores replies.
type keptReplies struct {
	saved    *signal.Reply
	saves    int // in addition to the change
	released int
}

func keepReplies(f *fakes) *keptReplies {
	k := &keptReplies{}
	f.claim = func(_ signal.AccountID, key signal.ReplyKey) (*signal.Reply, error) {
		if k.saved != nil && (k.saved.Path != key.Path || k.saved.Key != key.Key) {
			return nil, nil
		}
		return k.saved, nil
	}
	f.release = func(signal.AccountID, signal.ReplyKey) error {
		k.released++
		return nil
	}
	f.save = func(_ signal.AccountID, r *signal.Reply) error {
		k.saved = r
		k.saves++
		return nil
	}
	f.kept = func(r *signal.Reply) { k.saved = r }
	return k
}

func TestRepeatedWebhookRequestsAreDoneOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path, body string
		keyed      bool
	}{
		{"/v1/webhooks", `{"url":"https://example.com","events":["signal.created"]}`, true},
		{aWebhook + "/test", "", true},
		{aDelivery + "/retry", "{}", true},
		{aWebhook + "/deliveries/retry", `{"dry_run":true}`, true},
		{aWebhook + "/rotate-secret", "", false},
		{aDelivery + "/cancel", "", false},
		{aWebhook + "/deliveries/cancel", "", false},
	}
	for _, test := range tests {
		f := &fakes{}
		k := keepReplies(f)
		done := 0
		did := func() { done++ }
		f.add = func(w delivery.Webhook, _ int) (delivery.Webhook, error) { did(); return w, nil }
		f.create = func(delivery.Delivery, []byte) error { did(); return nil }
		f.retry = func(signal.DeliveryID) (delivery.Delivery, error) { did(); return newDelivery(), nil }
		f.retryAll = func(signal.WebhookID, delivery.RetryQuery) (int, error) { did(); return done, nil }
		f.cancel, f.change = f.retry, func(w delivery.Webhook, _ bool) (delivery.Webhook, error) {
			did()
			return w, nil
		}
		f.cancelAll = func(signal.WebhookID) (int, error) { did(); return done, nil }
		s := newServer(t, f)
		first := do(t, s, "POST", test.path, test.body, "Idempotency-Key: k1")
		again := do(t, s, "POST", test.path, test.body, "Idempotency-Key: k1")
		if first.Status != 200 || again.Status != 200 || first.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: got %d and %d", test.path, first.Status, again.Status)
		}
		if !test.keyed {
			if done != 2 || k.saved != nil {
				t.Errorf("%s: done %d times, kept %v", test.path, done, k.saved)
			}
			continue
		}
		if done != 1 || again.Body != first.Body || again.Header.Get("Idempotency-Replayed") != "true" ||
			k.released != 0 {
			t.Errorf("%s: done %d times, released %d: %s and %s", test.path, done, k.released, first.Body, again.Body)
		}
		if k.saved.Method != "POST" || k.saved.Path != test.path || k.saved.Key != "k1" || k.saved.Status != 200 {
			t.Errorf("%s: kept %+v", test.path, k.saved)
		}
		if bare := sha256.Sum256([]byte(test.body)); k.saved.RequestHash == bare || k.saved.RequestHash == [32]byte{} ||
			len(k.saved.FormerHashes) != 1 || k.saved.FormerHashes[0] == bare {
			t.Errorf("%s: the digest of the body needs no key, or that by the former key is not known: %x", test.path,
				k.saved.RequestHash)
		}
		if alone := test.path == "/v1/webhooks"; alone != (k.saves == 0) {
			t.Errorf("%s: %d answers are stored by a step of their own", test.path, k.saves)
		}
		if a := do(t, s, "POST", test.path, test.body, "Idempotency-Key: k2"); a.Status != 200 || done != 2 {
			t.Errorf("%s: another key: %d, done %d times", test.path, a.Status, done)
		}
		if a := do(t, s, "POST", test.path, test.body, "Idempotency-Key:"); a.Status != 400 ||
			!slices.Equal(a.faults(t), []string{"header Idempotency-Key too_short"}) {
			t.Errorf("%s: an empty key: %d %s", test.path, a.Status, a.Body)
		}
	}
}

// TestLargeAnswersAreNotKept: the retry of a delivery with many attempts is answered again from
// the delivery as it is then; a smaller answer is kept as it was.
func TestLargeAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	k := keepReplies(f)
	now := newDelivery()
	attempt := now.Attempts[0]
	attempt.ResponseBody = strings.Repeat("x", 1000)
	retries := 0
	f.retry = func(signal.DeliveryID) (delivery.Delivery, error) {
		retries++
		return now, nil
	}
	f.delivery = func(signal.AccountID, signal.WebhookID, signal.DeliveryID) (delivery.Delivery, []byte, error) {
		if now.ID == "" {
			return delivery.Delivery{}, nil, signal.NotFound("delivery")
		}
		return now, []byte(sentBody), nil
	}
	s := newServer(t, f)
	for range 50 {
		now.Attempts = append(now.Attempts, attempt)
	}
	post := func(key string) answer { return do(t, s, "POST", aDelivery+"/retry", "", "Idempotency-Key: "+key) }
	first := post("k1")
	if first.Status != 200 || len(first.Body) < 50_000 || k.saved == nil || len(k.saved.Body) > 0 || !k.saved.Omitted {
		t.Fatalf("%d, %d bytes, kept %+v", first.Status, len(first.Body), k.saved)
	}
	if again := post("k1"); again.Status != 200 || again.Body != first.Body ||
		again.Header.Get("Idempotency-Replayed") != "true" || retries != 1 {
		t.Errorf("replayed: %d, %d bytes, %d retries", again.Status, len(again.Body), retries)
	}
	now.Status = delivery.Succeeded
	if again := post("k1"); again.Status != 200 || !strings.Contains(again.Body, `"status":"succeeded"`) ||
		again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replayed after a success: %d %v", again.Status, again.Header)
	}
	now.ID = ""
	if again := post("k1"); again.Status != 404 || again.Header.Get("Idempotency-Replayed") != "" || retries != 1 {
		t.Errorf("replayed after its removal: %d %v", again.Status, again.Header)
	}
	now = newDelivery()
	now.Attempts = nil
	small := post("k2")
	now.Status = delivery.Failed
	if again := post("k2"); len(small.Body) > maxKept || again.Body != small.Body || k.saved.Omitted {
		t.Errorf("a small answer of %d bytes is replayed as %s", len(small.Body), again.Body)
	}
}

// TestAnswersThatCannotBeMadeAgainAreKept, whatever their size.
func TestAnswersThatCannotBeMadeAgainAreKept(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	keepReplies(f)
	s := newServer(t, f)
	body := `{"url":"https://example.com/` + strings.Repeat("x", 1500) +
		`","events":["signal.created"],"secret":"hidden"}`
	first := do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k1")
	again := do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k1")
	if first.Status != 200 || len(first.Body) < maxKept || again.Body != first.Body ||
		again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d with %d bytes, replayed %d with %d", first.Status, len(first.Body), again.Status, len(again.Body))
	}
}

// maxKept is the size above which answers that can be made again are not kept.
const maxKept = 1024

func TestKeptSecretsAreSealed(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	k := keepReplies(f)
	s := newServer(t, f)
	const body = `{"url":"https://example.com","events":["signal.created"],"secret":"hidden"}`
	first := do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k1")
	if k.saved == nil || bytes.Contains(k.saved.Body, []byte("hidden")) ||
		bytes.Contains(k.saved.Body, []byte("example.com")) {
		t.Fatalf("kept %+v", k.saved)
	}
	if again := do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k1"); again.Body != first.Body ||
		!strings.Contains(again.Body, `"secret":"hidden"`) {
		t.Errorf("replayed %s, first %s", again.Body, first.Body)
	}
	do(t, s, "POST", aWebhook+"/test", "", "Idempotency-Key: k1")
	if !bytes.HasPrefix(k.saved.Body, []byte(`{"delivery_id"`)) {
		t.Errorf("an answer without a secret is kept as %s", k.saved.Body)
	}
	// A text sealed for one key cannot be opened for another.
	do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k1")
	k.saved.Key = "k2"
	if a := do(t, s, "POST", "/v1/webhooks", body, "Idempotency-Key: k2"); a.Status != 500 ||
		strings.Contains(a.Body, "purpose") {
		t.Errorf("a foreign reply: %d %s", a.Status, a.Body)
	}
}

func TestFailedWebhookRequestsFreeTheirKey(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	k := keepReplies(f)
	s := newServer(t, f)
	send := func(path, body string) int { return do(t, s, "POST", path, body, "Idempotency-Key: k1").Status }
	const hook = `{"url":"https://example.com","events":["signal.created"]}`
	for path, body := range map[string]string{"/v1/webhooks": `{}`, aWebhook + "/test": `{"x":1}`, aWebhook +
		"/deliveries/retry": `[]`} {
		if status := send(path, body); status != 400 || k.released != 0 {
			t.Errorf("%s: %d: the key is looked at before the values", path, status)
		}
	}
	f.add = func(delivery.Webhook, int) (delivery.Webhook, error) {
		return delivery.Webhook{}, conflict("limit_reached")
	}
	f.retry = func(signal.DeliveryID) (delivery.Delivery, error) {
		return delivery.Delivery{}, conflict("delivery_not_failed")
	}
	f.create = func(delivery.Delivery, []byte) error { panic("broken") }
	for i, want := range []struct {
		path, body string
		status     int
	}{{"/v1/webhooks", hook, 409}, {aDelivery + "/retry", "", 409}, {aWebhook + "/test", "", 500}} {
		if status := send(want.path, want.body); status != want.status || k.released != i+1 || k.saved != nil {
			t.Errorf("%s: %d, released %d times", want.path, status, k.released)
		}
	}
}

// TestAnswerThatCannotBeKeptIsGiven, since the delivery exists.
func TestAnswerThatCannotBeKeptIsGiven(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	k := keepReplies(f)
	f.save = func(signal.AccountID, *signal.Reply) error { return signal.Unavailable(errors.New("no store")) }
	var log bytes.Buffer
	s := newServer(t, f, func(o *config) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	a := do(t, s, "POST", aWebhook+"/test", "", "Idempotency-Key: k1")
	if a.Status != 200 || k.released != 0 || !strings.Contains(log.String(), "answer not kept") {
		t.Errorf("got %d, released %d, log %s", a.Status, k.released, log.String())
	}
}
