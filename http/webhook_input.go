package http

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// webhookInput is what a body says of a webhook. A zero member was not given.
type webhookInput struct {
	url         string
	events      []signal.EventType
	description *string
	apiVersion  string
	status      delivery.WebhookStatus
	secret      string
}

// readWebhook reads what both a new webhook and a change of one may give.
func (s *Server) readWebhook(c *call, o *object) webhookInput {
	var in webhookInput
	in.url = s.readURL(c.r.Context(), o)
	in.events = readEvents(o)
	if text, ok := o.text("description"); ok {
		if in.description = &text; utf8.RuneCountInString(text) > delivery.MaxWebhookDescription {
			o.bad("description", faultTooLong, fmt.Sprintf("must have at most %d characters", delivery.MaxWebhookDescription))
		}
	}
	names := make([]string, len(s.versions))
	for i, v := range s.versions {
		names[i] = v.Name
	}
	in.apiVersion, _ = choice(o, "api_version", names)
	return in
}

// readURL reads where deliveries shall go.
func (s *Server) readURL(ctx context.Context, o *object) string {
	text, ok := o.text("url")
	if !ok {
		return ""
	}
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		o.bad("url", faultTooShort, "must have at least 1 character")
	case n > delivery.MaxWebhookURL:
		o.bad("url", faultTooLong, fmt.Sprintf("must have at most %d characters", delivery.MaxWebhookURL))
	default:
		o.badURL("url", s.o.Addresses.CheckURL(ctx, text))
	}
	return text
}

// badURL notes what Addresses found.
func (o *object) badURL(name string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			o.badURL(name, e)
		}
		return
	}
	if e, ok := errors.AsType[*signal.Error](err); ok {
		o.bad(name, e.Code, e.Message)
		return
	}
	o.bad(name, faultFormat, "must be a URL")
}

// readEvents reads the types of a subscription; nil if they were not given or are
// not valid.
func readEvents(o *object) []signal.EventType {
	var list []signal.EventType
	_, ok := o.texts("events", len(delivery.WebhookEvents), someOf(delivery.WebhookEvents), func(item string) (code, detail string) {
		t := signal.EventType(item)
		switch {
		case !slices.Contains(delivery.WebhookEvents, t):
			return faultInvalidValue, oneOf(delivery.WebhookEvents)
		case slices.Contains(list, t):
			return faultDuplicate, "is given more than once"
		}
		list = append(list, t)
		return "", ""
	})
	if ok && len(list) == 0 {
		o.bad("events", faultTooShort, someOf(delivery.WebhookEvents))
	}
	return list
}

// readSecret reads a signing secret; "" if one is to be made.
func readSecret(o *object) string {
	secret, _ := o.text("secret")
	if utf8.RuneCountInString(secret) > delivery.MaxWebhookSecret {
		o.bad("secret", faultTooLong, fmt.Sprintf("must have at most %d characters", delivery.MaxWebhookSecret))
	}
	return secret
}

// apply changes w to what was given, but not its secret. It returns false if nothing
// is another than before.
func (in *webhookInput) apply(w *delivery.Webhook, now time.Time) (changed bool) {
	if in.url != "" && in.url != w.URL {
		w.URL, changed = in.url, true
	}
	if in.events != nil && !slices.Equal(in.events, w.Events) {
		w.Events, changed = in.events, true
	}
	if in.description != nil && (w.Description == nil || *in.description != *w.Description) {
		w.Description, changed = in.description, true
	}
	if in.apiVersion != "" && in.apiVersion != w.APIVersion {
		w.APIVersion, changed = in.apiVersion, true
	}
	if in.status == delivery.WebhookEnabled && w.Health != (delivery.WebhookHealth{}) {
		w.Health, changed = delivery.WebhookHealth{}, true
	}
	if in.status == "" || in.status == w.Status {
		return changed
	}
	w.Status, w.DisabledAt, w.DisabledReason = in.status, time.Time{}, ""
	if in.status == delivery.WebhookDisabled {
		w.DisabledAt, w.DisabledReason = now, delivery.DisabledManual
	}
	return true
}
