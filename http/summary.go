package http

import (
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

type summaryView struct {
	Signals countView   `json:"signals"`
	ByAgent []agentSums `json:"by_agent"`
	Today   todayView   `json:"today"`
}

type countView struct {
	Open   int `json:"open"`
	Closed int `json:"closed"`
}

// agentSums counts the signals of an agent by status, and the closed ones by reason.
type agentSums struct {
	Agent signal.AgentID `json:"agent_id"`
	countView
	backtest.Reasons
}

// todayView has the signals with prices that were closed since midnight UTC.
type todayView struct {
	Closed int             `json:"closed"`
	Hits   int             `json:"hits"` // in profit before costs
	R      backtest.Figure `json:"r"`
	RNet   backtest.Figure `json:"r_net"`
}

// summary answers GET /v1/summary.
func (s *Server) summary(c *call) error {
	ctx, account := c.r.Context(), c.principal.Account
	// The counts are read last, so that they have every signal that the results have.
	results, err := s.o.Scorecards.Summary(ctx, account, s.o.Now().UTC().Truncate(24*time.Hour))
	if err != nil {
		return err
	}
	counts, err := s.o.Catalogue.Counts(ctx, account)
	if err != nil {
		return err
	}
	v := summaryView{Today: todayView{results.Closed, results.Wins, results.R, results.RNet}}
	for _, id := range s.agentIDs() {
		sums := agentSums{Agent: id, countView: countView(counts[id]), Reasons: results.Reasons[id]}
		// What has no prices closes by expiry only, and is not among the results.
		sums.Expired = max(0, sums.Closed-sums.TakeProfit-sums.StopLoss)
		v.Signals.Open += sums.Open
		v.Signals.Closed += sums.Closed
		v.ByAgent = append(v.ByAgent, sums)
	}
	return c.value(http.StatusOK, v)
}
