package scorecard

import (
	"context"
	"sort"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Summary counts the closed signals with prices of a view of an account.
type Summary struct {
	// Reasons are those of all by agent. AgentExit also counts signals without prices.
	Reasons map[signal.AgentID]backtest.Reasons
	// Of those closed since a time: their number, how many were in profit before costs, and the
	// sums of their results before and after costs.
	Closed, Wins int
	R, RNet      backtest.Figure
}

// Summary returns the summary of a view of an account, including all signals that were closed before the
// call. since bounds Closed, inclusive, and what follows it. The error is that of Records.
func (c *Scorecards) Summary(
	ctx context.Context, id signal.AccountID, view *signal.View, since time.Time,
) (s Summary, err error) {
	err = c.current(ctx, id, func(a *account) { s = a.summary(view, since.UnixMilli()) })
	return s, err
}

func (a *account) summary(view *signal.View, since int64) Summary {
	s := Summary{Reasons: map[signal.AgentID]backtest.Reasons{}}
	wanted := a.wanted(&Query{View: view})
	for i := range a.closed {
		if !wanted[a.closed[i].group] {
			continue
		}
		agent := a.groups[a.closed[i].group].agent
		r := s.Reasons[agent]
		r.Add(a.closed[i].Reason)
		s.Reasons[agent] = r
	}
	for _, t := range a.exits {
		if !view.Sees(t.agent, t.asset, t.strategy) {
			continue
		}
		r := s.Reasons[t.agent]
		r.AgentExit++
		s.Reasons[t.agent] = r
	}
	first := sort.Search(len(a.closed), func(i int) bool { return a.closed[i].At >= since }) // by their end
	for _, e := range a.closed[first:] {
		if !wanted[e.group] {
			continue
		}
		s.Closed++
		if e.R > 0 {
			s.Wins++
		}
		s.R += backtest.Figure(e.R)
		s.RNet += backtest.Figure(e.R - e.Cost)
	}
	return s
}

// Standing returns how the closed signals of an account did as of a position of its log, with those of some agents by
// themselves. The error is that of Records.
func (c *Scorecards) Standing(
	ctx context.Context, id signal.AccountID, upTo signal.Position, agents []signal.AgentID,
) (s Standing, err error) {
	err = c.current(ctx, id, func(a *account) { s = standingOf(a, packed(upTo), agents) })
	return s, err
}
