package http

import (
	"context"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Work queues scans and backtests. See agent.Agents.
type Work interface {
	SubmitScan(ctx context.Context, req signal.RunRequest, assets []string) (signal.Job, error)
	SubmitBacktest(ctx context.Context, req signal.RunRequest, from, to time.Time) (signal.Job, error)
}

// Scorecards summarizes closed signals. See scorecard.Scorecards.
type Scorecards interface {
	Card(ctx context.Context, q scorecard.Query) (scorecard.Card, error)
	// Summary summarizes all closed signals, and those that were closed since a time.
	Summary(ctx context.Context, account signal.AccountID, since time.Time) (scorecard.Summary, error)
}

// Audits has the results of the last audit. See audit.Node.
type Audits interface {
	// Audit returns KindNotFound if there was none yet.
	Audit(ctx context.Context, account signal.AccountID) (audit.Result, error)
}

// scanAgent answers POST /v1/agents/{id}/scan.
func (s *Server) scanAgent(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	r := s.readRunSpec(c, o, signal.JobScan, c.vars["id"])
	o.Close()
	err = s.checkForAgent(c, &r)
	if e := c.faults.Err(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	job, err := s.o.Work.SubmitScan(context.WithoutCancel(c.r.Context()), r.RunRequest, r.assets)
	return c.queued(job, err)
}

// createBacktest answers POST /v1/backtests.
func (s *Server) createBacktest(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	ids := s.agentIDs()
	o.Require("agent_id", request.OneOf(ids))
	id, _ := request.Choice(o, "agent_id", ids)
	r := s.readRunSpec(c, o, signal.JobBacktest, string(id))
	r.Agent = id
	from, hasFrom := o.Time("from")
	to, hasTo := o.Time("to")
	if hasFrom && hasTo && to.Before(from) {
		o.Bad("to", request.CodeOutOfRange, "must not be before from")
	}
	o.Close()
	if known, err := s.agentNamed(string(id)); err == nil {
		s.checkRunSpec(c, known, &r)
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	job, err := s.o.Work.SubmitBacktest(context.WithoutCancel(c.r.Context()), r.RunRequest, from, to)
	return c.queued(job, err)
}

// scorecard answers GET /v1/scorecard.
func (s *Server) scorecard(c *call) error {
	q := c.query
	wanted := scorecard.Query{
		Account:   c.principal.Account,
		Agent:     request.Option(q, "agent_id", agentIDs),
		Strategy:  request.Option(q, "strategy", strategies),
		Asset:     s.filterAsset(c),
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

// lastAudit answers GET /v1/audit.
func (s *Server) lastAudit(c *call) error {
	result, err := s.o.Audits.Audit(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, result)
}

// addWork adds the routes of scans, backtests, scorecards and audits.
func (s *Server) addWork() {
	if s.o.Work != nil {
		s.add("/v1/agents/{id}/scan", methods{"POST": change(signal.AgentsRun, s.scanAgent)})
		s.add("/v1/backtests", methods{"POST": change(signal.AgentsRun, s.createBacktest)})
	}
	if s.o.Scorecards != nil {
		s.add("/v1/scorecard", methods{"GET": get(signal.SignalsRead, s.scorecard,
			"agent_id", "strategy", "asset", "timeframe", "since")})
		s.add("/v1/summary", methods{"GET": get(signal.SignalsRead, s.summary)})
	}
	if s.o.Audits != nil {
		s.add("/v1/audit", methods{"GET": get(signal.SignalsRead, s.lastAudit)})
	}
}
