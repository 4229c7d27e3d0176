package http

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Work queues jobs that are no runs. See agent.Agents.
type Work interface {
	SubmitScan(ctx context.Context, req signal.RunRequest, assets []string) (signal.Job, error)
	SubmitBacktest(ctx context.Context, req signal.RunRequest, from, to time.Time) (signal.Job, error)
}

// Scorecards says how signals ended. See scorecard.Scorecards.
type Scorecards interface {
	Card(ctx context.Context, q scorecard.Query) (scorecard.Card, error)
}

// scanAgent answers POST /v1/agents/{id}/scan.
func (s *Server) scanAgent(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	f := &c.faults
	if o == nil {
		return f.Err()
	}
	req := signal.RunRequest{Account: c.principal.Account}
	s.requireWork(o, c.vars["id"], "assets")
	assets := readAssets(o)
	given := decodeManner(o, &req)
	o.Close()
	known, err := s.checkForAgent(c, &req, assets, given, f, func(a signal.Agent) []agent.Fault { return agent.CheckScan(a, req, assets) })
	if e := f.Err(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	req.Agent = known.ID
	job, err := s.o.Work.SubmitScan(context.WithoutCancel(c.r.Context()), req, assets)
	return c.queued(job, err)
}

// readAssets reads a list of assets: all of them, if none is a fault; nil if there is
// none.
func readAssets(o *request.Object) []string {
	seen := map[string]bool{}
	assets, ok := o.Texts("assets", agent.MaxScanned, assetsRule, func(item string) (code, detail string) {
		item = strings.TrimSpace(item)
		if code, detail := request.CheckText(item, maxAssetLength); code != "" {
			return code, detail
		}
		key := strings.ToUpper(item)
		if seen[key] {
			return request.CodeDuplicate, "is named twice"
		}
		seen[key] = true
		return "", ""
	})
	if ok && len(assets) == 0 {
		o.Bad("assets", request.CodeTooShort, assetsRule)
	}
	if !ok {
		return nil // what is wrong with them has been said
	}
	for i := range assets {
		assets[i] = strings.TrimSpace(assets[i])
	}
	return assets
}

// decodeManner reads what all kinds of work have in common, and says whether a strategy
// is given.
func decodeManner(o *request.Object, req *signal.RunRequest) (strategyGiven bool) {
	req.Strategy, strategyGiven = o.Text("strategy")
	req.Timeframe, req.Risk = signal.H1, signal.MediumRisk
	if t, ok := request.Choice(o, "timeframe", signal.Timeframes); ok {
		req.Timeframe = t
	}
	if r, ok := request.Choice(o, "risk_level", signal.RiskLevels); ok {
		req.Risk = r
	}
	return strategyGiven
}

// createBacktest answers POST /v1/backtests.
func (s *Server) createBacktest(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	f := &c.faults
	if o == nil {
		return f.Err()
	}
	req := signal.RunRequest{Account: c.principal.Account}
	ids := s.agentIDs()
	o.Require("agent_id", request.OneOf(ids))
	req.Agent, _ = request.Choice(o, "agent_id", ids)
	s.requireWork(o, string(req.Agent), "asset")
	req.Asset = decodeAsset(o)
	given := decodeManner(o, &req)
	from, hasFrom := o.Time("from")
	to, hasTo := o.Time("to")
	if hasFrom && hasTo && to.Before(from) {
		o.Bad("to", request.CodeOutOfRange, "must not be before from")
	}
	o.Close()
	if known, err := s.agentNamed(string(req.Agent)); err == nil {
		if given && req.Strategy == "" {
			f.Body("/strategy", request.CodeInvalidValue, request.OneOf(known.Strategies))
		}
		assets := []string{req.Asset}
		s.nameAssets(known, assets, assetPointer, f)
		req.Asset = assets[0]
		for _, fault := range agent.CheckBacktest(known, req) {
			f.Body(fault.Pointer, fault.Code, fault.Detail)
		}
		s.findAssets(c.r.Context(), known, assets, assetPointer, f)
	}
	if err := f.Err(); err != nil {
		return err
	}
	job, err := s.o.Work.SubmitBacktest(context.WithoutCancel(c.r.Context()), req, from, to)
	return c.queued(job, err)
}

// queued answers with a job, as an asynchronous run does.
func (c *call) queued(job signal.Job, err error) error {
	if err != nil {
		return err
	}
	for name, value := range jobHeader(job) {
		c.Header().Set(name, value)
	}
	return c.value(http.StatusOK, viewJob(&job))
}

// scorecard answers GET /v1/scorecard.
func (s *Server) scorecard(c *call) error {
	q := c.query
	wanted := scorecard.Query{
		Account:   c.principal.Account,
		Agent:     request.Option(q, "agent_id", agentIDs),
		Strategy:  request.Option(q, "strategy", strategies),
		Asset:     q.Text("asset", maxAssetLength),
		Timeframe: request.Option(q, "timeframe", signal.Timeframes),
		Since:     q.Since(),
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	card, err := s.o.Scorecards.Card(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, card)
}

// addWork adds what is about jobs that are no runs, and about how signals ended.
func (s *Server) addWork() {
	if s.o.Work != nil {
		s.add("/v1/agents/{id}/scan", methods{"POST": change(signal.AgentsRun, s.scanAgent)})
		s.add("/v1/backtests", methods{"POST": change(signal.AgentsRun, s.createBacktest)})
	}
	if s.o.Scorecards != nil {
		s.add("/v1/scorecard", methods{"GET": get(signal.SignalsRead, s.scorecard, "agent_id", "strategy", "asset", "timeframe", "since")})
	}
}
