package http

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// Intakes keeps the intakes of alerts that agents of accounts have. See persistence/agents.
type Intakes interface {
	// AddIntake stores a new one. KindNotFound: there is no such agent. KindConflict: "limit_reached".
	AddIntake(ctx context.Context, account signal.AccountID, agent signal.AgentID, in signal.Intake) error
	// RemoveIntake revokes one. KindNotFound.
	RemoveIntake(ctx context.Context, account signal.AccountID, agent signal.AgentID, id signal.IntakeID) error
	// OfToken returns the agent and the intake of a token by its digest. KindNotFound. The agent may have been changed since:
	// what is appended by it is refused then.
	OfToken(ctx context.Context, digest string) (signal.Agent, signal.Intake, error)
	// OfIntake reads the agent of an intake as it is stored, and the intake. KindNotFound.
	OfIntake(ctx context.Context, account signal.AccountID, agent signal.AgentID, id signal.IntakeID) (
		signal.Agent, signal.Intake, error)
	// Marks returns topics of alerts with their marks.
	Marks(ctx context.Context, account signal.AccountID, topics []string) ([]signal.AlertTopic, error)
	// NoteRequest adds a request that was refused to the list of an intake.
	NoteRequest(ctx context.Context, account signal.AccountID, id signal.IntakeID, request []byte) error
	// Requests returns the newest requests of an intake, the newest first.
	Requests(ctx context.Context, account signal.AccountID, id signal.IntakeID) ([]signal.IntakeRequest, error)
}

// IntakeHandlers answer for the intakes of agents.
type IntakeHandlers struct {
	intakes Intakes
	agents  OwnAgents
	now     func() time.Time
}

// NewIntakeHandlers returns the handlers of intakes.
func NewIntakeHandlers(intakes Intakes, agents OwnAgents, now func() time.Time) *IntakeHandlers {
	return &IntakeHandlers{intakes, agents, now}
}

// Routes implements Resource. An agent, and with it its intakes, was confirmed where it was stored.
func (h *IntakeHandlers) Routes() []*Route {
	const path = "/v1/agents/{id}/intakes"
	return []*Route{
		route(path, methods{"GET": immediate(get(signal.AgentsRead, h.list)), "POST": session(h.create)}),
		route(path+"/{intake_id}", methods{"DELETE": session(checked(h.remove))}),
		route(path+"/{intake_id}/requests", methods{"GET": immediate(get(signal.AgentsRead, h.requests))}),
	}
}

type intakeView struct {
	ID        signal.IntakeID `json:"intake_id"`
	CreatedAt instant         `json:"created_at"`
}

// newIntakeView is an intake with its token, which is shown once.
type newIntakeView struct {
	ID        signal.IntakeID `json:"intake_id"`
	Token     string          `json:"token"`
	URL       string          `json:"url"`
	CreatedAt instant         `json:"created_at"`
}

// tokenBytes is the number of random bytes of a token.
const tokenBytes = 32

// create answers POST /v1/agents/{id}/intakes.
func (h *IntakeHandlers) create(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	a, err := h.agent(c)
	if err != nil {
		return err
	}
	if a.Category != signal.Trading {
		return &signal.Error{Kind: signal.KindInvalid, Code: "invalid_request",
			Message: "alerts are for agents of category trading, and this one is of category " + string(a.Category)}
	}
	var secret [tokenBytes]byte
	rand.Read(secret[:]) // never fails
	token := signal.IntakeTokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	in := signal.Intake{ID: signal.NewIntakeID(), Digest: credential.DigestOf(token).String(),
		CreatedAt: h.now().Truncate(time.Millisecond)}
	if err := h.intakes.AddIntake(context.WithoutCancel(c.r.Context()), a.Account, a.ID, in); err != nil {
		return err
	}
	c.confirms = false // as for the secret of an endpoint
	return c.value(http.StatusCreated, newIntakeView{in.ID, token, c.base() + "/v1/intake/" + token, instant(in.CreatedAt)})
}

// list answers GET /v1/agents/{id}/intakes.
func (h *IntakeHandlers) list(c *call) error {
	a, err := h.agent(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, struct {
		Intakes []intakeView `json:"intakes"`
		Total   int          `json:"total"`
	}{views(a.Intakes, func(in *signal.Intake) intakeView { return intakeView{in.ID, instant(in.CreatedAt)} }), len(a.Intakes)})
}

// remove answers DELETE /v1/agents/{id}/intakes/{intake_id}.
func (h *IntakeHandlers) remove(c *call) error {
	a, in, err := h.intake(c)
	if err == nil {
		err = h.intakes.RemoveIntake(context.WithoutCancel(c.r.Context()), a.Account, a.ID, in)
	}
	if err != nil {
		return err
	}
	return c.noContent()
}

// requestView is a request that an intake has received.
type requestView struct {
	At     instant          `json:"received_at"`
	Signal *signal.SignalID `json:"signal_id"`
	intakeRequest
}

// intakeRequest is a request as it is stored.
type intakeRequest struct {
	Status     int             `json:"status"`
	Understood string          `json:"understood"` // empty: nothing
	Reason     string          `json:"reason"`     // why it has made no signal; empty: it has made one, or there is an error
	Error      json.RawMessage `json:"error"`      // the document that was answered, or null
	Body       string          `json:"body"`       // the first characters, without credentials
}

// requests answers GET /v1/agents/{id}/intakes/{intake_id}/requests.
func (h *IntakeHandlers) requests(c *call) error {
	a, in, err := h.intake(c)
	if err != nil {
		return err
	}
	list, err := h.intakes.Requests(c.r.Context(), a.Account, in)
	if err != nil {
		return err
	}
	shown := make([]requestView, len(list))
	for i := range list {
		shown[i].At = instant(list[i].At)
		if id := list[i].Signal; id != "" {
			shown[i].Signal = &id
		}
		if err := json.Unmarshal(list[i].Request, &shown[i].intakeRequest); err != nil {
			return err
		}
	}
	return c.value(http.StatusOK, struct {
		Requests []requestView `json:"requests"`
		Total    int           `json:"total"`
	}{shown, len(shown)})
}

// agent returns the agent that the path names, which must be one of the account.
func (h *IntakeHandlers) agent(c *call) (signal.Agent, error) {
	id, err := ownID(c)
	if err != nil {
		return signal.Agent{}, err
	}
	return h.agents.Agent(c.r.Context(), c.principal.Account, id)
}

// intake returns the agent and the intake that the path names.
func (h *IntakeHandlers) intake(c *call) (signal.Agent, signal.IntakeID, error) {
	a, err := h.agent(c)
	if err != nil {
		return a, "", err
	}
	id := signal.IntakeID(c.vars["intake_id"])
	if !slices.ContainsFunc(a.Intakes, func(in signal.Intake) bool { return in.ID == id }) {
		return a, "", notFound("intake", "GET /v1/agents/"+string(a.ID)+"/intakes lists those of the agent")
	}
	return a, id, nil
}
