package http

import (
	"cmp"
	"context"
	"errors"
	"mime"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/message"
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
	perMinute   *int64 // 0 for that of the format

	format      delivery.Format
	chatID      string // these belong to the format
	template    string
	contentType string
}

// webhookReader reads the bodies of requests that make and change webhooks.
type webhookReader struct {
	addresses Addresses
	assets    AssetSuggester // for filters
	agents    *AgentCatalogue
}

// read reads the members that a new webhook and a change have in common.
func (r webhookReader) read(c *call, o *request.Object) webhookInput {
	var in webhookInput
	in.url = r.readURL(c.r.Context(), o)
	in.events = readEvents(o)
	if text, ok := o.Text("description"); ok {
		if in.description = &text; utf8.RuneCountInString(text) > delivery.MaxWebhookDescription {
			o.Bad("description", request.CodeTooLong, request.AtMost(delivery.MaxWebhookDescription))
		}
	}
	in.apiVersion, _ = request.Choice(o, "api_version", apiVersions.names())
	in.filter = r.readFilter(c, o)
	if n, ok := o.Integer("max_per_minute", 0, delivery.MaxPerMinute); ok {
		in.perMinute = &n
	}
	in.readFormat(o)
	return in
}

// readFormat reads the format and what belongs to it, which is given only together with it.
func (in *webhookInput) readFormat(o *request.Object) {
	in.format, _ = request.Choice(o, "format", delivery.Formats)
	for _, m := range []struct {
		name   string
		value  *string
		format delivery.Format
		max    int
		check  func(string) (fault string)
	}{
		{"chat_id", &in.chatID, delivery.Telegram, delivery.MaxWebhookChatID, func(text string) string {
			if !message.CheckChatID(text) {
				return "must be the number of a chat, or @ and the name of a channel"
			}
			return ""
		}},
		{"template", &in.template, delivery.Template, delivery.MaxWebhookTemplate, func(text string) string {
			if _, err := message.ParseTemplate(text); err != nil {
				return err.Error()
			}
			return ""
		}},
		{"content_type", &in.contentType, delivery.Template, delivery.MaxWebhookContentType, func(text string) string {
			if _, _, err := mime.ParseMediaType(text); err != nil || strings.ContainsFunc(text, notPrintable) {
				return "must be a media type, such as application/json"
			}
			return ""
		}},
	} {
		text, ok := o.Text(m.name)
		switch {
		case in.format == m.format && text == "" && m.name != "content_type":
			o.Bad(m.name, request.CodeRequired, "is required by the format "+string(m.format))
		case !ok || text == "":
		case in.format != m.format:
			o.Bad(m.name, request.CodeInvalidValue, "belongs to the format "+string(m.format)+", which must be given with it")
		case utf8.RuneCountInString(text) > m.max:
			o.Bad(m.name, request.CodeTooLong, request.AtMost(m.max))
		default:
			if fault := m.check(text); fault != "" {
				o.Bad(m.name, request.CodeFormat, fault)
			}
		}
		*m.value = text
	}
}

// notPrintable reports whether r must not be in a header.
func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// checkChange records the faults of a change of w that depend on the present webhook. A URL that
// is shown only in part must not become visible by a change of the format.
func (in *webhookInput) checkChange(w *delivery.Webhook, faults *request.Faults) {
	before := cmp.Or(w.Format, delivery.Standard)
	format, url := cmp.Or(in.format, before), cmp.Or(in.url, w.URL)
	if kept := in.url == "" || in.url == w.ShownURL(); kept {
		if url = w.URL; before.Chat() && format != before {
			faults.Body("/url", request.CodeRequired, "is required with another format: that of "+string(before)+" is secret")
			return
		}
	}
	if err := message.CheckURL(format, url); err != nil && (format != before || url != w.URL) {
		faults.Body("/url", request.CodeFormat, err.Error())
	}
}

// readURL reads the URL to which deliveries are sent.
func (r webhookReader) readURL(ctx context.Context, o *request.Object) string {
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
		badURL(o, "url", r.addresses.CheckURL(ctx, text))
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
	if in.url != "" && in.url != w.URL && in.url != w.ShownURL() {
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
	if in.format != "" {
		before := *w
		if w.Format = in.format; in.format == delivery.Standard {
			w.Format = ""
		}
		w.ChatID, w.Template, w.ContentType = in.chatID, in.template, in.contentType
		changed = changed || before.Format != w.Format || before.ChatID != w.ChatID ||
			before.Template != w.Template || before.ContentType != w.ContentType
	}
	if in.filter != nil && !(w.Filter == nil && in.filter.Empty()) && !reflect.DeepEqual(in.filter, w.Filter) {
		if w.Filter, changed = in.filter, true; in.filter.Empty() {
			w.Filter = nil
		}
	}
	if in.perMinute != nil && int(*in.perMinute) != w.MaxPerMinute {
		w.MaxPerMinute, changed = int(*in.perMinute), true
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

// readFilter reads the filters of a webhook, or returns nil if they are missing. An object
// without a member that has a value removes the filters.
func (r webhookReader) readFilter(c *call, o *request.Object) *signal.Filter {
	in, ok := o.Object("filters")
	if !ok {
		return nil
	}
	f := &signal.Filter{}
	given := ""
	if in.Has("agents") || in.Has("strategies") {
		given = "of the account" // perhaps
	}
	agents, strategies, err := r.agents.filterNames(c.r.Context(), &c.principal, given)
	if err != nil {
		c.faults.Fail(err)
	}
	f.Assets, _ = in.Texts("assets", signal.MaxFilterAssets, "must be a list of assets",
		func(item string) (code, detail string) { return checkFilterAsset(c, r.assets, item) })
	f.Agents = readKnown(in, "agents", agents)
	f.Strategies = readKnown(in, "strategies", strategies)
	f.Directions = readKnown(in, "directions", signal.Directions)
	if x, ok := in.Number("min_confidence", 0, 1); ok {
		f.MinConfidence = &x
	}
	if x, ok := in.Number("min_expected_r_net", -signal.MaxFilterR, signal.MaxFilterR); ok {
		f.MinExpectedRNet = &x
	}
	in.Close()
	return f
}

// readKnown reads a list of some of known, each at most once.
func readKnown[T ~string](o *request.Object, name string, known []T) []T {
	var list []T
	o.Texts(name, len(known), request.SomeOf(known), func(item string) (code, detail string) {
		switch {
		case !slices.Contains(known, T(item)):
			return request.CodeInvalidValue, request.OneOf(known)
		case slices.Contains(list, T(item)):
			return request.CodeDuplicate, "is given more than once"
		}
		list = append(list, T(item))
		return "", ""
	})
	return list
}

// filterView is the filter of a webhook. An empty list, and a number that is null, accept all.
type filterView struct {
	Assets          []string           `json:"assets"`
	Agents          []signal.AgentID   `json:"agents"`
	Strategies      []string           `json:"strategies"`
	Directions      []signal.Direction `json:"directions"`
	MinConfidence   *float64           `json:"min_confidence"`
	MinExpectedRNet *float64           `json:"min_expected_r_net"`
}

func viewFilter(f *signal.Filter) *filterView {
	if f == nil {
		return nil
	}
	return &filterView{list(f.Assets), list(f.Agents), list(f.Strategies), list(f.Directions), f.MinConfidence,
		f.MinExpectedRNet}
}
