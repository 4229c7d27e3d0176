package http

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/agent/asked"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/http/request"
)

// OwnAgents keeps the agents that belong to accounts. See persistence/agents.
type OwnAgents interface {
	// Agents returns those of an account, the oldest first.
	Agents(ctx context.Context, account signal.AccountID) ([]signal.Agent, error)
	// Agent returns one. KindNotFound.
	Agent(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error)
	// Known is Agent as this process has read it last.
	Known(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error)
	// Names returns the ids and the strategies that a view has of all that an account has or had.
	Names(ctx context.Context, account signal.AccountID, view *signal.View) (ids []signal.AgentID, strategies []string, err error)
	// Add stores a new one. KindConflict: "name_taken", "limit_reached".
	Add(ctx context.Context, a signal.Agent) (signal.Agent, error)
	// Change stores what change makes of one. KindNotFound, and the errors of change.
	Change(ctx context.Context, account signal.AccountID, id signal.AgentID,
		change func(*signal.Agent) error) (signal.Agent, error)
	// Remove ends one. KindNotFound.
	Remove(ctx context.Context, account signal.AccountID, id signal.AgentID) error
}

// AgentHealth has what this node has seen of agents at their endpoints. See asked.Asked.
type AgentHealth interface {
	Health(ctx context.Context, account signal.AccountID, id signal.AgentID) (asked.Health, error)
}

const (
	maxAgentName        = 80  // characters
	maxAgentDescription = 500 // characters
	minExpiresIn        = 60
	maxExpiresIn        = 45 * 24 * 60 * 60 // seconds
	agentNameRule       = "must be 3 to 32 lower-case letters, digits and _, and begin with a letter"
)

// OwnAgentHandlers answer for the agents that belong to accounts.
type OwnAgentHandlers struct {
	agents    OwnAgents
	health    AgentHealth
	addresses Addresses // checks the URLs of endpoints
	now       func() time.Time
}

// NewOwnAgentHandlers returns the handlers of accounts' agents.
func NewOwnAgentHandlers(agents OwnAgents, health AgentHealth, addresses Addresses, now func() time.Time) *OwnAgentHandlers {
	return &OwnAgentHandlers{agents, health, addresses, now}
}

// ownAgentView has the members of an account's own agent.
type ownAgentView struct {
	CreatedAt instant       `json:"created_at"`
	Defaults  defaultsView  `json:"defaults"`
	Endpoint  *endpointView `json:"endpoint"`
}

type endpointView struct {
	URL    string       `json:"url"`
	Secret string       `json:"secret,omitempty"` // in the answers to requests that set it
	Health **healthView `json:"health,omitempty"` // where one agent is read; of nil: it is not known
}

// healthView is an asked.Health.
type healthView struct {
	InFlight    int                `json:"in_flight"`
	Waiting     int                `json:"waiting"`
	Failures    int                `json:"failures"`
	PausedUntil instant            `json:"paused_until"`
	LastError   *scheduleErrorView `json:"last_error"`
}

type defaultsView struct {
	Timeframe signal.Timeframe `json:"timeframe,omitempty"`
	Risk      signal.RiskLevel `json:"risk_level,omitempty"`
	Stop      *levelView       `json:"stop,omitempty"`
	Target    *levelView       `json:"target,omitempty"`
	ExpiresIn int64            `json:"expires_in,omitempty"` // seconds
}

// levelView is a Level as {"percent": 1.5}.
type levelView signal.Level

// MarshalJSON implements json.Marshaler.
func (v levelView) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[signal.LevelUnit]float64{v.Unit: v.Value})
}

func viewLevel(l signal.Level) *levelView {
	if l == (signal.Level{}) {
		return nil
	}
	v := levelView(l)
	return &v
}

func viewOwnAgent(a *signal.Agent) *ownAgentView {
	d := a.Defaults
	v := &ownAgentView{CreatedAt: instant(a.CreatedAt), Defaults: defaultsView{Timeframe: d.Timeframe,
		Risk: d.Risk, Stop: viewLevel(d.Stop), Target: viewLevel(d.Target), ExpiresIn: int64(d.ExpiresIn / time.Second)}}
	if a.Endpoint != nil {
		v.Endpoint = &endpointView{URL: a.Endpoint.URL}
	}
	return v
}

// healthTimeout bounds the wait for the health of an agent, without which the agent is shown all the same.
const healthTimeout = 500 * time.Millisecond

// healthOf returns the health of an agent, or nil if it does not come in time.
func (h *OwnAgentHandlers) healthOf(ctx context.Context, a *signal.Agent) *healthView {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, err := h.health.Health(ctx, a.Account, a.ID)
	if err != nil {
		return nil
	}
	return viewHealth(&health)
}

func viewHealth(h *asked.Health) *healthView {
	v := &healthView{InFlight: h.InFlight, Waiting: h.Waiting, Failures: h.Failures, PausedUntil: instant(h.PausedUntil)}
	if e := h.LastError; e != nil {
		v.LastError = &scheduleErrorView{string(e.Code), e.Message, instant(h.LastErrorAt)}
	}
	return v
}

// ownAgentInput holds the members of a body. Those that are nil were not given.
type ownAgentInput struct {
	name, description *string
	strategies        []string
	status            signal.AgentStatus
	defaults          *signal.AgentDefaults
	endpoint          *signal.Endpoint
	noEndpoint        bool
}

// read reads the members that a new agent and a change have in common.
func (h *OwnAgentHandlers) read(c *call, o *request.Object) (in ownAgentInput) {
	in.name = readLine(o, "name", maxAgentName)
	if text, ok := o.Text("description"); ok {
		if utf8.RuneCountInString(text) > maxAgentDescription {
			o.Bad("description", request.CodeTooLong, request.AtMost(maxAgentDescription))
		}
		in.description = &text
	}
	const rule = "must be 1 to 20 names such as my_strategy"
	list, given := o.Texts("strategies", signal.MaxAgentStrategies, rule, func(item string) (code, detail string) {
		if !signal.IsAgentName(item) {
			return request.CodeFormat, agentNameRule
		}
		if slices.Contains(in.strategies, item) {
			return request.CodeDuplicate, "is named twice"
		}
		in.strategies = append(in.strategies, item)
		return "", ""
	})
	if given && len(list) == 0 {
		o.Bad("strategies", request.CodeTooShort, rule)
	}
	in.status, _ = request.Choice(o, "status", agentStatuses)
	if d, ok := o.Object("defaults"); ok {
		in.defaults = &signal.AgentDefaults{}
		in.defaults.Timeframe, _ = request.Choice(d, "timeframe", signal.Timeframes)
		in.defaults.Risk, _ = request.Choice(d, "risk_level", signal.RiskLevels)
		in.defaults.Stop = readLevel(d, "stop", stopUnits)
		in.defaults.Target = readLevel(d, "target", targetUnits)
		in.defaults.ExpiresIn = readExpiresIn(d)
		d.Close()
	}
	if e, ok := o.Object("endpoint"); ok {
		e.Require("url", "must be the URL at which the agent is asked")
		url := webhookReader{addresses: h.addresses}.readURL(c.r.Context(), e)
		in.endpoint = &signal.Endpoint{URL: url, Secret: readSecret(e)}
		if in.endpoint.Secret == "" {
			in.endpoint.Secret = delivery.NewSecret()
		}
		e.Close()
	}
	in.noEndpoint = o.Null("endpoint")
	return in
}

// readLine reads a trimmed text of one line, or returns nil without one.
func readLine(o *request.Object, name string, limit int) *string {
	text, ok := o.Text(name)
	if !ok {
		return nil
	}
	text = strings.TrimSpace(text)
	if code, detail := request.CheckText(text, limit); code != "" {
		o.Bad(name, code, detail)
	}
	return &text
}

// The units of levels.
var (
	stopUnits   = []signal.LevelUnit{signal.PriceLevel, signal.PercentLevel, signal.ATRLevel}
	targetUnits = append(slices.Clip(stopUnits), signal.RLevel)
)

// maxLevel is the greatest value of a level.
const maxLevel = 1e12

// readLevel reads an object with one member, which is the unit of the level.
func readLevel(o *request.Object, name string, units []signal.LevelUnit) (l signal.Level) {
	v, ok := o.Object(name)
	if !ok {
		return l
	}
	given := 0
	for _, unit := range units {
		if n, ok := v.Number(string(unit), 0, maxLevel); ok {
			l, given = signal.Level{Unit: unit, Value: n}, given+1
			if n == 0 {
				v.Bad(string(unit), request.CodeOutOfRange, "must be above 0")
			}
		} else if v.Has(string(unit)) {
			given++
		}
	}
	v.Close()
	if given != 1 {
		o.Bad(name, request.CodeInvalidValue, "must have one member: "+request.Joined(units)+", such as {\"percent\": 1.5}")
	}
	return l
}

func readExpiresIn(o *request.Object) time.Duration {
	n, _ := o.Integer("expires_in", minExpiresIn, maxExpiresIn)
	return time.Duration(n) * time.Second
}

// apply sets the given members of a. Strategies are only added, since signals have them.
func (in *ownAgentInput) apply(a *signal.Agent) {
	if in.name != nil {
		a.Name = *in.name
	}
	if in.description != nil {
		a.Description = *in.description
	}
	for _, s := range in.strategies {
		if !a.Has(s) {
			a.Strategies = append(slices.Clip(a.Strategies), s)
		}
	}
	if in.status != "" {
		a.Status = in.status
	}
	if in.defaults != nil {
		a.Defaults = *in.defaults
	}
	if in.endpoint != nil || in.noEndpoint {
		a.Endpoint = in.endpoint
	}
}

// create answers POST /v1/agents.
func (h *OwnAgentHandlers) create(c *call) error {
	a := signal.Agent{Account: c.principal.Account, Status: signal.AgentActive, CreatedAt: h.now().Truncate(time.Millisecond)}
	if err := c.decode(func(o *request.Object) {
		o.Require("id", agentNameRule)
		o.Require("name", "must be 1 to 80 characters")
		o.Require("category", request.OneOf(categories))
		o.Require("strategies", "must be 1 to 20 names such as my_strategy")
		if id, ok := o.Text("id"); ok {
			if a.ID = signal.AgentID(id); !signal.IsAgentName(id) {
				o.Bad("id", request.CodeFormat, agentNameRule)
			} else if a.ID.BuiltIn() {
				o.Bad("id", request.CodeInvalidValue, "is an agent of the service: choose another name")
			}
		}
		a.Category, _ = request.Choice(o, "category", categories)
		in := h.read(c, o)
		in.apply(&a)
	}); err != nil {
		return err
	}
	a, err := h.agents.Add(context.WithoutCancel(c.r.Context()), a)
	if err != nil {
		return err
	}
	c.confirms = false // the answer shows what was stored and confirmed, and a secret that no other answer shows
	return c.value(http.StatusCreated, viewSet(&a, a.Endpoint))
}

// viewSet returns an agent as it is answered where set is the endpoint that the request has set, or nil.
func viewSet(a *signal.Agent, set *signal.Endpoint) agentDetails {
	v := viewDetails(a)
	if set != nil {
		v.Endpoint.Secret = set.Secret
	}
	return v
}

// update answers PATCH /v1/agents/{id}.
func (h *OwnAgentHandlers) update(c *call) error {
	var in ownAgentInput
	if err := c.decode(func(o *request.Object) { in = h.read(c, o) }); err != nil {
		return err
	}
	id, err := ownID(c)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.r.Context())
	a, err := h.agents.Change(ctx, c.principal.Account, id, func(a *signal.Agent) error {
		in.apply(a)
		if len(a.Strategies) > signal.MaxAgentStrategies {
			c.faults.Body("/strategies", request.CodeTooLong, "the agent would have more than 20")
			return c.faults.Err()
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.confirms = false // as in create
	return c.value(http.StatusOK, viewSet(&a, in.endpoint))
}

// ownID returns the agent of the path. It is KindNotFound for what cannot be an own agent.
func ownID(c *call) (signal.AgentID, error) {
	id := signal.AgentID(c.vars["id"])
	switch {
	case id.BuiltIn():
		return "", &signal.Error{Kind: signal.KindConflict, Code: "built_in",
			Message: "the agent " + string(id) + " belongs to the service: only agents of your account can be changed"}
	case !signal.IsAgentName(string(id)):
		return "", signal.NotFound("agent")
	}
	return id, nil
}

// remove answers DELETE /v1/agents/{id}.
func (h *OwnAgentHandlers) remove(c *call) error {
	id, err := ownID(c)
	if err == nil {
		err = h.agents.Remove(context.WithoutCancel(c.r.Context()), c.principal.Account, id)
	}
	if err != nil {
		return err
	}
	return c.noContent()
}
