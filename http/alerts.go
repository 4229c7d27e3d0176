package http

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/maphash"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/chartalert"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Limits of alerts.
const (
	maxShownBody = 1 << 10 // characters of a body in the list of requests
	// barsToExpiry is after how many bars of a chart a signal expires whose interval is no timeframe of the service.
	barsToExpiry = 24
	// exitsAtOnce is how many signals one append ends.
	exitsAtOnce = 500
	// alertAttempts is how often an alert is carried out that others about the same asset overtake.
	alertAttempts = 10
	// alertTurns is how many alerts are carried out at once, at most one about a topic.
	alertTurns = 1024
	// alertWait is the default of AlertOptions.Wait. Chart programs wait for 3 s.
	alertWait = 1500 * time.Millisecond
	// queueTimeout limits the queuing of one that takes longer.
	queueTimeout = 500 * time.Millisecond
	// queuedFor is how old a queued alert may be when it is carried out, and retryQueued the pause between two attempts.
	queuedFor   = time.Minute
	retryQueued = time.Second
	// maxNoted is how many intakes a node remembers to have noted.
	maxNoted = 10_000
	// noteTimeout limits the writing of a refused request to the list of its intake.
	noteTimeout = time.Second
)

// errNoIntake refuses a token that no intake has.
var errNoIntake = notFound("intake", "the address of the alert is wrong, or the intake was revoked: make a new one")

// AlertLog carries out alerts that make no signal. See eventlog.Log.
type AlertLog interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// AlertHandlers answer alerts of chart programs.
type AlertHandlers struct {
	AlertOptions
	log   *slog.Logger
	seed  maphash.Seed
	turns [alertTurns]chan struct{} // by the hash of a topic: holds one while an alert about it is carried out
	marks alertMarks

	mu    sync.Mutex
	noted map[signal.IntakeID]time.Time // when the last alert over a limit was noted
}

// AlertOptions are what alerts need. All but Wait are required.
type AlertOptions struct {
	Intakes     Intakes
	Submissions *SubmissionHandlers
	Signals     *SignalHandlers
	Events      AlertLog
	Now         func() time.Time
	Log         *slog.Logger
	Wait        time.Duration // how long an alert may take from its first byte until it is queued; default 1.5 s
}

// NewAlertHandlers returns the handlers of alerts.
func NewAlertHandlers(o AlertOptions) *AlertHandlers {
	o.Wait = cmp.Or(o.Wait, alertWait)
	h := &AlertHandlers{AlertOptions: o, log: o.Log.With("component", "http"), seed: maphash.MakeSeed(),
		noted: map[signal.IntakeID]time.Time{}}
	for i := range h.turns {
		h.turns[i] = make(chan struct{}, 1)
	}
	return h
}

// Routes implements Resource.
func (h *AlertHandlers) Routes() []*Route {
	e := route("/v1/intake/{token}", methods{"POST": {guard: inPath, authenticate: h.authenticate,
		handle: h.receive}})
	e.bodyLimit = chartalert.MaxBytes
	return []*Route{e}
}

// authenticate finds the intake of the token in the path. It counts wrong tokens by address.
func (h *AlertHandlers) authenticate(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), h.Wait)
	defer cancel()
	a, in, err := h.Intakes.OfToken(ctx, credential.DigestOf(c.vars["token"]).String())
	if signal.KindOf(err) == signal.KindNotFound {
		if limited := c.server.limits.take(c, limits.Failures); limited != nil {
			return limited
		}
		return errNoIntake
	}
	if err != nil {
		return err
	}
	c.principal = signal.Principal{Account: a.Account}
	c.alert = &alert{agent: a, intake: in, received: h.Now().Truncate(time.Millisecond)}
	return nil
}

// alert is an alert that an intake has received.
type alert struct {
	agent    signal.Agent
	intake   signal.Intake
	received time.Time
	body     []byte
	claim    chan struct{} // see signal.Alert
	job      *signal.Job   // that carries it out; nil: its own request does
	fresh    bool          // its marks are read from the store, whatever the node remembers

	chartalert.Alert
	understood string // in words; empty: nothing
	asset      string // by its catalogue name
	digest     string // of the intake and the body
}

// receive answers POST /v1/intake/{token}.
func (h *AlertHandlers) receive(c *call) error {
	a := c.alert
	for _, class := range []limits.Class{limits.Intakes, limits.Runs} {
		if err := c.server.limits.take(c, class); err != nil {
			if h.firstOver(a.intake.ID) {
				h.note(c, err)
			}
			return err
		}
	}
	err := c.faults.Err()
	if err == nil {
		a.body, err = c.raw()
	}
	if err == nil {
		var answer alertAnswer
		answer, err = h.bounded(c, a)
		if answer.run != "" {
			c.Header()["X-Run-Id"] = []string{string(answer.run)}
		}
		if err == nil {
			c.confirms = answer.repeated
			return c.json(cmp.Or(answer.status, http.StatusOK), answer.body)
		}
	}
	h.note(c, err)
	return err
}

// firstOver reports whether an alert over a limit is the first of its intake within a minute. The others are not noted, so
// that they do not push those out of the list that were accepted.
func (h *AlertHandlers) firstOver(id signal.IntakeID) bool {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.noted[id]) < time.Minute {
		return false
	}
	if len(h.noted) >= maxNoted {
		clear(h.noted)
	}
	h.noted[id] = now
	return true
}

// note adds a refused request to the list of its intake.
func (h *AlertHandlers) note(c *call, err error) {
	p := newProblem(err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), noteTimeout)
	defer cancel()
	a := c.alert
	if err := h.Intakes.NoteRequest(ctx, a.agent.Account, a.intake.ID,
		a.request(p.Status, "", p.document(shownPath(c.r), c.id))); err != nil {
		h.log.Warn("a refused alert is not in the list of its intake", "request", c.id, "err", err)
	}
}

// request returns what the list of the intake's requests has of a.
func (a *alert) request(status int, reason string, problem []byte) []byte {
	if problem == nil {
		problem = null
	}
	if a.job != nil {
		status = http.StatusAccepted
	}
	body := chartalert.Mask(a.body)
	if len(body) > maxShownBody {
		body = strings.ToValidUTF8(body[:maxShownBody], "")
	}
	b, err := json.Marshal(intakeRequest{status, a.understood, reason, problem, body})
	if err != nil {
		panic("encode request of an intake: " + err.Error()) // cannot happen: it holds texts, and JSON of this package
	}
	return b
}

// alertAnswer is the answer to an alert that was accepted.
type alertAnswer struct {
	status   int // 0: 200
	body     []byte
	run      signal.RunID
	repeated bool // of an earlier alert, which the store has
}

// carryOut makes what a asks for, or finds that it was made.
func (h *AlertHandlers) carryOut(ctx context.Context, a *alert) (answer alertAnswer, err error) {
	for range alertAttempts {
		revision := a.agent.Revision
		answer, err = h.inTurn(ctx, a)
		_, invalid := errors.AsType[*request.InvalidError](err)
		switch {
		case signal.CodeOf(err) == "alert_overtaken":
			a.fresh = true
		case signal.CodeOf(err) == "agent_changed" || invalid: // by what the agent was
			if gone := h.reread(ctx, a); gone != nil {
				return answer, gone
			}
			if invalid && a.agent.Revision == revision {
				return answer, err
			}
		default:
			return answer, err
		}
	}
	return answer, errOvertaken
}

// inTurn is an attempt of carryOut. Those that this node has about the same follow each other, so that they do not overtake
// each other again and again.
func (h *AlertHandlers) inTurn(ctx context.Context, a *alert) (alertAnswer, error) {
	if err := h.understand(ctx, a); err != nil {
		return alertAnswer{}, err
	}
	turn := h.turns[maphash.String(h.seed, a.topic(a.Strategy))%alertTurns]
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return alertAnswer{}, ctx.Err()
	}
	defer func() { <-turn }()
	return h.attempt(ctx, a)
}

// errOvertaken is the answer to an alert that others have overtaken on other nodes as often as it was tried.
var errOvertaken = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: time.Second,
	Message: "too many alerts about the asset arrive at once"}

// understand parses the body, and finds the asset and the strategy.
func (h *AlertHandlers) understand(ctx context.Context, a *alert) error {
	var f request.Faults
	var err error
	if a.Alert, err = chartalert.Parse(a.body); err != nil {
		f.Body("", signal.CodeOf(err), messageOf(err))
		return f.Err()
	}
	a.understood = a.String()
	a.asset = h.assetOf(ctx, a, &f)
	if name := a.Strategy; name == "" {
		a.Strategy = a.agent.Strategies[0]
		if !a.opens() {
			a.Strategy = "" // all
		}
	} else if !a.agent.Has(name) {
		detail := "the agent has no strategy " + spelling.Shorten(name) + ": " + request.OneOf(a.agent.Strategies)
		if near := spelling.Nearest(name, a.agent.Strategies); len(near) > 0 {
			detail = "the agent has no strategy " + spelling.Shorten(name) + ": " + spelling.DidYouMean(near)
		}
		f.Body("", request.CodeInvalidValue, detail)
	}
	digests := h.Submissions.once.sealer.Digests(a.body, "alert "+string(a.intake.ID))
	a.digest = hex.EncodeToString(digests[0][:])
	return f.Err()
}

func messageOf(err error) string {
	if e, ok := errors.AsType[*signal.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// opens reports whether a opens a signal.
func (a *alert) opens() bool {
	return a.Action == chartalert.OpenLong || a.Action == chartalert.OpenShort
}

// assetOf returns the catalogue name of the alert's asset: as it is written, or without what chart programs add.
func (h *AlertHandlers) assetOf(ctx context.Context, a *alert, f *request.Faults) string {
	names := h.Submissions.assets.assets
	for _, written := range []string{a.Asset, a.Symbol} {
		if name := names.Name(written); names.Known(ctx, name) {
			return name
		}
	}
	name := names.Name(a.Symbol)
	nearest, ok := names.Check(ctx, name)
	if !ok {
		f.Body("", request.CodeInvalidValue, "no source has the asset "+spelling.Shorten(a.Asset)+": "+adviceOn(nearest))
	}
	return name
}

// attempt carries out a once. KindConflict, "alert_overtaken" or "agent_changed": it is to be tried again.
func (h *AlertHandlers) attempt(ctx context.Context, a *alert) (alertAnswer, error) {
	account := a.agent.Account
	strategies := []string{a.Strategy}
	if a.Strategy == "" {
		strategies = a.agent.Strategies
	}
	var topics []string
	for _, s := range strategies {
		topics = append(topics, a.topic(s))
	}
	marks, err := h.marksOf(ctx, a, topics)
	if err != nil {
		return alertAnswer{}, err
	}
	if answer, ok := a.repeated(marks); ok {
		if !a.fresh {
			return alertAnswer{}, errRemembered
		}
		return h.again(ctx, account, answer)
	}
	// Signals of the direction that the alert asks for, and those that it ends.
	same, ends := signal.Long, signal.Direction("")
	switch a.Action {
	case chartalert.OpenLong:
		ends = signal.Short
	case chartalert.OpenShort:
		same, ends = signal.Short, signal.Long
	case chartalert.CloseLong:
		ends = signal.Long
	case chartalert.CloseShort:
		ends = signal.Short
	case chartalert.Close:
	}
	if a.outdated(marks) {
		return alertAnswer{}, expired("a later alert about the asset was carried out before it", nil)
	}
	carried := &signal.Alert{ID: signal.NewEventID(), Intake: a.intake.ID, Topics: marks, Digest: a.digest, Received: a.received,
		Job: a.job, Claim: a.claim}
	if a.opens() && a.Position != "" {
		for open, err := range h.open(ctx, a, same) {
			if err != nil {
				return alertAnswer{}, err
			}
			if len(open) > 0 {
				return h.settle(ctx, a, carried, alertResult{Reason: "already_open"})
			}
		}
	}
	var ended []signal.SignalID
	for open, err := range h.open(ctx, a, ends) {
		if err != nil {
			return alertAnswer{}, err
		}
		if len(carried.Exits) > 0 { // one append ends those of one page
			if !a.fresh {
				return alertAnswer{}, errRemembered
			}
			only := signal.Change{Account: account, Agent: &a.agent, Alert: &signal.Alert{Exits: carried.Exits}}
			if _, err := h.Events.Append(ctx, only); err != nil {
				return alertAnswer{}, err
			}
		}
		ended, carried.Exits = append(ended, open...), open
	}
	if a.opens() {
		return h.submit(ctx, a, carried, same)
	}
	result := alertResult{Reason: "closed", Closed: &ended}
	if len(ended) == 0 {
		result.Reason = "nothing_open"
	}
	return h.settle(ctx, a, carried, result)
}

// errRemembered lets an alert be tried again by the marks of the store, before something that no append refuses.
var errRemembered = &signal.Error{Kind: signal.KindConflict, Code: "alert_overtaken",
	Message: "the node may have missed an alert"}

// marksOf returns the marks of topics of a: those that this node has left, or those of the store.
func (h *AlertHandlers) marksOf(ctx context.Context, a *alert, topics []string) ([]signal.AlertTopic, error) {
	if !a.fresh {
		if list, all := h.marks.left(a.agent.Account, topics); all {
			return list, nil
		}
		a.fresh = true
	}
	return h.Intakes.Marks(ctx, a.agent.Account, topics)
}

// again answers a repeated alert: with the signal that the first has made, or its answer.
func (h *AlertHandlers) again(ctx context.Context, account signal.AccountID, answer string) (alertAnswer, error) {
	id, ok := signal.ParseSignalID(answer)
	if !ok {
		return alertAnswer{body: []byte(answer), repeated: true}, nil
	}
	found, err := h.Signals.byIDOf(ctx, &signal.Principal{Account: account}, id)
	if err != nil {
		return alertAnswer{}, err
	}
	return alertAnswer{body: appendSignal(nil, found), run: found.Run, repeated: true}, nil
}

// open yields signals of the alert's agent, asset and strategy that are open and not asked to end, the newest first, at most
// exitsAtOnce in a page. An empty direction is both. An error is the last that it yields.
func (h *AlertHandlers) open(ctx context.Context, a *alert, d signal.Direction) iter.Seq2[[]signal.SignalID, error] {
	q := catalogue.Query{Account: a.agent.Account, Agent: a.agent.ID, Asset: a.asset, Strategy: a.Strategy, Direction: d,
		Status: signal.Open, Limit: exitsAtOnce}
	return func(yield func([]signal.SignalID, error) bool) {
		var before signal.Location
		for {
			at, total, err := h.Signals.catalogue.Locations(ctx, q, before)
			var list []*signal.Signal
			if err == nil && total > 0 {
				list, err = h.Signals.signals.SignalsAt(ctx, q.Account, at)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			var ids []signal.SignalID
			for _, s := range list {
				if s.Closing == nil && s.ExitRequested.IsZero() {
					ids = append(ids, s.ID)
				}
			}
			if len(ids) > 0 && !yield(ids, nil) || len(at) < q.Limit {
				return
			}
			before = at[len(at)-1]
		}
	}
}

// alertResult is the answer to an alert that makes no signal.
type alertResult struct {
	Signal *struct{}          `json:"signal"` // null
	Reason string             `json:"reason"`
	Closed *[]signal.SignalID `json:"closed,omitempty"`
}

// settle carries out an alert that makes no signal, and answers.
func (h *AlertHandlers) settle(ctx context.Context, a *alert, carried *signal.Alert, result alertResult) (alertAnswer, error) {
	if result.Closed != nil {
		*result.Closed = list(*result.Closed)
	}
	body, err := encode(result)
	if err != nil {
		return alertAnswer{}, err
	}
	carried.Answer, carried.Request = string(body), a.request(http.StatusOK, result.Reason, nil)
	if _, err = h.Events.Append(ctx, signal.Change{Account: a.agent.Account, Agent: &a.agent, Alert: carried}); err == nil {
		h.marks.remember(a.agent.Account, carried, "")
	}
	return alertAnswer{body: body}, err
}

// submit carries out an alert that opens a signal.
func (h *AlertHandlers) submit(ctx context.Context, a *alert, carried *signal.Alert, d signal.Direction) (alertAnswer, error) {
	carried.Request = a.request(http.StatusOK, "", nil)
	req := signal.RunRequest{Account: a.agent.Account, Agent: a.agent.ID, Own: &a.agent, Asset: a.asset, Strategy: a.Strategy,
		Alert: carried, Submission: &signal.Submission{Direction: d, Price: a.Price, Claim: a.Confidence,
			Parameters: a.Parameters, Reference: a.Reference}}
	s := req.Submission
	withDefaults(&req)
	if a.Stop.Value > 0 {
		s.Stop = a.Stop
	}
	if a.Target.Value > 0 {
		s.Target = a.Target
	}
	if a.Interval != "" {
		if req.Timeframe = a.Timeframe; a.Bar != a.Timeframe.Duration() {
			s.Interval = a.Interval
			s.ExpiresIn = min(max(barsToExpiry*a.Bar, minExpiresIn*time.Second), maxExpiresIn*time.Second)
		}
	}
	var answer alertAnswer
	first := func() error {
		outcome, err := h.Submissions.submitter.Accept(ctx, req)
		if answer.run = outcome.Run; err != nil {
			var f request.Faults
			return submissionError(&f, outcome.Run, err)
		}
		h.marks.remember(req.Account, carried, outcome.Signal.ID)
		answer.body = appendSignal(make([]byte, 0, 512+len(outcome.Signal.Metadata)), outcome.Signal)
		return nil
	}
	if a.Reference == "" {
		err := first() // which sets answer
		return answer, err
	}
	req.Reference = h.Submissions.reference(&req, a.Reference)
	kept, err := h.Submissions.once.first(ctx, req.Account, *req.Reference, first)
	if kept != nil {
		answer = alertAnswer{body: replyBody(kept), run: signal.RunID(kept.Header["X-Run-Id"]), repeated: true}
	}
	return answer, usedReference(err)
}
