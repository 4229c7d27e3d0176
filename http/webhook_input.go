package http

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/http/request"
)

// webhookInput holds the members of a body. Those that are zero were not given.
type webhookInput struct {
	url         string
	events      []signal.EventType
	description *string
	apiVersion  string
	status      delivery.WebhookStatus
	secret      string
	filter      *signal.Filter
}

// readWebhook reads the members that a new webhook and a change have in common.
func (s *Server) readWebhook(c *call, o *request.Object) webhookInput {
	var in webhookInput
	in.url = s.readURL(c.r.Context(), o)
	in.events = readEvents(o)
	if text, ok := o.Text("description"); ok {
		if in.description = &text; utf8.RuneCountInString(text) > delivery.MaxWebhookDescription {
			o.Bad("description", request.CodeTooLong, request.AtMost(delivery.MaxWebhookDescription))
		}
	}
	in.apiVersion, _ = request.Choice(o, "api_version", s.versionNames())
	in.filter = readFilter(o)
	return in
}

// readURL reads the URL to which deliveries are sent.
func (s *Server) readURL(ctx context.Context, o *request.Object) string {
	text, ok := o.Text("url")
	if !ok {
		return ""
	}
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		o.Bad("url", request.CodeTooShort, request.NotEmpty)
	case n > delivery.MaxWebhookURL:
		o.Bad("url", request.CodeTooLong, request.AtMost(delivery.MaxWebhookURL))
	default:
		badURL(o, "url", s.o.Addresses.CheckURL(ctx, text))
	}
	return text
}

// badURL records the errors of Addresses as faults of a member.
func badURL(o *request.Object, name string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			badURL(o, name, e)
		}
		return
	}
	if e, ok := errors.AsType[*signal.Error](err); ok {
		o.Bad(name, e.Code, e.Message)
		return
	}
	o.Bad(name, request.CodeFormat, "must be a URL")
}

// readEvents reads the types of a subscription, or returns nil if they are missing or not
// valid.
func readEvents(o *request.Object) []signal.EventType {
	var list []signal.EventType
	_, ok := o.Texts("events", len(delivery.WebhookEvents), request.SomeOf(delivery.WebhookEvents),
		func(item string) (code, detail string) {
			t := signal.EventType(item)
			switch {
			case !slices.Contains(delivery.WebhookEvents, t):
				return request.CodeInvalidValue, request.OneOf(delivery.WebhookEvents)
			case slices.Contains(list, t):
				return request.CodeDuplicate, "is given more than once"
			}
			list = append(list, t)
			return "", ""
		})
	if ok && len(list) == 0 {
		o.Bad("events", request.CodeTooShort, request.SomeOf(delivery.WebhookEvents))
	}
	return list
}

// readSecret reads a signing secret, or returns "" if none is given.
func readSecret(o *request.Object) string {
	secret, _ := o.Text("secret")
	if utf8.RuneCountInString(secret) > delivery.MaxWebhookSecret {
		o.Bad("secret", request.CodeTooLong, request.AtMost(delivery.MaxWebhookSecret))
	}
	return secret
}

// apply sets the given members of w except its secret. It reports whether it has changed
// anything.
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
	if in.filter != nil && !(w.Filter == nil && in.filter.Empty()) && !reflect.DeepEqual(in.filter, w.Filter) {
		if w.Filter, changed = in.filter, true; in.filter.Empty() {
			w.Filter = nil
		}
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
