package scorecard

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// own makes a signal one of an account's agent.
func own(name, metadata string) func(*signal.Signal) {
	return func(s *signal.Signal) {
		s.Agent, s.Strategy, s.Reach = "my_agent", name, &signal.Reach{Stop: 2, Bars: 24}
		s.Metadata = json.RawMessage(metadata)
	}
}

// TestStrategiesByHand compares the row of a strategy with figures computed by hand, with costs of 0.1 % per side.
func TestStrategiesByHand(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	r.add("acc_1", 0, nil, 101.5) // of a built-in agent
	r.add("acc_1", 1, own("cross", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24,"claimed_confidence":0.9}`), 101.5)
	r.add("acc_1", 2, own("cross", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24,"claimed_confidence":0.9}`), 99)
	r.add("acc_1", 3, own("cross", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24,"claimed_confidence":0.2}`), 99)
	r.add("acc_1", 4, own("cross", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24}`), 99.5) // its agent leaves
	exit := r.list[len(r.list)-1]
	exit.Closing.Reason, exit.Metadata = signal.AgentExit, []byte(`{"life_left":0.5}`)
	r.add("acc_1", 5, own("cross", `{"base_probability":null}`), 99) // without a trial
	r.add("acc_1", 6, own("alpha", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24}`), 101.5)
	r.add("acc_1", 7, own("none", `{"base_probability":0.4,"atr":0.5,"horizon_bars":24}`), 0) // open
	c := New(r, Options{Now: clock, Cost: func(string) float64 { return .001 }})
	got, err := c.Card(t.Context(), Query{Account: "acc_1"})
	if err != nil || len(got.Strategies) != 2 || got.Strategies[0].Strategy != "alpha" || got.Strategies[1].Strategy != "cross" {
		t.Fatalf("%+v, %v", got.Strategies, err)
	}
	row := got.Strategies[1]
	left, ok := strategy.ClosedSignal{Base: .4, Direction: signal.Long,
		Levels: signal.Levels{Entry: 100, Stop: 99, Target: 101.5},
		Reach:  strategy.Reach{Stop: 2, Target: 3, Bars: 24}, Reason: signal.AgentExit, Exit: 99.5, Left: .5}.Trial()
	if !ok || left.Won < .1 || left.Won > .4 {
		t.Fatalf("%+v", left)
	}
	y, confidence, none := left.Won, .45, backtest.Figure(math.NaN())
	cost := (.2015 + 3*.199 + .1995) / 5
	want := Strategy{Agent: "my_agent", Strategy: "cross", Count: 5, Wins: 1, HitRate: .2,
		HitRateInterval: backtest.Wilson(1, 5), BreakEven: .875 / 2.375, BreakEvenNet: backtest.Figure((.875 + cost) / 2.375),
		MeanR: -2. / 5, ExpectancyR: backtest.Figure(-2./5 - cost), SkillSample: 4,
		Brier: backtest.Figure((.55*.55 + 2*.45*.45 + y*(1-confidence)*(1-confidence) + (1-y)*confidence*confidence) / 4),
		Skill: none, SkillInterval: backtest.Interval{Low: none, High: none},
		Claimed: Claimed{Count: 3, Brier: (.1*.1 + .9*.9 + .2*.2) / 3, Ranges: row.Claimed.Ranges}}
	if d := cmp.Diff(text(t, want), text(t, row)); d != "" {
		t.Errorf("row (-want +got):\n%s", d)
	}
	ranges := map[int]string{2: `{"from":0.2,"to":0.3,"count":1,"mean_claimed":0.2,"mean_outcome":0}`,
		9: `{"from":0.9,"to":1,"count":2,"mean_claimed":0.9,"mean_outcome":0.5}`}
	for i, x := range row.Claimed.Ranges {
		want := ranges[i]
		if want == "" {
			want = fmt.Sprintf(`{"from":%v,"to":%v,"count":0,"mean_claimed":null,"mean_outcome":null}`,
				text(t, x.From), text(t, x.To))
		}
		if text(t, x) != want {
			t.Errorf("range %d is %s, want %s", i, text(t, x), want)
		}
	}
	for query, n := range map[Query]int{{Agent: "trading"}: 0, {Strategy: "alpha"}: 1, {Asset: "ETH"}: 0,
		{Since: morning.Add(4 * time.Minute)}: 2, {Agent: "my_agent", Timeframe: signal.H1}: 2} {
		query.Account = "acc_1"
		if got, err := c.Card(t.Context(), query); err != nil || len(got.Strategies) != n || got.Strategies == nil {
			t.Errorf("%+v: %+v, %v", query, got.Strategies, err)
		}
	}
}

// TestSkillOfAStrategy is that of its newest signals, from 20 on.
func TestSkillOfAStrategy(t *testing.T) {
	t.Parallel()
	r, random := &fakeRecords{}, rand.New(rand.NewPCG(8, 3))
	c := New(r, Options{Now: func() time.Time { return morning.Add(30 * 24 * time.Hour) }})
	var trials []strategy.Trial
	for i := range strategy.MaxTrials + 50 {
		won := random.IntN(3) > 0
		base := math.Round(1e4*(.3+.4*random.Float64())) / 1e4
		r.add("acc_1", 7*i, own("cross", fmt.Sprintf(`{"base_probability":%v,"atr":1,"horizon_bars":24}`, base)), // in order
			map[bool]float64{true: 101.5, false: 99}[won])
		trial := strategy.Trial{Base: base}
		if won {
			trial.Won = 1
		}
		trials = append(trials, trial)
		if i != 18 && i != 19 && i != strategy.MaxTrials+49 {
			continue
		}
		got, err := c.Card(t.Context(), Query{Account: "acc_1"})
		if err != nil {
			t.Fatal(err)
		}
		want, row := strategy.SkillOf(trials), got.Strategies[0]
		if i == 18 {
			if !math.IsNaN(float64(row.Skill)) || row.SkillSample != 19 {
				t.Errorf("of 19: %+v", row)
			}
			continue
		}
		if float64(row.Skill) != want.Estimate || float64(row.SkillInterval.Low) != want.Low ||
			float64(row.SkillInterval.High) != want.High || row.SkillSample != want.N || row.Count != i+1 {
			t.Errorf("of %d: %+v, want %+v", i+1, row, want)
		}
	}
}

// TestTextsThatTheirAgentEnded: the summary counts them as what they are.
func TestTextsThatTheirAgentEnded(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	for i, reason := range []signal.CloseReason{signal.AgentExit, signal.Expired, signal.AgentExit} {
		id := signal.SignalID(fmt.Sprint("sig_text_", i))
		r.list = append(r.list,
			&signal.Signal{ID: id, Account: "acc_1", Agent: "my_texts", CreatedAt: morning.Add(time.Duration(i) * time.Hour)},
			&signal.Signal{ID: id, Account: "acc_1", Closing: &signal.Closing{Reason: reason, At: morning}})
	}
	now := clock()
	c := New(r, Options{Now: func() time.Time { return now }, Retention: 48 * time.Hour})
	for _, want := range []int{2, 1, 0} {
		s, err := c.Summary(t.Context(), "acc_1", nil, morning)
		if err != nil || s.Reasons["my_texts"] != (backtest.Reasons{AgentExit: want}) || s.Closed != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		now = now.Add(24*time.Hour + time.Minute + time.Hour*time.Duration(2-want))
	}
}
