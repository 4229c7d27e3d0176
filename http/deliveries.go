package http

import (
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

// errWebhookDisabled refuses a retry that would never be sent.
var errWebhookDisabled = &signal.Error{Kind: signal.KindConflict, Code: "webhook_disabled",
	Message: "the webhook is disabled"}

// retryable lists the states of deliveries that can be sent again.
var retryable = []delivery.Status{delivery.Failed, delivery.Succeeded}

// testWebhook answers POST /v1/webhooks/{id}/test.
func (s *Server) testWebhook(c *call) error {
	return s.onceEmpty(c, func(ctx context.Context) ([]byte, error) {
		w, err := s.webhook(c)
		if err != nil {
			return nil, err
		}
		now := s.o.Now()
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
		sent := s.o.Envelope(nil, d.Event, d.Type, w.APIVersion, now, data)
		if err := s.o.Deliveries.CreateDelivery(ctx, d, sent); err != nil {
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

// listDeliveries answers GET /v1/webhooks/{id}/deliveries.
func (s *Server) listDeliveries(c *call) error {
	wanted, p := readDeliveryQuery(c.query)
	if err := c.faults.Err(); err != nil {
		return err
	}
	w, err := s.webhook(c)
	if err != nil {
		return err
	}
	list, total, err := s.o.Deliveries.Deliveries(c.r.Context(), w.Account, w.ID, wanted)
	if err != nil {
		return err
	}
	return c.encoded(encodeList("deliveries", list, viewDeliveryItem, p, total))
}

// listAllDeliveries answers GET /v1/deliveries. With a webhook it is the list of that one.
func (s *Server) listAllDeliveries(c *call) error {
	if c.vars = map[string]string{"id": c.query.Get("webhook_id")}; c.vars["id"] != "" {
		return s.listDeliveries(c)
	}
	wanted, p := readDeliveryQuery(c.query)
	if err := c.faults.Err(); err != nil {
		return err
	}
	list, total, err := s.o.Deliveries.AllDeliveries(c.r.Context(), c.principal.Account, wanted)
	if err != nil {
		return err
	}
	return c.encoded(encodeList("deliveries", list, viewDeliveryItem, p, total))
}

// deliveryByID answers GET /v1/webhooks/{id}/deliveries/{delivery_id}.
func (s *Server) deliveryByID(c *call) error {
	return c.encoded(s.encodedDelivery(c))
}

// encodedDelivery returns the answer with the delivery that the path names.
func (s *Server) encodedDelivery(c *call) ([]byte, error) {
	d, sent, err := s.delivery(c)
	if err != nil {
		return nil, err
	}
	return encodeDelivery(&d, sent)
}

// delivery returns the delivery that the path names and the body that it sends.
func (s *Server) delivery(c *call) (delivery.Delivery, []byte, error) {
	webhook, err := c.webhookID()
	if err != nil {
		return delivery.Delivery{}, nil, err
	}
	id, ok := signal.ParseDeliveryID(c.vars["delivery_id"])
	if !ok {
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	return s.o.Deliveries.Delivery(c.r.Context(), c.principal.Account, webhook, id)
}

// retryDelivery answers POST /v1/webhooks/{id}/deliveries/{delivery_id}/retry.
func (s *Server) retryDelivery(c *call) error {
	return s.onceEmpty(c, func(ctx context.Context) ([]byte, error) {
		w, err := s.webhook(c)
		if err != nil {
			return nil, err
		}
		d, sent, err := s.delivery(c)
		if err != nil {
			return nil, err
		}
		if w.Status == delivery.WebhookDisabled {
			return nil, errWebhookDisabled
		}
		if d, err = s.o.Deliveries.RetryDelivery(ctx, d.Account, d.Webhook, d.ID); err != nil {
			return nil, err
		}
		return encodeDelivery(&d, sent)
	}, func(context.Context) ([]byte, error) { return s.encodedDelivery(c) })
}

// retryDeliveries answers POST /v1/webhooks/{id}/deliveries/retry.
func (s *Server) retryDeliveries(c *call) error {
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
	return s.once(c, body, func(ctx context.Context) ([]byte, error) {
		w, err := s.webhook(c)
		if err != nil {
			return nil, err
		}
		if w.Status == delivery.WebhookDisabled {
			return nil, errWebhookDisabled
		}
		n, err := s.o.Deliveries.RetryDeliveries(ctx, w.Account, w.ID, wanted)
		if err != nil {
			return nil, err
		}
		return encode(map[string]int{"retried": n})
	}, nil)
}

// cancelDelivery answers POST /v1/webhooks/{id}/deliveries/{delivery_id}/cancel.
func (s *Server) cancelDelivery(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	d, sent, err := s.delivery(c)
	if err != nil {
		return err
	}
	if d, err = s.o.Deliveries.CancelDelivery(c.r.Context(), d.Account, d.Webhook, d.ID); err != nil {
		return err
	}
	return c.encoded(encodeDelivery(&d, sent))
}

// cancelDeliveries answers POST /v1/webhooks/{id}/deliveries/cancel.
func (s *Server) cancelDeliveries(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	w, err := s.webhook(c)
	if err != nil {
		return err
	}
	n, err := s.o.Deliveries.CancelDeliveries(c.r.Context(), w.Account, w.ID)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, map[string]int{"cancelled": n})
}
