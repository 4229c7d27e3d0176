package http

import (
	"context"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Agents lists and runs agents. See agent.Agents.
type Agents interface {
	Catalogue() []signal.Agent
	Run(ctx context.Context, req signal.RunRequest) (agent.Outcome, error)
	Submit(ctx context.Context, req signal.RunRequest, reply func(signal.Job) *signal.Reply) (signal.Job, error)
	Job(ctx context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error)
	Jobs(ctx context.Context, account signal.AccountID, status signal.JobStatus,
		limit, offset int) ([]signal.Job, int, error)
}

type agentView struct {
	ID          signal.AgentID     `json:"id"`
	Name        string             `json:"name"`
	Category    signal.Category    `json:"category"`
	Description string             `json:"description"`
	Strategies  []string           `json:"strategies"`
	Status      signal.AgentStatus `json:"status"`
}

// agentDetails is an agent as GET /v1/agents/{id} shows it.
type agentDetails struct {
	agentView
	Input *schema `json:"input_schema"` // of the body of its runs
}

type agentList struct {
	Agents []agentView `json:"agents"`
	Total  int         `json:"total"`
}

// The values of the query parameters of listAgents.
var (
	categories    = []signal.Category{signal.Trading, signal.Weather, signal.Content}
	agentStatuses = []signal.AgentStatus{signal.AgentActive, signal.AgentBeta, signal.AgentDeprecated}
)

// listAgents answers GET /v1/agents.
func (s *Server) listAgents(c *call) error {
	q := c.query
	category := request.Option(q, "category", categories)
	status := request.Option(q, "status", agentStatuses)
	page := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	list := []agentView{}
	for _, a := range s.o.Agents.Catalogue() {
		if (category == "" || a.Category == category) && (status == "" || a.Status == status) {
			list = append(list, agentView(a))
		}
	}
	return c.value(http.StatusOK, agentList{Agents: request.Cut(page, list), Total: len(list)})
}

// agentByID answers GET /v1/agents/{id}.
func (s *Server) agentByID(c *call) error {
	a, err := s.agentNamed(c.vars["id"])
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, agentDetails{agentView(a), inputSchema(&a)})
}

// agentNamed returns an agent of the catalogue, or KindNotFound.
func (s *Server) agentNamed(id string) (signal.Agent, error) {
	for _, a := range s.o.Agents.Catalogue() {
		if string(a.ID) == id {
			return a, nil
		}
	}
	if ids := s.agentIDs(); len(ids) > 0 {
		return signal.Agent{}, notFound("agent", "there are "+request.Joined(ids))
	}
	return signal.Agent{}, signal.NotFound("agent")
}

// agentIDs returns the identifiers of the catalogue.
func (s *Server) agentIDs() []signal.AgentID {
	var ids []signal.AgentID
	for _, a := range s.o.Agents.Catalogue() {
		ids = append(ids, a.ID)
	}
	return ids
}
