package http

import (
	"bytes"
	"cmp"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// webhookView is a webhook. Its secret is only in the answer to its registration.
type webhookView struct {
	ID             signal.WebhookID         `json:"webhook_id"`
	URL            string                   `json:"url"`
	Events         []signal.EventType       `json:"events"`
	Description    *string                  `json:"description"`
	APIVersion     string                   `json:"api_version"`
	Format         delivery.Format          `json:"format"`
	ChatID         *string                  `json:"chat_id"`
	Template       *string                  `json:"template"`
	ContentType    *string                  `json:"content_type"`
	Filters        *filterView              `json:"filters"`
	MaxPerMinute   *int                     `json:"max_per_minute"`
	Status         delivery.WebhookStatus   `json:"status"`
	DisabledAt     instant                  `json:"disabled_at"`
	DisabledReason *delivery.DisabledReason `json:"disabled_reason"`
	FailingSince   instant                  `json:"failing_since"`
	HeldUntil      instant                  `json:"held_until"`
	CreatedAt      instant                  `json:"created_at"`
	UpdatedAt      instant                  `json:"updated_at"`
	Secret         string                   `json:"secret,omitempty"`
}

func (s *Server) viewWebhook(w *delivery.Webhook) webhookView {
	held := w.Health.HeldUntil
	if !held.After(s.o.Now()) { // the next requests decide whether it waits again
		held = time.Time{}
	}
	return webhookView{
		ID:             w.ID,
		URL:            w.ShownURL(),
		Events:         list(w.Events),
		Description:    w.Description,
		APIVersion:     w.APIVersion,
		Format:         cmp.Or(w.Format, delivery.Standard),
		ChatID:         orNull(w.ChatID),
		Template:       orNull(w.Template),
		ContentType:    orNull(w.ContentType),
		Filters:        viewFilter(w.Filter),
		MaxPerMinute:   orNull(w.Rate()),
		Status:         w.Status,
		DisabledAt:     instant(w.DisabledAt),
		DisabledReason: orNull(w.DisabledReason),
		FailingSince:   instant(w.Health.FailingSince),
		HeldUntil:      instant(held),
		CreatedAt:      instant(w.CreatedAt),
		UpdatedAt:      instant(w.UpdatedAt),
	}
}

// secretView is the answer to a rotation of the secret.
type secretView struct {
	ID                      signal.WebhookID `json:"webhook_id"`
	Secret                  string           `json:"secret"`
	PreviousSecretExpiresAt instant          `json:"previous_secret_expires_at"`
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
