package webhooks

import (
	"slices"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// byDelivery groups requests by the delivery that they attempt, in their order. The
// attempts of one must be of one event and have one body.
func byDelivery(tb testing.TB, all []e2e.HookRequest) map[string][]e2e.HookRequest {
	tb.Helper()
	groups := map[string][]e2e.HookRequest{}
	for _, a := range all {
		id := a.Delivery()
		if before := groups[id]; len(before) > 0 && (before[0].Body != a.Body || before[0].Event() != a.Event()) {
			tb.Errorf("delivery %s is first %s, then %s", id, before[0].Body, a.Body)
		}
		groups[id] = append(groups[id], a)
	}
	return groups
}

// kinds returns the types of events of requests, sorted.
func kinds(all []e2e.HookRequest) []string {
	var list []string
	for _, a := range all {
		list = append(list, a.Kind())
	}
	slices.Sort(list)
	return list
}

// textOf returns a text, or "" for null.
func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
