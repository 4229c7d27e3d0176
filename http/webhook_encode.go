package http

import (
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// appendWebhook adds the record of a webhook, which does not have its secret.
func appendWebhook(b []byte, w *delivery.Webhook) []byte {
	return append(appendWebhookMembers(append(b, '{'), w), '}')
}

// appendNewWebhook adds the record with its secret, which only the answer to the
// registration shows.
func appendNewWebhook(b []byte, w *delivery.Webhook, secret string) []byte {
	b = appendWebhookMembers(append(b, '{'), w)
	b = append(b, `,"secret":`...)
	return append(signal.AppendText(b, secret), '}')
}

func appendWebhookMembers(b []byte, w *delivery.Webhook) []byte {
	b = append(b, `"webhook_id":"`...)
	b = append(b, w.ID...)
	b = append(b, `","url":`...)
	b = signal.AppendText(b, w.URL)
	b = append(b, `,"events":[`...)
	for i, t := range w.Events {
		if i > 0 {
			b = append(b, ',')
		}
		b = signal.AppendText(b, string(t))
	}
	b = append(b, `],"description":`...)
	if w.Description != nil {
		b = signal.AppendText(b, *w.Description)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"api_version":"`...)
	b = append(b, w.APIVersion...)
	b = append(b, `","status":"`...)
	b = append(b, w.Status...)
	b = append(b, `","disabled_at":`...)
	b = appendTimeOrNull(b, w.DisabledAt)
	b = append(b, `,"disabled_reason":`...)
	b = appendTextOrNull(b, string(w.DisabledReason))
	b = append(b, `,"failing_since":`...)
	b = appendTimeOrNull(b, w.Health.FailingSince)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, w.CreatedAt)
	b = append(b, `,"updated_at":`...)
	return signal.AppendTime(b, w.UpdatedAt)
}

// appendTextOrNull adds a text, or null for an empty one.
func appendTextOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return signal.AppendText(b, s)
}

// appendStatusOrNull adds the status of a response, or null for 0: none came.
func appendStatusOrNull(b []byte, status int) []byte {
	if status == 0 {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, int64(status), 10)
}

// appendDeliveryItem adds a delivery as lists show it.
func appendDeliveryItem(b []byte, d *delivery.Delivery) []byte {
	return append(appendDeliveryMembers(append(b, '{'), d), '}')
}

// appendDelivery adds a delivery with its attempts and with what it sends, as it is
// sent.
func appendDelivery(b []byte, d *delivery.Delivery, sent []byte) []byte {
	b = appendDeliveryMembers(append(b, '{'), d)
	b = append(b, `,"attempts":[`...)
	for i := range d.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &d.Attempts[i])
	}
	b = append(b, `],"payload":`...)
	return append(append(b, sent...), '}')
}

func appendDeliveryMembers(b []byte, d *delivery.Delivery) []byte {
	b = append(b, `"delivery_id":"`...)
	b = append(b, d.ID...)
	b = append(b, `","webhook_id":"`...)
	b = append(b, d.Webhook...)
	b = append(b, `","event_id":"`...)
	b = append(b, d.Event...)
	b = append(b, `","event_type":"`...)
	b = append(b, d.Type...)
	b = append(b, `","status":"`...)
	b = append(b, d.Status...)
	b = append(b, `","attempt_count":`...)
	b = strconv.AppendInt(b, int64(d.AttemptCount()), 10)
	b = append(b, `,"next_attempt_at":`...)
	b = appendTimeOrNull(b, d.NextAttemptAt)
	b = append(b, `,"completed_at":`...)
	b = appendTimeOrNull(b, d.CompletedAt)
	b = append(b, `,"response_status":`...)
	status := 0
	if n := len(d.Attempts); n > 0 {
		status = d.Attempts[n-1].ResponseStatus
	}
	b = appendStatusOrNull(b, status)
	b = append(b, `,"error":`...)
	b = appendTextOrNull(b, d.Error)
	b = append(b, `,"created_at":`...)
	return signal.AppendTime(b, d.CreatedAt)
}

// appendAttempt adds an attempt. What the endpoint answered is text, whatever it
// meant.
func appendAttempt(b []byte, a *delivery.Attempt) []byte {
	b = append(b, `{"number":`...)
	b = strconv.AppendInt(b, int64(a.Number), 10)
	b = append(b, `,"trigger":"`...)
	b = append(b, a.Trigger...)
	b = append(b, `","at":`...)
	b = signal.AppendTime(b, a.At)
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendInt(b, int64(a.Duration/time.Millisecond), 10)
	b = append(b, `,"response_status":`...)
	b = appendStatusOrNull(b, a.ResponseStatus)
	b = append(b, `,"error":`...)
	b = appendTextOrNull(b, a.Error)
	b = append(b, `,"response_body":`...)
	if a.ResponseStatus != 0 {
		b = signal.AppendText(b, a.ResponseBody)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}
