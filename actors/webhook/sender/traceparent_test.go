package sender

import (
	"regexp"
	"testing"
)

// All attempts at the deliveries of an event are in one trace, with a parent each.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const event, other = "evt_01M7YQ1X3DTRA4S2456P21NJZ0", "evt_01M7YQ1X3DTRA4S2456P21NJZ1"
	form := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-00$`)
	traces, parents := map[string]int{}, map[string]bool{}
	for _, r := range []Request{
		{Event: event, Delivery: "dlv_1", Attempt: 1}, {Event: event, Delivery: "dlv_1", Attempt: 2},
		{Event: event, Delivery: "dlv_2", Attempt: 1}, {Event: other, Delivery: "dlv_3", Attempt: 1},
		{Event: "no ULID", Delivery: "dlv_4", Attempt: 1},
	} {
		text := string(appendTraceparent(nil, &r))
		found := form.FindStringSubmatch(text)
		if found == nil || string(appendTraceparent(nil, &r)) != text {
			t.Fatalf("%+v has %q", r, text)
		}
		traces[found[1]]++
		parents[found[2]] = true
	}
	if traces["01a1fd70f46dd6144c888535841acbe0"] != 3 || len(traces) != 3 || len(parents) != 5 {
		t.Errorf("traces %v, parents %v", traces, parents)
	}
}
