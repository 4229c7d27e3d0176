package http_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Identifiers of what the fakes answer with.
const (
	webhookID  = signal.WebhookID("whk_01M7YQ1WTVKN9DZNWV9NV456V1")
	deliveryID = signal.DeliveryID("dlv_01M7YQ1X7PE2DGEP087XGX6XDW")
	eventID    = signal.EventID("evt_01M7YQ1X3DTRA4S2456P21NJZ0")
)

// sentBody is what newDelivery sends.
const sentBody = `{"id":"evt_01M7YQ1X3DTRA4S2456P21NJZ0","type":"signal.created","api_version":"2026-11-01",` +
	`"created_at":"2026-11-21T09:30:00.000Z","data":{"a":"<&>", "b":1.50}}`

// webhookFakes are the packages behind the webhooks. A nil function has a plain
// answer.
type webhookFakes struct {
	allowed  func(w *delivery.Webhook, limit int) error
	add      func(w delivery.Webhook, limit int) (delivery.Webhook, error)
	kept     func(answer *signal.Reply) // with the new webhook
	webhook  func(account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error)
	webhooks func(account signal.AccountID) ([]delivery.Webhook, error)
	change   func(w delivery.Webhook, clearHealth bool) (delivery.Webhook, error)
	remove   func(account signal.AccountID, id signal.WebhookID) error
	create   func(d delivery.Delivery, body []byte) error
	delivery func(account signal.AccountID, webhook signal.WebhookID,
		id signal.DeliveryID) (delivery.Delivery, []byte, error)
	deliveries func(account signal.AccountID, webhook signal.WebhookID,
		q delivery.Query) ([]delivery.Delivery, int, error)
	allDeliveries func(account signal.AccountID, q delivery.Query) ([]delivery.Delivery, int, error)

	retry     func(id signal.DeliveryID) (delivery.Delivery, error)
	cancel    func(id signal.DeliveryID) (delivery.Delivery, error)
	retryAll  func(webhook signal.WebhookID, q delivery.RetryQuery) (int, error)
	cancelAll func(webhook signal.WebhookID) (int, error)
	checkURL  func(url string) error
	challenge func(w *delivery.Webhook, secret string) error // nil: no challenges
}

type (
	fakeWebhooks   struct{ *fakes }
	fakeDeliveries struct{ *fakes }
	fakeAddresses  struct{ *fakes }
	fakeChallenges struct{ *fakes }
	fakeSealer     struct{}
)

func (f fakeChallenges) Challenge(_ context.Context, w *delivery.Webhook, secret string) error {
	return f.challenge(w, secret)
}

func newWebhook() delivery.Webhook {
	return delivery.Webhook{ID: webhookID, Account: accountID, URL: "https://example.com/hooks/signals",
		Events:     []signal.EventType{signal.SignalCreated, signal.SignalClosed},
		APIVersion: "2026-11-01", Status: delivery.WebhookEnabled, CreatedAt: morning, UpdatedAt: morning,
		Secret: []byte("old"), Revision: "1"}
}

func newDelivery() delivery.Delivery {
	return delivery.Delivery{ID: deliveryID, Webhook: webhookID, Account: accountID, Event: eventID,
		Type: signal.SignalCreated, Status: delivery.Pending,
		CreatedAt: morning, NextAttemptAt: morning.Add(31120 * time.Millisecond), Scheduled: 1, Error: "status 503",
		Attempts: []delivery.Attempt{{Number: 1, Trigger: delivery.Scheduled, At: morning.Add(410 * time.Millisecond),
			Duration:       710*time.Millisecond + 999*time.Microsecond,
			ResponseStatus: 503, Error: "status 503", ResponseBody: "busy"}}}
}

func (f fakeWebhooks) CheckRegistration(_ context.Context, w *delivery.Webhook, limit int) error {
	return fail2(f.allowed, w, limit)
}

func (f fakeWebhooks) Register(_ context.Context, w delivery.Webhook, limit int,
	answer *signal.Reply) (delivery.Webhook, error) {
	if f.add != nil {
		var err error
		if w, err = f.add(w, limit); err != nil {
			return w, err
		}
	}
	if answer != nil && f.kept != nil {
		f.kept(answer)
	}
	return w, nil
}

func (f fakeWebhooks) Webhook(_ context.Context, account signal.AccountID,
	id signal.WebhookID) (delivery.Webhook, error) {
	return call2(f.webhook, newWebhook(), account, id)
}

func (f fakeWebhooks) Webhooks(_ context.Context, account signal.AccountID) ([]delivery.Webhook, error) {
	if f.webhooks == nil {
		return nil, nil
	}
	return f.webhooks(account)
}

func (f fakeWebhooks) ChangeWebhook(_ context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error) {
	return call2(f.change, w, w, clearHealth)
}

func (f fakeWebhooks) RemoveWebhook(_ context.Context, account signal.AccountID, id signal.WebhookID) error {
	return fail2(f.remove, account, id)
}

func (f fakeDeliveries) CreateDelivery(_ context.Context, d delivery.Delivery, body []byte) error {
	return fail2(f.create, d, body)
}

func (f fakeDeliveries) Delivery(_ context.Context, account signal.AccountID, webhook signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, []byte, error) {
	if f.delivery == nil {
		return newDelivery(), []byte(sentBody), nil
	}
	return f.delivery(account, webhook, id)
}

func (f fakeDeliveries) Deliveries(_ context.Context, account signal.AccountID, webhook signal.WebhookID,
	q delivery.Query) ([]delivery.Delivery, int, error) {
	if f.deliveries == nil {
		return nil, 0, nil
	}
	return f.deliveries(account, webhook, q)
}

func (f fakeDeliveries) AllDeliveries(_ context.Context, account signal.AccountID,
	q delivery.Query) ([]delivery.Delivery, int, error) {
	if f.allDeliveries == nil {
		return nil, 0, nil
	}
	return f.allDeliveries(account, q)
}

func (f fakeDeliveries) RetryDelivery(_ context.Context, _ signal.AccountID, _ signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, error) {
	return call1(f.retry, newDelivery(), id)
}

func (f fakeDeliveries) CancelDelivery(_ context.Context, _ signal.AccountID, _ signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, error) {
	return call1(f.cancel, newDelivery(), id)
}

func (f fakeDeliveries) RetryDeliveries(_ context.Context, _ signal.AccountID, webhook signal.WebhookID,
	q delivery.RetryQuery) (int, error) {
	return call2(f.retryAll, 0, webhook, q)
}

func (f fakeDeliveries) CancelDeliveries(_ context.Context, _ signal.AccountID, webhook signal.WebhookID) (int, error) {
	return call1(f.cancelAll, 0, webhook)
}

func (f fakeAddresses) CheckURL(_ context.Context, url string) error {
	if f.checkURL == nil {
		return nil
	}
	return f.checkURL(url)
}

// Seal appends the reversed bytes to the purpose, so that sealed texts cannot be read.
func (fakeSealer) Seal(plain []byte, purpose string) []byte {
	b := bytes.Clone(plain)
	slices.Reverse(b)
	return append([]byte(purpose+"|"), b...)
}

// Digests are by a present key and by a former one.
func (fakeSealer) Digests(data []byte, purpose string) [][32]byte {
	return [][32]byte{sha256.Sum256([]byte("present " + purpose + string(data))),
		sha256.Sum256([]byte("former " + purpose + string(data)))}
}

func (fakeSealer) Open(sealed []byte, purpose string) ([]byte, error) {
	b, ok := bytes.CutPrefix(bytes.Clone(sealed), []byte(purpose+"|"))
	if !ok {
		return nil, errors.New("sealed for another purpose")
	}
	slices.Reverse(b)
	return b, nil
}

func fakeEnvelope(b []byte, id signal.EventID, t signal.EventType, version string, at time.Time, data []byte) []byte {
	b = append(b, `{"id":"`+string(id)+`","type":"`+string(t)+`","api_version":"`+version+`","created_at":`...)
	b = append(signal.AppendTime(b, at), `,"data":`...)
	return append(append(b, data...), '}')
}
