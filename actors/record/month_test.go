package record

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestClosingsAreSummed(t *testing.T) {
	t.Parallel()
	m := &verify.Month{Account: "a", Created: 9, Closed: 9, Month: "2026-11"}
	long, short := &signal.Levels{Entry: 100, Stop: 98, Target: 103}, &signal.Levels{Entry: 100, Stop: 104, Target: 90}
	for _, c := range []struct {
		agent  signal.AgentID
		levels *signal.Levels
		exit   float64
	}{{"b", long, 103}, {"b", short, 104}, {"a", short, 96}, {"b", nil, 0}, {"b", long, 0}, {"b", long, 100},
		{"", long, 101}, {"b", &signal.Levels{Entry: 1, Stop: 1}, 2}, {"b", &signal.Levels{Entry: math.Inf(1), Stop: 1}, 2}} {
		s := &signal.Signal{Agent: c.agent, Levels: c.levels, Closing: &signal.Closing{}}
		if c.exit > 0 {
			s.Closing.ExitPrice = &c.exit
		}
		AddClosing(m, s, .001)
	}
	want := []verify.AgentSum{
		{Agent: "*", Closed: 1, Priced: 1, Won: 1, Gains: .5, Costs: .1005, Targets: 1.5},
		{Agent: "a", Closed: 1, Priced: 1, Won: 1, Gains: 1, Costs: .049, Targets: 2.5},
		{Agent: "b", Closed: 7, Priced: 4, Won: 1, Gains: 1.5, Losses: 1, Costs: .2525, Targets: 5.5},
	}
	if !slices.Equal(m.Agents, want) {
		t.Errorf("sums\n%+v, want\n%+v", m.Agents, want)
	}
	if again, err := verify.ParseMonth(m.Text()); err != nil || again.Text() != m.Text() {
		t.Errorf("%s reads as %+v, %v", m.Text(), again, err)
	}
}

// A month names so many agents, and no closing of another is left out.
func TestAMonthHasABoundedText(t *testing.T) {
	t.Parallel()
	m := &verify.Month{Account: "a", Created: 2000, Closed: 2000, Month: "2026-11"}
	for i := range 2000 {
		AddClosing(m, &signal.Signal{Agent: signal.AgentID(fmt.Sprintf("agent_%d", i)), Closing: &signal.Closing{}}, 0)
	}
	if len(m.Agents) != maxAgentSums+1 || m.Agents[0].Agent != "*" || m.Sum().Closed != 2000 {
		t.Errorf("%d agents, the first %+v, with %d closings", len(m.Agents), m.Agents[0], m.Sum().Closed)
	}
}
