package webhook

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/message"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// target is the destination of an endpoint's requests. It does not change.
type target struct {
	to    *sender.Destination
	both  *sender.Destination // signed by the previous secret, too, or nil
	until time.Time           // when the previous secret ends

	messages *message.Renderer // nil for the format standard
}

// at returns the destination of requests at t.
func (g *target) at(t time.Time) *sender.Destination {
	if g.both != nil && t.Before(g.until) {
		return g.both
	}
	return g.to
}

// attempt is an attempt that has ended.
type attempt struct {
	item    *item
	trigger delivery.Trigger
	result  sender.Result
	ended   time.Time
	body    []byte    // of the request where the format is not standard, else nil
	unsent  bool      // no request was made, because there is no message of the event
	held    time.Time // until when the endpoint is held after it, or zero
}

// attempt makes an attempt of d. Its result is to be dropped if ctx has ended.
func (g *target) attempt(ctx context.Context, n *Node, d *item) attempt {
	now := n.now()
	a := attempt{item: d, trigger: triggerOf(&d.Delivery)}
	body := d.Body
	if g.messages != nil {
		var err error
		if body, err = g.messages.Render(d.Body); err != nil {
			a.unsent, a.ended = true, now
			a.result = sender.Result{At: now, Error: delivery.NotMade + ": " + err.Error()}
			return a
		}
		a.body = body
	}
	a.result = n.sender.Send(ctx, sender.Request{
		To:       g.at(now),
		Body:     body,
		Event:    d.Event,
		Type:     d.Type,
		Delivery: d.ID,
		Attempt:  d.AttemptCount() + 1,
		At:       now,
	})
	if ctx.Err() != nil {
		return a
	}
	if g.messages != nil && a.result.RetryAfter == 0 {
		a.result.RetryAfter = g.messages.RetryAfter(a.result.Status, a.result.Body)
	}
	a.ended = n.now()
	n.options.Metrics.attempted(&a.result)
	return a
}

// triggerOf returns the trigger of the next attempt of d. The first attempt of a test is
// scheduled, even if the webhook is disabled.
func triggerOf(d *delivery.Delivery) delivery.Trigger {
	if d.Single && (d.Type != signal.WebhookTest || len(d.Attempts) > 0 || d.Error != "") {
		return delivery.Manual
	}
	return delivery.Scheduled
}

// openTarget opens the secrets of w that sign at the given time, or later.
func openTarget(keys *keyring.Ring, w *delivery.Webhook, at time.Time) (*target, error) {
	secret, err := keys.Open(w.Secret, string(w.ID))
	if err != nil {
		return nil, err
	}
	url, contentType, messages := w.URL, "", message.New(w)
	if messages != nil {
		url, contentType = messages.URL(), messages.ContentType()
	}
	destination := func(secrets ...string) *sender.Destination {
		d := sender.NewDestination(url, secrets...)
		d.ContentType = cmp.Or(contentType, d.ContentType)
		return d
	}
	t := &target{to: destination(string(secret)), messages: messages}
	if overlaps(w, at) {
		previous, err := keys.Open(w.PreviousSecret, string(w.ID))
		if err != nil {
			return nil, fmt.Errorf("previous secret: %w", err)
		}
		t.both, t.until = destination(string(secret), string(previous)), w.PreviousUntil
	}
	return t, nil
}

// overlaps reports whether w has a previous secret that still signs. An ended one must not
// be opened, because its key may have been removed.
func overlaps(w *delivery.Webhook, at time.Time) bool {
	return w.PreviousSecret != nil && at.Before(w.PreviousUntil)
}

// outdated reports whether a secret of w that is in use is sealed by another key than the newest.
func outdated(keys *keyring.Ring, w *delivery.Webhook, at time.Time) bool {
	return !keys.Current(w.Secret) || overlaps(w, at) && !keys.Current(w.PreviousSecret)
}
