package persistence

import (
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// testWebhook returns an enabled webhook that is not stored.
func testWebhook(a signal.AccountID) delivery.Webhook {
	id := signal.NewWebhookID()
	return delivery.Webhook{ID: id, Account: a, URL: "https://example.com/" + string(id), APIVersion: "2026-11-01",
		Events: []signal.EventType{signal.SignalCreated, signal.WebhookTest}, Status: delivery.WebhookEnabled, Secret: []byte("sealed\x00secret")}
}

// testDelivery returns a pending delivery of an event, due when it is created.
func testDelivery(w *delivery.Webhook, e signal.EventID, at time.Time) delivery.Delivery {
	at = at.UTC()
	return delivery.Delivery{ID: signal.DeliveryIDOf(e, w.ID), Webhook: w.ID, Account: w.Account, Event: e, Type: signal.SignalCreated,
		Status: delivery.Pending, CreatedAt: at, NextAttemptAt: at}
}

// attempt returns d after an attempt that ended with a response status; 0 is a
// timeout. It is to be tried again at the given time, and has failed if that is zero.
func attempt(d delivery.Delivery, status int, at, again time.Time) delivery.Delivery {
	a := delivery.Attempt{Number: d.AttemptCount() + 1, Trigger: delivery.Scheduled, At: at.UTC(), Duration: 710 * time.Millisecond,
		ResponseStatus: status, Error: fmt.Sprint("status ", status), ResponseBody: "answer"}
	d.WasDueAt, d.Single = d.NextAttemptAt, false
	d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Failed, time.Time{}, at.UTC()
	switch {
	case status == 0:
		a.Error, a.ResponseBody = "timeout", ""
	case status < 300:
		a.Error, d.Status = "", delivery.Succeeded
	}
	if !again.IsZero() {
		d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Pending, again.UTC(), time.Time{}
	}
	d.Scheduled++
	d.Error = a.Error
	d.Attempts = append(append([]delivery.Attempt(nil), d.Attempts...), a)
	return d
}

// milli is a time in the past that is stored as it is.
func milli(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }
