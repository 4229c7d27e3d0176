package scorecard

import (
	"context"
	"sort"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Summary counts the closed signals with prices of an account.
type Summary struct {
	Reasons map[signal.AgentID]backtest.Reasons // of all
	// Of those closed since a time: their number, how many were in profit before costs, and the
	// sums of their results before and after costs.
	Closed, Wins int
	R, RNet      backtest.Figure
}

// Summary returns the summary of an account, including all signals that were closed before the
// call. since bounds Closed, inclusive, and what follows it. The error is that of Records.
func (c *Scorecards) Summary(ctx context.Context, id signal.AccountID, since time.Time) (s Summary, err error) {
	err = c.current(ctx, id, func(a *account) { s = a.summary(since.UnixMilli()) })
	return s, err
}

func (a *account) summary(since int64) Summary {
	s := Summary{Reasons: map[signal.AgentID]backtest.Reasons{}}
	for i := range a.closed {
		agent := a.groups[a.closed[i].group].agent
		r := s.Reasons[agent]
		r.Add(a.closed[i].Reason)
		s.Reasons[agent] = r
	}
	first := sort.Search(len(a.closed), func(i int) bool { return a.closed[i].At >= since }) // by their end
	for _, e := range a.closed[first:] {
		s.Closed++
		if e.R > 0 {
			s.Wins++
		}
		s.R += backtest.Figure(e.R)
		s.RNet += backtest.Figure(e.R - e.Cost)
	}
	return s
}
