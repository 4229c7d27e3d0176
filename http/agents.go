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

// list returns what a principal sees of the agents of its account, those of the service first.
func (a *AgentCatalogue) list(ctx context.Context, p *signal.Principal) ([]signal.Agent, error) {
	own, err := a.own.Agents(ctx, p.Account)
	return seenBy(p.View, slices.Concat(a.service.Catalogue(), own)), err
}

// seenBy returns what a view shows of agents.
func seenBy(v *signal.View, agents []signal.Agent) []signal.Agent {
	if v == nil {
		return agents
	}
	var seen []signal.Agent
	for _, agent := range agents {
		if agent, ok := v.Agent(agent); ok {
			seen = append(seen, agent)
		}
	}
	return seen
}

// named returns what a principal sees of an agent of its account, or KindNotFound.
func (a *AgentCatalogue) named(ctx context.Context, p *signal.Principal, id string) (signal.Agent, error) {
	return a.find(ctx, p, id, a.own.Agent)
}

// known is named for a caller that has the revision of the agent compared later.
func (a *AgentCatalogue) known(ctx context.Context, p *signal.Principal, id string) (signal.Agent, error) {
	return a.find(ctx, p, id, a.own.Known)
}

func (a *AgentCatalogue) find(
	ctx context.Context, p *signal.Principal, id string,
	read func(context.Context, signal.AccountID, signal.AgentID) (signal.Agent, error),
) (signal.Agent, error) {
	for _, agent := range seenBy(p.View, a.service.Catalogue()) {
		if string(agent.ID) == id {
			return agent, nil
		}
	}
	if signal.IsAgentName(id) && !signal.AgentID(id).BuiltIn() {
		own, err := read(ctx, p.Account, signal.AgentID(id))
		if err != nil && signal.KindOf(err) != signal.KindNotFound {
			return own, err
		}
		if own, ok := p.View.Agent(own); ok && err == nil {
			return own, nil
		}
	}
	all, err := a.list(ctx, p)
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
		route("/v1/agents", methods{"GET": seen(immediate(get(signal.AgentsRead, h.list,
			"category", "status", "limit", "offset"))),
			"POST": session(h.own.create)}),
		route("/v1/agents/{id}", methods{"GET": seen(immediate(get(signal.AgentsRead, h.byID))),
			"PATCH": session(h.own.update), "DELETE": session(checked(h.own.remove))}),
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
	*ownAgentView         // of an account's own agent, and not for readers
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
	all, err := h.agents.list(c.r.Context(), &c.principal)
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
	a, err := h.agents.named(c.r.Context(), &c.principal, c.vars["id"])
	if err != nil {
		return err
	}
	v := viewDetails(&a)
	if c.principal.View != nil {
		v.ownAgentView = nil
	}
	if a.Endpoint != nil {
		v.Endpoint.Health = new(h.own.healthOf(c.r.Context(), &a))
	}
	return c.value(http.StatusOK, v)
}

// filterNames returns the agents and the strategies by which a principal filters signals of its account. Those of the
// service suffice where given has no other.
func (a *AgentCatalogue) filterNames(ctx context.Context, p *signal.Principal, given ...string) (
	[]signal.AgentID, []string, error) {
	service, names := allAgents, strategies
	if p.View != nil {
		seen := seenBy(p.View, a.service.Catalogue())
		service, names = agentIDs(seen), nil
		for _, agent := range seen {
			names = append(names, agent.Strategies...)
		}
	}
	if !slices.ContainsFunc(given, func(name string) bool {
		return name != "" && !slices.Contains(service, signal.AgentID(name)) && !slices.Contains(names, name)
	}) {
		return service, names, nil
	}
	own, ownNames, err := a.own.Names(ctx, p.Account, p.View)
	return slices.Concat(service, own), slices.Concat(names, ownNames), err
}

// agentIDs returns the identifiers of the catalogue.
func agentIDs(catalogue []signal.Agent) []signal.AgentID {
	return views(catalogue, func(a *signal.Agent) signal.AgentID { return a.ID })
}
