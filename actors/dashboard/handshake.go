package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// Subscription is one that a handshake asks for: its connection begins with it.
type Subscription struct{ message message }

// SubscriptionParams are the parameters of a handshake's query that make a Subscription. They have
// the names of the members of a subscribe message and of its filters.
var SubscriptionParams = slices.Concat([]string{"channels", "last_event_id"}, filterNames)

// ReadSubscription returns the subscription in the query of a handshake of a client that sees v, or nil if none of
// SubscriptionParams is given. value returns a parameter, and whether it is given. A fault, which
// is that of a subscribe message with the same values, is passed to bad with its parameter; then
// the subscription must not be used.
func ReadSubscription(
	v *signal.View, value func(name string) (string, bool), bad func(name, detail string),
) *Subscription {
	m := message{action: actionSubscribe, view: v}
	given := false
	for _, name := range SubscriptionParams {
		text, ok := value(name)
		given = given || ok
		if !ok || text == "" && name != "channels" {
			continue
		}
		if f := m.decodeParam(name, text); f != nil {
			bad(name, asParameter(f))
		}
	}
	if !given {
		return nil
	}
	if f := m.check(); f != nil {
		bad("assets", asParameter(f))
	}
	return &Subscription{m}
}

// Refusal returns why a connection of p must not begin with s, and the parameter whose fault that is, or "".
func (h *Hub) Refusal(ctx context.Context, p *signal.Principal, s *Subscription) (name, detail string) {
	f := h.unknown(ctx, p, &s.message.filter)
	if f == nil && !h.names.fit(namerOf(p), h.subscription(nil, &s.message.filter, p.View)) {
		f = h.tooManyAssets()
	}
	if f == nil {
		return "", ""
	}
	return cmp.Or(f.filter, "assets"), asParameter(f)
}

// asParameter returns the message of a fault for the parameters of a query.
func asParameter(f *fault) string { return strings.ReplaceAll(f.message, "filters.", "") }

// suggestLimit bounds the check of the assets of one filter.
const suggestLimit = 5 * time.Second

// unknown returns the fault of the first name in a filter that looks misspelt, or that no agent which p sees has, or nil.
func (h *Hub) unknown(ctx context.Context, p *signal.Principal, f *signal.Filter) *fault {
	ctx, cancel := context.WithTimeout(ctx, suggestLimit)
	defer cancel()
	agents, strategies := servicesNames(p.View)
	if namesOthers(f, p.View) && h.o.AgentNames != nil {
		own, names, err := h.o.AgentNames(ctx, p.Account, p.View)
		if err != nil {
			return faultf(codeInvalidFilter, "the agents of the account cannot be read at the moment: try again")
		}
		agents, strategies = append(agents, own...), append(strategies, names...)
	}
	for _, name := range f.Agents {
		if !slices.Contains(agents, name) {
			f := unknownName(codeInvalidFilter, "value of agents", string(name), texts(agents))
			f.filter = "agents"
			return f
		}
	}
	for _, name := range f.Strategies {
		if !slices.Contains(strategies, name) {
			f := unknownName(codeInvalidFilter, "value of strategies", name, strategies)
			f.filter = "strategies"
			return f
		}
	}
	return h.misspelt(ctx, p, f.Assets)
}

// servicesNames returns the agents of the service and their strategies, as far as the view v has them.
func servicesNames(v *signal.View) (agents []signal.AgentID, strategies []string) {
	for _, a := range signal.Agents() {
		if seen, ok := v.Agent(a); ok {
			agents, strategies = append(agents, seen.ID), append(strategies, seen.Strategies...)
		}
	}
	return agents, strategies
}

// namesOthers reports whether a filter names an agent or a strategy that the service does not have in the view v.
func namesOthers(f *signal.Filter, v *signal.View) bool {
	if len(f.Agents)+len(f.Strategies) == 0 {
		return false
	}
	agents, strategies := servicesNames(v)
	return slices.ContainsFunc(f.Agents, func(id signal.AgentID) bool { return !slices.Contains(agents, id) }) ||
		slices.ContainsFunc(f.Strategies, func(name string) bool { return !slices.Contains(strategies, name) })
}

// misspelt returns the fault of the first of the names that looks misspelt, or nil.
func (h *Hub) misspelt(ctx context.Context, p *signal.Principal, names []string) *fault {
	if h.o.SuggestAssets == nil {
		return nil
	}
	for _, name := range names {
		if near := h.o.SuggestAssets(ctx, p.Account, p.View, name); len(near) > 0 {
			return faultf(codeInvalidFilter, "neither an asset nor a signal of the account has the name %q: %s "+
				"GET /v1/assets lists all", spelling.Shorten(name), spelling.DidYouMean(near))
		}
	}
	return nil
}

func (h *Hub) tooManyAssets() *fault {
	return faultf(codeInvalidFilter, "the filters of this account's connections to this node may name %d assets "+
		"together: name fewer, or none to get all, and close connections that are not needed", h.o.MaxAssets)
}

// subscription returns the subscription to list of the signals that pass filter, of a client that sees v. Assets are
// compared both as spelled and by their catalogue names: the spelling itself may be a subject
// of content.
func (h *Hub) subscription(list []channel, filter *signal.Filter, v *signal.View) *subscription {
	all := slices.Clone(filter.Assets)
	if h.o.Name != nil {
		for _, asset := range filter.Assets {
			all = append(all, h.o.Name(asset))
		}
	}
	return filtered(list, all, filter).with(list, v)
}

// decodeParam reads a parameter of SubscriptionParams as the member of that name. A list has commas
// between its items.
func (m *message) decodeParam(name, text string) *fault {
	switch name {
	case "last_event_id":
		return m.decodeSubscribe(name, quoted(text))
	case "channels":
		return m.decodeSubscribe(name, list(text))
	case "min_confidence", "min_expected_r_net":
		if jsonobject.IsNumber(text) {
			return m.decodeFilter(name, []byte(text))
		}
		return m.decodeFilter(name, quoted(text))
	}
	return m.decodeFilter(name, list(text))
}

// quoted returns text as JSON.
func quoted(text string) []byte {
	b, _ := json.Marshal(text) // a string has no error
	return b
}

// list returns the items of a list with commas as JSON; an empty text has none.
func list(text string) []byte {
	items := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if text != "" {
			items = append(items, strings.TrimSpace(item))
		}
	}
	b, _ := json.Marshal(items) // strings have no error
	return b
}
