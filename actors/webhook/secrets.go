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

// reseal stores w with its secrets sealed by the newest key, unless the record was changed
// or removed meanwhile: a new record is checked when it is read.
func (o *owned) reseal(ctx context.Context, w delivery.Webhook) error {
	secret, err := o.keys.Open(w.Secret, string(w.ID))
	if err != nil {
		return err
	}
	w.Secret = o.keys.Seal(secret, string(w.ID))
	if overlaps(&w, o.now()) {
		previous, err := o.keys.Open(w.PreviousSecret, string(w.ID))
		if err != nil {
			return fmt.Errorf("previous secret: %w", err)
		}
		w.PreviousSecret = o.keys.Seal(previous, string(w.ID))
	}
	_, err = o.store.ChangeWebhook(ctx, w, false)
	if signal.CodeOf(err) == signal.CodeWebhookChanged {
		return nil
	}
	return err
}
