package dashboard

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Subscription is one that a handshake asks for: its connection begins with it.
type Subscription struct{ message message }

// SubscriptionParams are the parameters of a handshake's query that make a Subscription. They have
// the names of the members of a subscribe message and of its filters.
var SubscriptionParams = slices.Concat([]string{"channels", "last_event_id"}, filterNames)

// ReadSubscription returns the subscription in the query of a handshake, or nil if none of
// SubscriptionParams is given. value returns a parameter, and whether it is given. A fault, which
// is that of a subscribe message with the same values, is passed to bad with its parameter; then
// the subscription must not be used.
func (h *Hub) ReadSubscription(
	account signal.AccountID, value func(name string) (string, bool), bad func(name, detail string),
) *Subscription {
	m := message{action: actionSubscribe}
	given := false
	for _, name := range SubscriptionParams {
		text, ok := value(name)
		given = given || ok
		if !ok || text == "" && name != "channels" {
			continue
		}
		if f := m.decodeParam(name, text); f != nil {
			bad(name, strings.ReplaceAll(f.message, "filters.", ""))
		}
	}
	if !given {
		return nil
	}
	if f := m.check(); f != nil {
		bad("assets", strings.ReplaceAll(f.message, "filters.", ""))
	}
	return &Subscription{m}
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
