package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Webhook is an endpoint that gets events.
type Webhook struct {
	Object
	ID             string     `json:"webhook_id"`
	URL            string     `json:"url"` // that of a chat service without its secret part
	Events         []string   `json:"events"`
	Description    string     `json:"description"`
	Format         string     `json:"format"`         // "standard", "slack", "discord", "telegram", "ntfy" or "template"
	MaxPerMinute   *int       `json:"max_per_minute"` // nil for no limit
	Status         string     `json:"status"`         // "enabled" or "disabled"
	DisabledReason string     `json:"disabled_reason"`
	FailingSince   *time.Time `json:"failing_since"`
	HeldUntil      *time.Time `json:"held_until"` // it has asked to get no request before
	CreatedAt      time.Time  `json:"created_at"`
}

// NewWebhook is what a webhook is made of. Without a secret the service makes one.
type NewWebhook struct {
	URL         string   `json:"url"`
	Events      []string `json:"events"`
	Secret      string   `json:"secret,omitempty"`
	Description string   `json:"description,omitempty"`
	Format      string   `json:"format,omitempty"`       // "standard" if empty; see Webhook
	ChatID      string   `json:"chat_id,omitempty"`      // of Telegram
	Template    string   `json:"template,omitempty"`     // of the format "template"
	ContentType string   `json:"content_type,omitempty"` // of what the template makes; text/plain if empty
	// MaxPerMinute is the maximum number of requests in a minute, 1 to 60,000; 0 for what its format accepts.
	MaxPerMinute int `json:"max_per_minute,omitempty"`
}

// CreateWebhook makes a webhook.
func (c *Client) CreateWebhook(ctx context.Context, in NewWebhook) (*Webhook, error) {
	var w Webhook
	return &w, c.send(ctx, request{method: http.MethodPost, path: "/v1/webhooks", keyed: true}, in, &w)
}

// RemoveWebhook removes a webhook.
func (c *Client) RemoveWebhook(ctx context.Context, id string) error {
	return c.send(ctx, request{method: http.MethodDelete, path: "/v1/webhooks/" + url.PathEscape(id)}, nil, nil)
}

// Webhooks returns the webhooks of the account.
func (c *Client) Webhooks(ctx context.Context) iter.Seq2[*Webhook, error] {
	return all(ctx, c, "/v1/webhooks", "webhooks", nil, 0, func(w *Webhook) string { return w.ID })
}

// Delivery is an event on its way to a webhook.
type Delivery struct {
	Object
	ID             string     `json:"delivery_id"`
	Webhook        string     `json:"webhook_id"`
	Event          string     `json:"event_id"`
	Type           string     `json:"event_type"`
	Status         string     `json:"status"` // "pending", "succeeded" or "failed"
	Attempts       int        `json:"attempt_count"`
	NextAttemptAt  *time.Time `json:"next_attempt_at"`
	CompletedAt    *time.Time `json:"completed_at"`
	ResponseStatus *int       `json:"response_status"` // of the last attempt, as Error
	Error          string     `json:"error"`
	CreatedAt      time.Time  `json:"created_at"`
}

// Delivery returns a delivery to a webhook. Its Error has a reason that lists leave out.
func (c *Client) Delivery(ctx context.Context, webhook, id string) (*Delivery, error) {
	return get[Delivery](ctx, c, "/v1/webhooks/"+url.PathEscape(webhook)+"/deliveries/"+url.PathEscape(id))
}

// Deliveries returns the deliveries with a status to a webhook, of all if one of the two is empty, the
// newest first; at most limit of them if it is positive.
func (c *Client) Deliveries(ctx context.Context, webhook, status string, limit int) iter.Seq2[*Delivery, error] {
	return all(ctx, c, "/v1/deliveries", "deliveries", values("webhook_id", webhook, "status", status), limit,
		func(d *Delivery) string { return d.ID })
}

// RetryDelivery makes one more attempt at a failed delivery at once.
func (c *Client) RetryDelivery(ctx context.Context, webhook, id string) (*Delivery, error) {
	var d Delivery
	path := "/v1/webhooks/" + url.PathEscape(webhook) + "/deliveries/" + url.PathEscape(id) + "/retry"
	return &d, c.send(ctx, request{method: http.MethodPost, path: path, keyed: true}, nil, &d)
}

// Retried is how many deliveries are sent again.
type Retried struct {
	Object
	Count int `json:"retried"`
}

// RetryDeliveries makes one more attempt at all failed deliveries to a webhook at once.
func (c *Client) RetryDeliveries(ctx context.Context, webhook string) (*Retried, error) {
	var r Retried
	path := "/v1/webhooks/" + url.PathEscape(webhook) + "/deliveries/retry"
	in := map[string]string{"status": "failed"}
	return &r, c.send(ctx, request{method: http.MethodPost, path: path, keyed: true}, in, &r)
}
