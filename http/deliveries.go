package http

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/http/request"
)

// Deliveries holds the deliveries of webhooks. Methods fail with KindNotFound if the account
// does not have the webhook or the delivery. See persistence/deliveries.
type Deliveries interface {
	// CreateDelivery stores a pending delivery and the body that it sends.
	CreateDelivery(ctx context.Context, d delivery.Delivery, body []byte) error
	// Delivery returns a delivery and the body that it sends.
	Delivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
		id signal.DeliveryID) (d delivery.Delivery, body []byte, err error)
	// Deliveries returns a page of the deliveries that match q, newest first, and the number
	// of all matches.
	Deliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
		q delivery.Query) (list []delivery.Delivery, total int, err error)
	// AllDeliveries is Deliveries for all webhooks of the account.
	AllDeliveries(ctx context.Context, account signal.AccountID,
		q delivery.Query) (list []delivery.Delivery, total int, err error)
	// RetryDelivery makes a failed delivery pending, for one attempt. KindConflict,
	// "delivery_not_failed".
	RetryDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
		id signal.DeliveryID) (delivery.Delivery, error)
	// CancelDelivery makes a pending delivery fail. KindConflict, "delivery_not_pending".
	CancelDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
		id signal.DeliveryID) (delivery.Delivery, error)
	// RetryDeliveries makes the deliveries that match q pending and returns their number.
	RetryDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
		q delivery.RetryQuery) (int, error)
	// CancelDeliveries makes all pending deliveries fail and returns their number.
	CancelDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID) (int, error)
}

// Envelope appends the body that is sent for an event: data is the JSON of its payload. See
// webhook.AppendBody.
type Envelope func(b []byte, id signal.EventID, t signal.EventType, version string, at time.Time, data []byte) []byte

// DeliveryHandlers answer for the deliveries of webhooks.
type DeliveryHandlers struct {
	deliveries Deliveries
	webhooks   WebhookFinder
	envelope   Envelope
	once       *Idempotency
	now        func() time.Time
}

// NewDeliveryHandlers returns the handlers of deliveries.
func NewDeliveryHandlers(deliveries Deliveries, webhooks WebhookFinder, envelope Envelope, once *Idempotency,
	now func() time.Time) *DeliveryHandlers {
	return &DeliveryHandlers{deliveries, webhooks, envelope, once, now}
}

// Routes implements Resource.
func (h *DeliveryHandlers) Routes() []*Route {
	const scope = signal.WebhooksManage
	return []*Route{
		route("/v1/webhooks/{id}/test", methods{"POST": change(scope, h.test)}),
		route("/v1/webhooks/{id}/deliveries", methods{"GET": get(scope, h.list, deliveryFilters...)}),
		route("/v1/deliveries", methods{"GET": get(scope, h.listAll, append([]string{"webhook_id"}, deliveryFilters...)...)}),
		route("/v1/webhooks/{id}/deliveries/retry", methods{"POST": change(scope, h.retryAll)}),
		route("/v1/webhooks/{id}/deliveries/cancel", methods{"POST": change(scope, h.cancelAll)}),
		route("/v1/webhooks/{id}/deliveries/{delivery_id}", methods{"GET": get(scope, h.byID)}),
		route("/v1/webhooks/{id}/deliveries/{delivery_id}/retry", methods{"POST": change(scope, h.retry)}),
		route("/v1/webhooks/{id}/deliveries/{delivery_id}/cancel", methods{"POST": change(scope, h.cancel)}),
	}
}

// errWebhookDisabled refuses a retry that would never be sent.
var errWebhookDisabled = &signal.Error{Kind: signal.KindConflict, Code: "webhook_disabled",
	Message: "the webhook is disabled"}

// retryable lists the states of deliveries that can be sent again.
var retryable = []delivery.Status{delivery.Failed, delivery.Succeeded}

// test answers POST /v1/webhooks/{id}/test.
func (h *DeliveryHandlers) test(c *call) error {
	return h.once.doEmpty(c, func(ctx context.Context) ([]byte, error) {
		w, err := findWebhook(c, h.webhooks, c.vars["id"])
		if err != nil {
			return nil, err
		}
		now := h.now()
		d := delivery.Delivery{
			ID:            signal.NewDeliveryID(),
			Webhook:       w.ID,
			Account:       w.Account,
			Event:         signal.NewEventID(),
			Type:          signal.WebhookTest,
			Status:        delivery.Pending,
			CreatedAt:     now,
			NextAttemptAt: now,
			Single:        w.Status == delivery.WebhookDisabled,
		}
		data, err := encode(viewTestEvent(w.ID, c.principal))
		if err != nil {
			return nil, err
		}
		sent := h.envelope(nil, d.Event, d.Type, w.APIVersion, now, data)
		if err := h.deliveries.CreateDelivery(ctx, d, sent); err != nil {
			return nil, err
		}
		return encodeDelivery(&d, sent)
	}, nil)
}

// testEventView is the payload of a webhook.test.
type testEventView struct {
	Webhook     signal.WebhookID `json:"webhook_id"`
	Message     string           `json:"message"`
	TriggeredBy string           `json:"triggered_by"`
}

func viewTestEvent(id signal.WebhookID, p signal.Principal) testEventView {
	v := testEventView{id, "This is a test event.", "dashboard"}
	if p.Key != "" {
		v.TriggeredBy = "api"
	}
	return v
}

// deliveryFilters are the query parameters of lists of deliveries.
var deliveryFilters = []string{"status", "event", "limit", "offset"}

// readDeliveryQuery reads the filters of a list of deliveries and its page.
func readDeliveryQuery(q *request.Query) (delivery.Query, request.Page) {
	p := q.Page()
	return delivery.Query{
		Status: request.Option(q, "status", delivery.Statuses),
		Type:   request.Option(q, "event", delivery.WebhookEvents),
		Limit:  p.Limit,
		Offset: p.Offset,
	}, p
}

// list answers GET /v1/webhooks/{id}/deliveries.
func (h *DeliveryHandlers) list(c *call) error { return h.listOf(c, c.vars["id"]) }

// listOf answers with deliveries of a webhook.
func (h *DeliveryHandlers) listOf(c *call, webhook string) error {
	wanted, p := readDeliveryQuery(c.query)
	if err := c.faults.Err(); err != nil {
		return err
	}
	w, err := findWebhook(c, h.webhooks, webhook)
	if err != nil {
		return err
	}
	list, total, err := h.deliveries.Deliveries(c.r.Context(), w.Account, w.ID, wanted)
	if err != nil {
		return err
	}
	return c.encoded(encodeList("deliveries", list, viewDeliveryItem, p, total))
}

// listAll answers GET /v1/deliveries. With a webhook it is the list of that one.
func (h *DeliveryHandlers) listAll(c *call) error {
	if id := c.query.Get("webhook_id"); id != "" {
		return h.listOf(c, id)
	}
	wanted, p := readDeliveryQuery(c.query)
	if err := c.faults.Err(); err != nil {
		return err
	}
	list, total, err := h.deliveries.AllDeliveries(c.r.Context(), c.principal.Account, wanted)
	if err != nil {
		return err
	}
	return c.encoded(encodeList("deliveries", list, viewDeliveryItem, p, total))
}

// byID answers GET /v1/webhooks/{id}/deliveries/{delivery_id}.
func (h *DeliveryHandlers) byID(c *call) error {
	return c.encoded(h.encoded(c))
}

// encoded returns the answer with the delivery that the path names.
func (h *DeliveryHandlers) encoded(c *call) ([]byte, error) {
	d, sent, err := h.find(c)
	if err != nil {
		return nil, err
	}
	return encodeDelivery(&d, sent)
}

// find returns the delivery that the path names and the body that it sends.
func (h *DeliveryHandlers) find(c *call) (delivery.Delivery, []byte, error) {
	webhook, err := webhookID(c.vars["id"])
	if err != nil {
		return delivery.Delivery{}, nil, err
	}
	id, ok := signal.ParseDeliveryID(c.vars["delivery_id"])
	if !ok {
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	return h.deliveries.Delivery(c.r.Context(), c.principal.Account, webhook, id)
}

// retry answers POST /v1/webhooks/{id}/deliveries/{delivery_id}/retry.
func (h *DeliveryHandlers) retry(c *call) error {
	return h.once.doEmpty(c, func(ctx context.Context) ([]byte, error) {
		w, err := findWebhook(c, h.webhooks, c.vars["id"])
		if err != nil {
			return nil, err
		}
		d, sent, err := h.find(c)
		if err != nil {
			return nil, err
		}
		if w.Status == delivery.WebhookDisabled {
			return nil, errWebhookDisabled
		}
		if d, err = h.deliveries.RetryDelivery(ctx, d.Account, d.Webhook, d.ID); err != nil {
			return nil, err
		}
		return encodeDelivery(&d, sent)
	}, func(context.Context) ([]byte, error) { return h.encoded(c) })
}

// retryAll answers POST /v1/webhooks/{id}/deliveries/retry.
func (h *DeliveryHandlers) retryAll(c *call) error {
	checkIdempotencyKey(c.r.Header, &c.faults)
	wanted := delivery.RetryQuery{Status: delivery.Failed}
	body, err := c.decodeOptional(func(o *request.Object) {
		wanted.Since, _ = o.Time("since")
		until, bounded := o.Time("until")
		if wanted.Until = until; bounded && until.Before(wanted.Since) {
			o.Bad("until", request.CodeOutOfRange, "must not be before since")
		}
		if status, ok := request.Choice(o, "status", retryable); ok {
			wanted.Status = status
		}
		wanted.DryRun, _ = o.Bool("dry_run")
	})
	if err != nil {
		return err
	}
	return h.once.do(c, body, func(ctx context.Context) ([]byte, error) {
		w, err := findWebhook(c, h.webhooks, c.vars["id"])
		if err != nil {
			return nil, err
		}
		if w.Status == delivery.WebhookDisabled {
			return nil, errWebhookDisabled
		}
		n, err := h.deliveries.RetryDeliveries(ctx, w.Account, w.ID, wanted)
		if err != nil {
			return nil, err
		}
		return encode(map[string]int{"retried": n})
	}, nil)
}

// cancel answers POST /v1/webhooks/{id}/deliveries/{delivery_id}/cancel.
func (h *DeliveryHandlers) cancel(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	d, sent, err := h.find(c)
	if err != nil {
		return err
	}
	if d, err = h.deliveries.CancelDelivery(c.r.Context(), d.Account, d.Webhook, d.ID); err != nil {
		return err
	}
	return c.encoded(encodeDelivery(&d, sent))
}

// cancelAll answers POST /v1/webhooks/{id}/deliveries/cancel.
func (h *DeliveryHandlers) cancelAll(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	w, err := findWebhook(c, h.webhooks, c.vars["id"])
	if err != nil {
		return err
	}
	n, err := h.deliveries.CancelDeliveries(c.r.Context(), w.Account, w.ID)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, map[string]int{"cancelled": n})
}

// deliveryItem is a delivery in lists.
type deliveryItem struct {
	ID             signal.DeliveryID `json:"delivery_id"`
	Webhook        signal.WebhookID  `json:"webhook_id"`
	Event          signal.EventID    `json:"event_id"`
	Type           signal.EventType  `json:"event_type"`
	Status         delivery.Status   `json:"status"`
	AttemptCount   int               `json:"attempt_count"`
	NextAttemptAt  instant           `json:"next_attempt_at"`
	CompletedAt    instant           `json:"completed_at"`
	ResponseStatus *int              `json:"response_status"`
	Error          *string           `json:"error"`
	CreatedAt      instant           `json:"created_at"`
}

func viewDeliveryItem(d *delivery.Delivery) deliveryItem {
	status := 0
	if n := len(d.Attempts); n > 0 {
		status = d.Attempts[n-1].ResponseStatus
	}
	return deliveryItem{
		ID:             d.ID,
		Webhook:        d.Webhook,
		Event:          d.Event,
		Type:           d.Type,
		Status:         d.Status,
		AttemptCount:   d.AttemptCount(),
		NextAttemptAt:  instant(d.NextAttemptAt),
		CompletedAt:    instant(d.CompletedAt),
		ResponseStatus: orNull(status),
		Error:          orNull(d.Error),
		CreatedAt:      instant(d.CreatedAt),
	}
}

// deliveryView is a delivery with its attempts, oldest first.
type deliveryView struct {
	deliveryItem
	Attempts []attemptView `json:"attempts"`
	// RequestBody is the body of the last attempt's request if it is not the payload.
	RequestBody string `json:"request_body,omitempty"`
}

// attemptView is an attempt. The body of the response is text, whatever its media type.
type attemptView struct {
	Number         int              `json:"number"`
	Trigger        delivery.Trigger `json:"trigger"`
	At             instant          `json:"at"`
	DurationMS     int64            `json:"duration_ms"`
	ResponseStatus *int             `json:"response_status"`
	Error          *string          `json:"error"`
	ResponseBody   *string          `json:"response_body"` // null if there was no response
}

// encodeDelivery returns a delivery with its attempts and the envelope of its event, which is the
// body that it sends if the webhook's format is standard: byte by byte, since the bytes are what signatures sign.
func encodeDelivery(d *delivery.Delivery, sent []byte) ([]byte, error) {
	b, err := encode(viewDelivery(d))
	if err != nil {
		return nil, err
	}
	b = append(bytes.TrimSuffix(b, []byte{'}'}), `,"payload":`...)
	return append(append(b, sent...), '}'), nil
}

func viewDelivery(d *delivery.Delivery) deliveryView {
	v := deliveryView{viewDeliveryItem(d), make([]attemptView, len(d.Attempts)), string(d.Sent)}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		v.Attempts[i] = attemptView{
			Number:         a.Number,
			Trigger:        a.Trigger,
			At:             instant(a.At),
			DurationMS:     int64(a.Duration / time.Millisecond),
			ResponseStatus: orNull(a.ResponseStatus),
			Error:          orNull(a.Error),
		}
		if a.ResponseStatus != 0 {
			v.Attempts[i].ResponseBody = &a.ResponseBody
		}
	}
	return v
}
