package http

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Work queues scans and backtests. See agent.Agents.
type Work interface {
	SubmitScan(ctx context.Context, req signal.RunRequest, assets []string) (signal.Job, error)
	SubmitBacktest(ctx context.Context, req signal.RunRequest, from, to time.Time) (signal.Job, error)
}

// WorkHandlers answer for scans and backtests.
type WorkHandlers struct {
	work  Work
	specs *RunSpecs
}

// NewWorkHandlers returns the handlers of scans and backtests.
func NewWorkHandlers(work Work, specs *RunSpecs) *WorkHandlers { return &WorkHandlers{work, specs} }

// Routes implements Resource.
func (h *WorkHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/agents/{id}/scan", methods{"POST": change(signal.AgentsRun, h.scan)}),
		route("/v1/backtests", methods{"POST": change(signal.AgentsRun, h.backtest)}),
	}
}

// scan answers POST /v1/agents/{id}/scan.
func (h *WorkHandlers) scan(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	r := h.specs.read(c, o, signal.JobScan, c.vars["id"])
	o.Close()
	err = h.specs.checkForAgent(c, &r)
	if e := c.faults.Err(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	job, err := h.work.SubmitScan(context.WithoutCancel(c.r.Context()), r.RunRequest, r.assets)
	return answerQueued(c, job, err)
}

// backtest answers POST /v1/backtests.
func (h *WorkHandlers) backtest(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	catalogue := h.specs.agents.service.Catalogue() // an account's own cannot be replayed
	ids := agentIDs(catalogue)
	o.Require("agent_id", request.OneOf(ids))
	id, _ := request.Choice(o, "agent_id", ids)
	r := h.specs.read(c, o, signal.JobBacktest, string(id))
	r.Agent = id
	from, hasFrom := o.Time("from")
	to, hasTo := o.Time("to")
	if hasFrom && hasTo && to.Before(from) {
		o.Bad("to", request.CodeOutOfRange, "must not be before from")
	}
	o.Close()
	if i := slices.IndexFunc(catalogue, func(a signal.Agent) bool { return a.ID == id }); i >= 0 {
		h.specs.check(c, catalogue[i], &r)
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	job, err := h.work.SubmitBacktest(context.WithoutCancel(c.r.Context()), r.RunRequest, from, to)
	return answerQueued(c, job, err)
}
