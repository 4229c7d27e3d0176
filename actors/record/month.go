package record

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// maxAgentSums bounds the agents that a month names; those beyond are summed under otherAgents.
const (
	maxAgentSums = 1000
	otherAgents  = "*"
)

// MonthOf returns the month of a time as leaves name it.
func MonthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// AddClosing adds a closed signal to the sums of a month. Of s it needs Agent, Levels and Closing. cost is that of its asset,
// as a share of the price. Sums have six decimals.
func AddClosing(m *verify.Month, s *signal.Signal, cost float64) {
	a := sumOf(m, string(s.Agent))
	a.Closed++
	l, exit := s.Levels, s.Closing.ExitPrice
	if l == nil || exit == nil || l.Entry == l.Stop {
		return
	}
	direction := signal.Long
	if l.Stop > l.Entry {
		direction = signal.Short
	}
	won := l.R(direction, *exit)
	if a.Priced++; won > 0 {
		a.Won++
	}
	add := func(sum *float64, r float64) {
		if r > 0 && !math.IsInf(r, 0) { // also not of a damaged record
			*sum = math.Round((*sum+r)*1e6) / 1e6
		}
	}
	add(&a.Gains, won)
	add(&a.Losses, -won)
	add(&a.Costs, strategy.CostR(*l, *exit, cost))
	add(&a.Targets, l.R(direction, l.Target))
}

// sumOf returns the sums of an agent in a month, which it adds.
func sumOf(m *verify.Month, agent string) *verify.AgentSum {
	find := func(agent string) (int, bool) {
		return slices.BinarySearchFunc(m.Agents, agent, func(a verify.AgentSum, agent string) int {
			return cmp.Compare(a.Agent, agent)
		})
	}
	i, known := find(agent)
	if !known && (agent == "" || len(m.Agents) >= maxAgentSums) {
		agent = otherAgents
		i, known = find(agent)
	}
	if !known {
		m.Agents = slices.Insert(m.Agents, i, verify.AgentSum{Agent: agent})
	}
	return &m.Agents[i]
}
