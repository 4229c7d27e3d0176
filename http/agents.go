package http

import (
	"context"
	"net/http"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Agents lists agents. See agent.Agents.
type Agents interface {
	Catalogue() []signal.Agent
}

// AgentCatalogue has the agents that an account can use: those of the service and its own.
type AgentCatalogue struct {
	service Agents
	own     OwnAgents
}

// NewAgentCatalogue returns the agents of the service and those of accounts.
func NewAgentCatalogue(service Agents, own OwnAgents) *AgentCatalogue {
	return &AgentCatalogue{service, own}
}

// list returns the agents of an account, those of the service first.
func (a *AgentCatalogue) list(ctx context.Context, account signal.AccountID) ([]signal.Agent, error) {
	own, err := a.own.Agents(ctx, account)
	return slices.Concat(a.service.Catalogue(), own), err
}

// named returns an agent of an account, or KindNotFound.
func (a *AgentCatalogue) named(ctx context.Context, account signal.AccountID, id string) (signal.Agent, error) {
	return a.find(ctx, account, id, a.own.Agent)
}

// known is named for a caller that has the revision of the agent compared later.
func (a *AgentCatalogue) known(ctx context.Context, account signal.AccountID, id string) (signal.Agent, error) {
	return a.find(ctx, account, id, a.own.Known)
}

func (a *AgentCatalogue) find(
	ctx context.Context, account signal.AccountID, id string,
	read func(context.Context, signal.AccountID, signal.AgentID) (signal.Agent, error),
) (signal.Agent, error) {
	for _, agent := range a.service.Catalogue() {
		if string(agent.ID) == id {
			return agent, nil
		}
	}
	if signal.IsAgentName(id) && !signal.AgentID(id).BuiltIn() {
		own, err := read(ctx, account, signal.AgentID(id))
		if signal.KindOf(err) != signal.KindNotFound {
			return own, err
		}
	}
	all, err := a.list(ctx, account)
	switch {
	case err != nil:
		return signal.Agent{}, err
	case len(all) == 0:
		return signal.Agent{}, signal.NotFound("agent")
	}
	return signal.Agent{}, notFound("agent", "there are "+request.Joined(agentIDs(all)))
}

// AgentHandlers answer for agents.
type AgentHandlers struct {
	agents *AgentCatalogue
	own    *OwnAgentHandlers
}

// NewAgentHandlers returns the handlers of agents.
func NewAgentHandlers(agents *AgentCatalogue, own *OwnAgentHandlers) *AgentHandlers {
	return &AgentHandlers{agents, own}
}

// Routes implements Resource. An own agent was confirmed where it was stored.
func (h *AgentHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/agents", methods{"GET": immediate(get(signal.AgentsRead, h.list,
			"category", "status", "limit", "offset")),
			"POST": session(h.own.create)}),
		route("/v1/agents/{id}", methods{"GET": immediate(get(signal.AgentsRead, h.byID)), "PATCH": session(h.own.update),
			"DELETE": session(checked(h.own.remove))}),
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
	Input         *schema `json:"input_schema"` // of the body of its runs
	*ownAgentView         // of an account's own agent
}

func viewDetails(a *signal.Agent) agentDetails {
	v := agentDetails{agentView: viewAgent(a), Input: inputSchema(a)}
	if a.Account != "" {
		v.ownAgentView = viewOwnAgent(a)
	}
	return v
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
	all, err := h.agents.list(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	for _, a := range all {
		if (category == "" || a.Category == category) && (status == "" || a.Status == status) {
			list = append(list, viewAgent(&a))
		}
	}
	return c.value(http.StatusOK, agentList{Agents: request.Cut(page, list), Total: len(list)})
}

// byID answers GET /v1/agents/{id}.
func (h *AgentHandlers) byID(c *call) error {
	a, err := h.agents.named(c.r.Context(), c.principal.Account, c.vars["id"])
	if err != nil {
		return err
	}
	v := viewDetails(&a)
	if a.Endpoint != nil {
		v.Endpoint.Health = new(h.own.healthOf(c.r.Context(), &a))
	}
	return c.value(http.StatusOK, v)
}

// filterNames returns the agents and the strategies by which signals of an account are filtered. Those of the service suffice
// where given has no other.
func (a *AgentCatalogue) filterNames(ctx context.Context, account signal.AccountID, given ...string) (
	[]signal.AgentID, []string, error) {
	if !slices.ContainsFunc(given, func(name string) bool {
		return name != "" && !signal.AgentID(name).BuiltIn() && !slices.Contains(strategies, name)
	}) {
		return allAgents, strategies, nil
	}
	ids, names, err := a.own.Names(ctx, account)
	return slices.Concat(allAgents, ids), slices.Concat(strategies, names), err
}

// agentIDs returns the identifiers of the catalogue.
func agentIDs(catalogue []signal.Agent) []signal.AgentID {
	return views(catalogue, func(a *signal.Agent) signal.AgentID { return a.ID })
}
