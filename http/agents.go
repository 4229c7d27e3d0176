package http

import (
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Agents lists agents. See agent.Agents.
type Agents interface {
	Catalogue() []signal.Agent
}

// AgentHandlers answer for the catalogue of agents.
type AgentHandlers struct{ agents Agents }

// NewAgentHandlers returns the handlers of the catalogue.
func NewAgentHandlers(agents Agents) *AgentHandlers { return &AgentHandlers{agents} }

// Routes implements Resource.
func (h *AgentHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/agents", methods{"GET": immediate(get(signal.AgentsRead, h.list,
			"category", "status", "limit", "offset"))}),
		route("/v1/agents/{id}", methods{"GET": immediate(get(signal.AgentsRead, h.byID))}),
	}
}

type agentView struct {
	ID          signal.AgentID     `json:"id"`
	Name        string             `json:"name"`
	Category    signal.Category    `json:"category"`
	Description string             `json:"description"`
	Strategies  []string           `json:"strategies"`
	Status      signal.AgentStatus `json:"status"`
	Owner       string             `json:"owner"` // service or account
}

func viewAgent(a *signal.Agent) agentView {
	owner := "service"
	if a.Account != "" {
		owner = "account"
	}
	return agentView{a.ID, a.Name, a.Category, a.Description, a.Strategies, a.Status, owner}
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

// The values of the query parameters of list.
var (
	categories    = []signal.Category{signal.Trading, signal.Weather, signal.Content}
	agentStatuses = []signal.AgentStatus{signal.AgentActive, signal.AgentBeta, signal.AgentDeprecated}
)

// list answers GET /v1/agents.
func (h *AgentHandlers) list(c *call) error {
	q := c.query
	category := request.Option(q, "category", categories)
	status := request.Option(q, "status", agentStatuses)
	page := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	list := []agentView{}
	for _, a := range h.agents.Catalogue() {
		if (category == "" || a.Category == category) && (status == "" || a.Status == status) {
			list = append(list, viewAgent(&a))
		}
	}
	return c.value(http.StatusOK, agentList{Agents: request.Cut(page, list), Total: len(list)})
}

// byID answers GET /v1/agents/{id}.
func (h *AgentHandlers) byID(c *call) error {
	a, err := agentNamed(h.agents.Catalogue(), c.vars["id"])
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, agentDetails{viewAgent(&a), inputSchema(&a)})
}

// agentNamed returns an agent of the catalogue, or KindNotFound.
func agentNamed(catalogue []signal.Agent, id string) (signal.Agent, error) {
	for _, a := range catalogue {
		if string(a.ID) == id {
			return a, nil
		}
	}
	if ids := agentIDs(catalogue); len(ids) > 0 {
		return signal.Agent{}, notFound("agent", "there are "+request.Joined(ids))
	}
	return signal.Agent{}, signal.NotFound("agent")
}

// agentIDs returns the identifiers of the catalogue.
func agentIDs(catalogue []signal.Agent) []signal.AgentID {
	return views(catalogue, func(a *signal.Agent) signal.AgentID { return a.ID })
}
