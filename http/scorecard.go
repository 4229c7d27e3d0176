package http

import (
	"context"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Scorecards summarizes closed signals. See scorecard.Scorecards.
type Scorecards interface {
	Card(ctx context.Context, q scorecard.Query) (scorecard.Card, error)
	// Summary summarizes all closed signals of a view, and those that were closed since a time.
	Summary(ctx context.Context, account signal.AccountID, view *signal.View, since time.Time) (scorecard.Summary, error)
}

// Counts counts and names the signals of accounts. See catalogue.Catalogue.
type Counts interface {
	AssetSuggester
	// Counts returns the number of listed signals of a view by agent.
	Counts(ctx context.Context, account signal.AccountID, view *signal.View) (map[signal.AgentID]catalogue.Count, error)
}

// ScorecardHandlers answer for how signals did.
type ScorecardHandlers struct {
	cards  Scorecards
	counts Counts
	agents *AgentCatalogue
	now    func() time.Time
}

// NewScorecardHandlers returns the handlers of scorecards.
func NewScorecardHandlers(cards Scorecards, counts Counts, agents *AgentCatalogue, now func() time.Time) *ScorecardHandlers {
	return &ScorecardHandlers{cards, counts, agents, now}
}

// Routes implements Resource.
func (h *ScorecardHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/scorecard", methods{"GET": seen(get(signal.SignalsRead, h.card,
			"agent_id", "strategy", "asset", "timeframe", "since"))}),
		route("/v1/summary", methods{"GET": seen(get(signal.SignalsRead, h.summary))}),
	}
}

// card answers GET /v1/scorecard.
func (h *ScorecardHandlers) card(c *call) error {
	q := c.query
	agents, strategies, err := h.agents.filterNames(c.r.Context(), &c.principal, q.Get("agent_id"), q.Get("strategy"))
	if err != nil {
		return err
	}
	wanted := scorecard.Query{
		Account:   c.principal.Account,
		View:      c.principal.View,
		Agent:     request.Option(q, "agent_id", agents),
		Strategy:  request.Option(q, "strategy", strategies),
		Asset:     filterAsset(c, h.counts),
		Timeframe: request.Option(q, "timeframe", signal.Timeframes),
		Since:     q.Since(),
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	card, err := h.cards.Card(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, cardView{c.principal.View, card})
}

// cardView is a scorecard. That of a reader names its view, of which all of it is.
type cardView struct {
	View *signal.View `json:"view,omitempty"`
	scorecard.Card
}

type summaryView struct {
	View    *signal.View `json:"view,omitempty"` // of a reader
	Signals countView    `json:"signals"`
	ByAgent []agentSums  `json:"by_agent"`
	Today   todayView    `json:"today"`
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
func (h *ScorecardHandlers) summary(c *call) error {
	ctx, p := c.r.Context(), &c.principal
	// The counts are read last, so that they have every signal that the results have.
	results, err := h.cards.Summary(ctx, p.Account, p.View, h.now().UTC().Truncate(24*time.Hour))
	if err != nil {
		return err
	}
	counts, err := h.counts.Counts(ctx, p.Account, p.View)
	if err != nil {
		return err
	}
	v := summaryView{View: p.View, ByAgent: []agentSums{},
		Today: todayView{results.Closed, results.Wins, results.R, results.RNet}}
	agents, err := h.agents.list(ctx, p)
	if err != nil {
		return err
	}
	for _, id := range agentIDs(agents) {
		sums := agentSums{Agent: id, countView: countView(counts[id]), Reasons: results.Reasons[id]}
		// What has no prices is among the results only if its agent ended it; else it has expired.
		sums.Expired = max(0, sums.Closed-sums.TakeProfit-sums.StopLoss-sums.AgentExit)
		v.Signals.Open += sums.Open
		v.Signals.Closed += sums.Closed
		v.ByAgent = append(v.ByAgent, sums)
	}
	return c.value(http.StatusOK, v)
}
