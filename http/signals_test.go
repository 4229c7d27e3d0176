package http_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestFullListShowsSignalsWithTheirState, by one read of the catalogue and one of the records.
func TestFullListShowsSignalsWithTheirState(t *testing.T) {
	t.Parallel()
	var got catalogue.Query
	locations := []signal.Location{{ID: signalID, Created: signal.Position{MS: 2}},
		{ID: "sig_2", Created: signal.Position{MS: 1}, Closed: signal.Position{MS: 3}}}
	calls := 0
	f := &fakes{
		locate: func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error) {
			if got = q; before != (signal.Location{}) {
				t.Errorf("before %v", before)
			}
			return locations, 9, nil
		},
		at: func(account signal.AccountID, at []signal.Location) ([]*signal.Signal, error) {
			if calls++; account != accountID || cmp.Diff(locations, at) != "" {
				t.Errorf("read %v of %s", at, account)
			}
			return []*signal.Signal{newSignal(), newSignal()}, nil
		},
		list: func(catalogue.Query) ([]signal.Listing, int, error) {
			t.Error("the list was made, too")
			return nil, 0, nil
		},
	}
	s := newServer(t, f)
	one := do(t, s, "GET", "/v1/signals/"+string(signalID), "").Body
	a := do(t, s, "GET", "/v1/signals?view=full&asset=btc&strategy=momentum&direction=short&min_confidence=0.25"+
		"&limit=2&offset=3&since=2026-11-21T09:30:00Z&status=open&agent_id=trading", "")
	want := `{"signals":[` + one + "," + one + `],"total":9,"limit":2,"offset":3,"has_more":true}`
	if a.Status != 200 || a.Body != want || calls != 1 {
		t.Errorf("got %d %s\nwant %s\n%d reads", a.Status, a.Body, want, calls)
	}
	wantQuery := catalogue.Query{Account: accountID, Asset: "btc", Strategy: "momentum", Agent: "trading",
		Direction: signal.Short, Status: signal.Open, MinConfidence: 0.25, Since: morning, Limit: 2, Offset: 3}
	if d := cmp.Diff(wantQuery, got); d != "" {
		t.Errorf("query (-want +got):\n%s", d)
	}
}

func TestViewsOfTheList(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	plain := do(t, s, "GET", "/v1/signals", "").Body
	if a := do(t, s, "GET", "/v1/signals?view=", ""); a.Status != 200 || a.Body != plain {
		t.Errorf("an empty view: %d %s", a.Status, a.Body)
	}
	for _, value := range []string{"Full", "list", "1"} {
		a := do(t, s, "GET", "/v1/signals?view="+value, "")
		if d := cmp.Diff([]string{"query view invalid_value"}, a.faults(t)); a.Status != 400 || d != "" {
			t.Errorf("%s: %d %s", value, a.Status, a.Body)
		}
	}
	unavailable := func() error { return signal.Unavailable(nil) }
	for name, f := range map[string]*fakes{
		"catalogue": {locate: func(catalogue.Query, signal.Location) ([]signal.Location, int, error) {
			return nil, 0, unavailable()
		}},
		"records": {at: func(signal.AccountID, []signal.Location) ([]*signal.Signal, error) {
			return nil, unavailable()
		}},
	} {
		if a := do(t, newServer(t, f), "GET", "/v1/signals?view=full", ""); a.Status != 503 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	empty := &fakes{at: func(signal.AccountID, []signal.Location) ([]*signal.Signal, error) { return nil, nil }}
	if a := do(t, newServer(t, empty), "GET", "/v1/signals?view=full", ""); !strings.HasPrefix(a.Body,
		`{"signals":[],`) {
		t.Errorf("empty: %s", a.Body)
	}
}
