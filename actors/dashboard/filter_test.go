package dashboard

import (
	"context"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// strategyEvent returns an event of a signal whose confidence is now, and was first at the
// creation, with an expected R of expected then.
func strategyEvent(t signal.EventType, strategy string, first, now, expected float64) signal.Event {
	return signal.Event{
		ID:      signal.NewEventID(),
		Account: alice,
		Type:    t,
		Asset:   "BTC",
		Listing: &signal.Listing{Agent: "trading", Strategy: strategy, Direction: signal.Long, Confidence: now},
		Initial: &signal.Initial{Confidence: first, ExpectedRNet: &expected},
		Data:    []byte(`{"strategy":"` + strategy + `"}`),
	}
}

// TestFiltersByValuesAtCreation: all events of a signal pass or none, whatever its confidence is now.
func TestFiltersByValuesAtCreation(t *testing.T) {
	t.Parallel()
	const all = `"channels":["signal.new","signal.updated","signal.closed","agent.status"]`
	const breakout = 2
	tests := map[string]struct {
		filters string
		want    []int // indexes of the signals below, whose three events are expected
	}{
		"agents":           {`{"agents":["trading"]}`, []int{0, 1, breakout}},
		"other agent":      {`{"agents":["seo","weather"]}`, nil},
		"strategies":       {`{"strategies":["breakout","sentiment"]}`, []int{breakout}},
		"directions":       {`{"directions":["long"]}`, []int{0, 1, breakout}},
		"other direction":  {`{"directions":["short"]}`, nil},
		"least confidence": {`{"min_confidence":0.45}`, []int{1}},
		"least expected R": {`{"min_expected_r_net":0.1}`, []int{0, breakout}},
		"all of them": {`{"assets":["btc"],"min_confidence":0.4,"min_expected_r_net":0.1,"strategies":["momentum"]}`,
			[]int{0}},
		"other asset": {`{"assets":["eth"],"min_confidence":0.1}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newClient(t, nil)
			c.ask(`{"action":"subscribe",`+all+`,"filters":`+test.filters+`}`, "subscribed")
			var want []signal.Position
			for i, x := range []struct {
				strategy             string
				first, now, expected float64
			}{
				{"momentum", .40, .90, .1},
				{"momentum", .45, .10, -.2},
				{"breakout", .44, .95, .3},
			} {
				var at []signal.Position
				for _, kind := range []signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed} {
					at = append(at, s.journal.append(strategyEvent(kind, x.strategy, x.first, x.now, x.expected))...)
				}
				for _, w := range test.want {
					if w == i {
						want = append(want, at...)
					}
				}
			}
			end := s.journal.append(statusEvent())
			for i := range want {
				kinds := []string{"signal.new", "signal.updated", "signal.closed"}
				c.wantEvents(kinds[i%3], want[i])
			}
			c.wantEvents("agent.status", end...) // which no filter concerns
		})
	}
}

func statusEvent() signal.Event {
	return signal.Event{ID: signal.NewEventID(), Account: alice, Type: signal.AgentStarted, Agent: "trading", Run: "r"}
}

// TestResumeIsFiltered: a replay has what the filter passes.
func TestResumeIsFiltered(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	at := s.journal.append(statusEvent(),
		strategyEvent(signal.SignalCreated, "momentum", .4, .4, .1),
		strategyEvent(signal.SignalCreated, "breakout", .4, .4, .1))
	c.want("agent.status")
	c.want("signal.new")
	c.want("signal.new")
	d := s.welcomed(principalOf(alice))
	d.ask(`{"action":"subscribe","filters":{"strategies":["breakout"]},"last_event_id":"`+at[0].String()+`"}`,
		"subscribed")
	d.wantEvents("signal.new", at[2])
}

// A filter of nothing is silent, so a misspelt asset is refused, and the subscription stays as it was.
func TestMisspeltAssetsAreRefused(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 8)
	suggest := func(_ context.Context, account signal.AccountID, _ *signal.View, name string) []string {
		asked <- name
		switch {
		case account == alice && name == "BTCC":
			return []string{"BTC", "BTH"}
		case name == "panic":
			panic("at a name")
		}
		return nil
	}
	s := newService(t, func(o *Options) { o.SuggestAssets = suggest })
	c := s.welcomed(principalOf(alice))
	c.wantReply(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["desk","BTCC"]},"ref":"a"}`, "error",
		`{"ref":"a","code":"invalid_filter","message":"neither an asset nor a signal of the account `+
			`has the name \"BTCC\": did you mean BTC or BTH? GET /v1/assets lists all"}`)
	c.ask(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["desk","ETH"]}}`, "subscribed")
	// Messages behind a check are handled after it, in order.
	c.send(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTCC"]}}`)
	c.wantReply(`{"action":"ping"}`, "error", `{"ref":null,"code":"invalid_filter","message":"neither `+
		`an asset nor a signal of the account has the name \"BTCC\": did you mean BTC or BTH? GET /v1/assets lists all"}`)
	c.want("pong")
	s.journal.append(created(alice, "BTC"), created(alice, "ETH"))
	c.wantPart(c.want("signal.new"), `"ETH"`)
	for _, want := range []string{"desk", "BTCC", "desk", "ETH", "BTCC"} {
		if got := <-asked; got != want {
			t.Errorf("%q is checked, want %q", got, want)
		}
	}
	s.welcomed(principalOf(alice)).wantCloseAfter(`{"action":"subscribe","filters":{"assets":["panic"]}}`, closeInternal)
}

// TestEqualFiltersShareACohort: the order of a filter's values does not matter.
func TestEqualFiltersShareACohort(t *testing.T) {
	t.Parallel()
	sub := func(f signal.Filter) *subscription { return filtered(defaultChannels, f.Assets, &f) }
	a := newAudience(alice, 0, nil)
	base := a.cohort(sub(signal.Filter{Strategies: []string{"breakout", "momentum"}, MinConfidence: new(.4)}), webSocket)
	if a.cohort(sub(signal.Filter{Strategies: []string{"momentum", "breakout"}, MinConfidence: new(.4)}), webSocket) != base {
		t.Error("an equal filter has another cohort")
	}
	for name, f := range map[string]signal.Filter{
		"none":       {},
		"confidence": {Strategies: []string{"breakout", "momentum"}, MinConfidence: new(.5)},
		"expected R": {Strategies: []string{"breakout", "momentum"}, MinExpectedRNet: new(.4)},
		"more":       {Strategies: []string{"breakout"}, MinConfidence: new(.4)},
		"direction": {Strategies: []string{"breakout", "momentum"}, MinConfidence: new(.4),
			Directions: []signal.Direction{signal.Long}},
		"asset":          {Assets: []string{"BTC"}, Strategies: []string{"breakout", "momentum"}, MinConfidence: new(.4)},
		"agents instead": {Agents: []signal.AgentID{"breakout", "momentum"}, MinConfidence: new(.4)},
	} {
		if a.cohort(sub(f), webSocket) == base {
			t.Errorf("%s: another filter has the same cohort", name)
		}
	}
}

// TestEventsOfOlderVersions: without initial values the confidence is that of the listing, and
// no expected R is known.
func TestEventsOfOlderVersions(t *testing.T) {
	t.Parallel()
	e := strategyEvent(signal.SignalCreated, "momentum", .1, .4, 1)
	e.Initial = nil
	traits := e.Traits()
	for name, test := range map[string]struct {
		f    signal.Filter
		want bool
	}{
		"confidence":       {signal.Filter{MinConfidence: new(.4)}, true},
		"too low":          {signal.Filter{MinConfidence: new(.41)}, false},
		"any expected R":   {signal.Filter{MinExpectedRNet: new(-100.0)}, false},
		"without a filter": {signal.Filter{}, true},
	} {
		if got := test.f.Passes(&traits); got != test.want {
			t.Errorf("%s: passes is %v", name, got)
		}
	}
}
