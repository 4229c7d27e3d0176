package http_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

func TestHistoryOfASignal(t *testing.T) {
	t.Parallel()
	const (
		created = `{"type":"created","at":"2026-11-21T09:30:00.000Z","confidence":0.4372,"price":%s}`
		one     = `{"type":"updated","at":"2026-11-21T09:31:00.000Z","confidence":0.5,"price":101.125}`
		two     = `{"type":"updated","at":"2026-11-21T09:32:00.000Z","confidence":0.25,"price":null}`
		closed  = `{"type":"closed","at":"2026-11-21T09:40:00.000Z","confidence":0.25,"price":%s}`
	)
	exit := 66275.125
	closing := func(price *float64) *signal.Closing {
		return &signal.Closing{Reason: signal.TakeProfit, At: morning.Add(10 * time.Minute), ExitPrice: price}
	}
	updates := []signal.Update{{At: morning.Add(time.Minute), Confidence: .5, Price: 101.125},
		{At: morning.Add(2 * time.Minute), Confidence: .25}}
	for name, test := range map[string]struct {
		change func(s *signal.Signal)
		want   string
	}{
		"new":     {func(*signal.Signal) {}, fmt.Sprintf(created, "100")},
		"updated": {func(s *signal.Signal) { s.Updates = updates }, fmt.Sprintf(created, "100") + "," + one + "," + two},
		"updated and closed": {
			func(s *signal.Signal) { s.Updates, s.Closing = updates, closing(&exit) },
			fmt.Sprintf(created, "100") + "," + one + "," + two + "," + fmt.Sprintf(closed, "66275.125"),
		},
		"without prices": {
			func(s *signal.Signal) { s.Levels, s.Closing = nil, closing(nil) },
			fmt.Sprintf(created, "null") + "," + fmt.Sprintf(closed, "null"),
		},
	} {
		f := &fakes{record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
			s := newSignal()
			s.CreatedAt, s.FirstConfidence, s.Confidence, s.Sequence = morning, .43724, .25, 1
			s.Levels = &signal.Levels{Entry: 100, Stop: 90, Target: 115}
			test.change(s)
			return s, nil
		}}
		a := do(t, newServer(t, f), "GET", "/v1/signals/"+string(signalID)+"/history", "")
		if want := `{"events":[` + test.want + `]}`; a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %s\nwant %s", name, a.Status, a.Body, want)
		}
	}
}

// TestHistoryOfOthers: it is refused as GET /v1/signals/{id} is.
func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	f := &fakes{find: func(signal.AccountID, signal.SignalID) (created, closed signal.Position, err error) {
		return created, closed, signal.NotFound("signal")
	}}
	s := newServer(t, f)
	for _, id := range []string{string(signalID), "nosuch", "acc_01M7YQ1WTVKN9DZNWV9NV456V1"} {
		path := "/v1/signals/" + id
		a, b := do(t, s, "GET", path, ""), do(t, s, "GET", path+"/history", "")
		if a.Status != 404 || b.Status != 404 || a.problem(t).Detail != b.problem(t).Detail {
			t.Errorf("%s: %d %s, and %d %s", id, a.Status, a.Body, b.Status, b.Body)
		}
	}
}
