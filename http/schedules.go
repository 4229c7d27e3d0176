package http

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Schedules holds the schedules of accounts. See persistence/schedules.
type Schedules interface {
	// AddSchedule stores a new schedule. KindConflict, "limit_reached": the account has
	// limit schedules.
	AddSchedule(ctx context.Context, s signal.Schedule, limit int) (signal.Schedule, error)
	// Schedule returns a schedule with its revision. KindNotFound.
	Schedule(ctx context.Context, account signal.AccountID, id signal.ScheduleID) (signal.Schedule, error)
	// Schedules returns all schedules of an account, newest first.
	Schedules(ctx context.Context, account signal.AccountID) ([]signal.Schedule, error)
	// ChangeSchedule replaces the stored schedule if it still has the revision of s. It
	// stores NextRunAt only if replan is set. KindConflict, "schedule_changed": another
	// change came first.
	ChangeSchedule(ctx context.Context, s signal.Schedule, replan bool) (signal.Schedule, error)
	// RemoveSchedule removes a schedule. KindNotFound.
	RemoveSchedule(ctx context.Context, account signal.AccountID, id signal.ScheduleID) error
}

const (
	maxSchedules   = 100  // of an account
	maxOpenSignals = 100  // maximum of max_open
	maxEvery       = 1440 // maximum of every, in minutes: a day
	everyBar       = "bar"
	everyRule      = `must be "bar" or minutes from "1m" to "1440m"`
)

// errBusySchedule refuses a change that always lost to concurrent ones.
var errBusySchedule = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: time.Second,
	Message: "too many requests change this schedule at once"}

// ScheduleHandlers answer for schedules.
type ScheduleHandlers struct {
	schedules Schedules
	specs     *RunSpecs
	speed     func(ctx context.Context, asset string) int64
	now       func() time.Time
}

// NewScheduleHandlers returns the handlers of schedules. speed returns how many times as fast as real time the
// bars of an asset go by.
func NewScheduleHandlers(schedules Schedules, specs *RunSpecs, speed func(ctx context.Context, asset string) int64,
	now func() time.Time) *ScheduleHandlers {
	return &ScheduleHandlers{schedules, specs, speed, now}
}

// Routes implements Resource.
func (h *ScheduleHandlers) Routes() []*Route {
	const scope = signal.AgentsRun
	return []*Route{
		route("/v1/schedules", methods{"GET": get(scope, h.list, "status", "limit", "offset"),
			"POST": change(scope, h.create)}),
		route("/v1/schedules/{id}", methods{"GET": get(scope, h.byID), "PATCH": change(scope, h.update),
			"DELETE": change(scope, checked(h.remove))}),
	}
}

// scheduleInput holds the members of a body. Those that are zero were not given.
type scheduleInput struct {
	agent     signal.AgentID
	assets    []string
	strategy  string
	timeframe signal.Timeframe
	risk      signal.RiskLevel
	every     time.Duration // 0: at the close of each bar
	given     bool          // whether every was given
	maxOpen   int
	status    signal.ScheduleStatus
}

// read reads the members that a new schedule and a change have in common.
func (h *ScheduleHandlers) read(o *request.Object, agents []signal.Agent) scheduleInput {
	var in scheduleInput
	in.agent, _ = request.Choice(o, "agent_id", agentIDs(agents))
	var strategies []string
	for _, a := range agents {
		strategies = append(strategies, a.Strategies...)
	}
	in.assets = readAssets(o)
	in.strategy, _ = request.Choice(o, "strategy", strategies)
	in.timeframe, _ = request.Choice(o, "timeframe", signal.Timeframes)
	in.risk, _ = request.Choice(o, "risk_level", signal.RiskLevels)
	if text, ok := o.Text("every"); ok {
		if in.every, in.given = parseEvery(text); !in.given {
			o.Bad("every", request.CodeInvalidValue, everyRule)
		}
	}
	if n, ok := o.Integer("max_open", 1, maxOpenSignals); ok {
		in.maxOpen = int(n)
	}
	return in
}

// parseEvery reads "bar" or a number of minutes such as "5m".
func parseEvery(s string) (time.Duration, bool) {
	if s == everyBar {
		return 0, true
	}
	digits, ok := strings.CutSuffix(s, "m")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n < 1 || n > maxEvery || digits[0] == '0' {
		return 0, false
	}
	return time.Duration(n) * time.Minute, true
}

// apply sets the given members of w. replan reports whether the times of its runs change.
func (in *scheduleInput) apply(w *signal.Schedule) (changed, replan bool) {
	before := *w
	if in.agent != "" {
		w.Agent = in.agent
	}
	if in.assets != nil {
		w.Assets = in.assets
	}
	if in.strategy != "" {
		w.Strategy = in.strategy
	}
	if in.timeframe != "" {
		w.Timeframe = in.timeframe
	}
	if in.risk != "" {
		w.Risk = in.risk
	}
	if in.given {
		w.Every = in.every
	}
	if in.maxOpen != 0 {
		w.MaxOpen = in.maxOpen
	}
	if in.status != "" {
		w.Status = in.status
	}
	bars := w.Timeframe != before.Timeframe || !slices.Equal(w.Assets, before.Assets) // which close at other times
	replan = w.Status != before.Status || w.Every != before.Every || w.Every == 0 && bars
	changed = replan || bars || w.Agent != before.Agent || w.Strategy != before.Strategy || w.Risk != before.Risk ||
		w.MaxOpen != before.MaxOpen
	return changed, replan
}

// check records the faults of w for its agent, and gives it that agent's defaults. With find, a source must have prices
// of its assets. A change of other members is without find, so that a schedule with an asset
// that no source has any more can still be changed.
func (h *ScheduleHandlers) check(ctx context.Context, w *signal.Schedule, agents []signal.Agent, find bool, f *request.Faults) {
	i := slices.IndexFunc(agents, func(a signal.Agent) bool { return a.ID == w.Agent })
	if i < 0 { // it was switched off or removed since the schedule was made
		f.Body("/agent_id", request.CodeInvalidValue, request.OneOf(agentIDs(agents)))
		return
	}
	known := agents[i]
	if e, ok := errors.AsType[*signal.Error](agent.NotRunnable(&known)); ok {
		f.Body("/agent_id", request.CodeInvalidValue, e.Message)
		return
	}
	w.Timeframe = cmp.Or(w.Timeframe, known.Defaults.Timeframe, signal.H1)
	w.Risk = cmp.Or(w.Risk, known.Defaults.Risk, signal.MediumRisk)
	w.Assets = slices.Clone(w.Assets)
	h.specs.name(known, w.Assets, assetsPointer, f)
	assets := w.Assets
	if len(assets) == 0 { // they are not valid; the strategy is checked nevertheless
		assets = []string{""}
	}
	seen := map[string]bool{} // reports a fault of the strategy once, not for each asset
	for i, asset := range assets {
		for _, fault := range agent.Check(known, signal.RunRequest{Asset: asset, Strategy: w.Strategy}) {
			if fault.Pointer == "/asset" {
				fault.Pointer = "/assets/" + strconv.Itoa(i)
			}
			if !seen[fault.Pointer] {
				seen[fault.Pointer] = true
				f.Body(fault.Pointer, fault.Code, fault.Detail)
			}
		}
	}
	if find {
		h.specs.find(ctx, known, w.Assets, assetsPointer, f)
	}
}

// plan sets the time of the next run of w.
func (h *ScheduleHandlers) plan(ctx context.Context, w *signal.Schedule, now time.Time) {
	w.NextRunAt = time.Time{}
	if w.Status == signal.ScheduleEnabled {
		w.NextRunAt = w.FirstRun(now, w.Fastest(func(asset string) int64 { return h.speed(ctx, asset) }))
	}
}

// create answers POST /v1/schedules.
func (h *ScheduleHandlers) create(c *call) error {
	now := h.now().UTC().Truncate(time.Millisecond)
	w := signal.Schedule{
		ID:        signal.NewScheduleID(),
		Account:   c.principal.Account,
		MaxOpen:   1,
		Status:    signal.ScheduleEnabled,
		CreatedAt: now,
		UpdatedAt: now,
	}
	agents, err := h.specs.agents.list(c.r.Context(), &c.principal)
	if err != nil {
		return err
	}
	if err := c.decode(func(o *request.Object) {
		in := h.read(o, agents)
		o.Require("agent_id", request.OneOf(agentIDs(agents)))
		h.specs.require(c, o, string(in.agent), "assets")
		o.Require("every", everyRule)
		in.apply(&w)
		if w.Agent != "" {
			h.check(c.r.Context(), &w, agents, true, &c.faults)
		}
	}); err != nil {
		return err
	}
	h.plan(c.r.Context(), &w, now)
	w, err = h.schedules.AddSchedule(c.r.Context(), w, maxSchedules)
	if err != nil {
		return err
	}
	c.confirms = false // the schedule was confirmed as it was stored
	return c.value(http.StatusOK, viewSchedule(&w))
}

// list answers GET /v1/schedules.
func (h *ScheduleHandlers) list(c *call) error {
	q := c.query
	status := request.Option(q, "status", signal.ScheduleStatuses)
	p := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	list, err := h.schedules.Schedules(c.r.Context(), c.principal.Account)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(w signal.Schedule) bool { return status != "" && w.Status != status })
	return c.encoded(encodeList("schedules", request.Cut(p, list), viewSchedule, p, len(list)))
}

// byID answers GET /v1/schedules/{id}.
func (h *ScheduleHandlers) byID(c *call) error {
	w, err := h.find(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewSchedule(&w))
}

// scheduleID returns the ID in the path, or KindNotFound if it is malformed.
func scheduleID(c *call) (signal.ScheduleID, error) {
	id, ok := signal.ParseScheduleID(c.vars["id"])
	if !ok {
		return "", signal.NotFound("schedule")
	}
	return id, nil
}

// find returns the schedule that the path names.
func (h *ScheduleHandlers) find(c *call) (signal.Schedule, error) {
	id, err := scheduleID(c)
	if err != nil {
		return signal.Schedule{}, err
	}
	return h.schedules.Schedule(c.r.Context(), c.principal.Account, id)
}

// update answers PATCH /v1/schedules/{id}. It retries if another change comes first.
func (h *ScheduleHandlers) update(c *call) error {
	agents, err := h.specs.agents.list(c.r.Context(), &c.principal)
	if err != nil {
		return err
	}
	var in scheduleInput
	if err := c.decode(func(o *request.Object) {
		in = h.read(o, agents)
		in.status, _ = request.Choice(o, "status", signal.ScheduleStatuses)
	}); err != nil {
		return err
	}
	for range maxUpdates {
		w, err := h.find(c)
		if err != nil {
			return err
		}
		changed, replan := in.apply(&w)
		if changed {
			h.check(c.r.Context(), &w, agents, in.assets != nil || in.agent != "", &c.faults)
			if err := c.faults.Err(); err != nil {
				return err
			}
			w.UpdatedAt = h.now().UTC().Truncate(time.Millisecond)
			if replan {
				h.plan(c.r.Context(), &w, w.UpdatedAt)
			}
			w, err = h.schedules.ChangeSchedule(c.r.Context(), w, replan)
		}
		if err == nil {
			return c.value(http.StatusOK, viewSchedule(&w))
		}
		if signal.CodeOf(err) != "schedule_changed" {
			return err
		}
	}
	return errBusySchedule
}

// remove answers DELETE /v1/schedules/{id}.
func (h *ScheduleHandlers) remove(c *call) error {
	id, err := scheduleID(c)
	if err != nil {
		return err
	}
	if err := h.schedules.RemoveSchedule(c.r.Context(), c.principal.Account, id); err != nil {
		return err
	}
	return c.noContent()
}

type scheduleView struct {
	ID        signal.ScheduleID     `json:"schedule_id"`
	Agent     signal.AgentID        `json:"agent_id"`
	Assets    []string              `json:"assets"`
	Strategy  string                `json:"strategy"`
	Timeframe signal.Timeframe      `json:"timeframe"`
	Risk      signal.RiskLevel      `json:"risk_level"`
	Every     string                `json:"every"`
	MaxOpen   int                   `json:"max_open"`
	Status    signal.ScheduleStatus `json:"status"`
	NextRunAt instant               `json:"next_run_at"`
	LastRunAt instant               `json:"last_run_at"`
	LastError *scheduleErrorView    `json:"last_error"`
	Failures  int                   `json:"failures"`
	Skipped   int                   `json:"skipped"`
	CreatedAt instant               `json:"created_at"`
	UpdatedAt instant               `json:"updated_at"`
}

type scheduleErrorView struct {
	Code    string  `json:"error_code"`
	Message string  `json:"message"`
	At      instant `json:"at"`
}

func viewSchedule(w *signal.Schedule) scheduleView {
	v := scheduleView{
		ID:        w.ID,
		Agent:     w.Agent,
		Assets:    list(w.Assets),
		Strategy:  w.Strategy,
		Timeframe: w.Timeframe,
		Risk:      w.Risk,
		Every:     everyBar,
		MaxOpen:   w.MaxOpen,
		Status:    w.Status,
		NextRunAt: instant(w.NextRunAt),
		LastRunAt: instant(w.LastRunAt),
		Failures:  w.Failures,
		Skipped:   w.Skipped,
		CreatedAt: instant(w.CreatedAt),
		UpdatedAt: instant(w.UpdatedAt),
	}
	if w.Every != 0 {
		v.Every = strconv.Itoa(int(w.Every/time.Minute)) + "m"
	}
	if e := w.LastError; e != nil {
		v.LastError = &scheduleErrorView{e.Code, e.Message, instant(e.At)}
	}
	return v
}
