package http

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Submitter records what the agents of accounts conclude. See agent.Agents.
type Submitter interface {
	Accept(ctx context.Context, req signal.RunRequest) (agent.Outcome, error)
}

// Limits of submissions.
const (
	maxIndicators    = 20     // names
	maxIndicatorName = 80     // characters
	maxReasoning     = 2000   // characters
	maxParameters    = 4096   // bytes
	maxText          = 20_000 // characters
	maxReference     = 100    // characters
)

// acceptAttempts is how often a submission is made whose agent was changed since it was read.
const acceptAttempts = 3

// SubmissionHandlers answer for signals that agents of accounts submit.
type SubmissionHandlers struct {
	submitter Submitter
	agents    *AgentCatalogue
	assets    *RunSpecs
	once      *Idempotency
	retention time.Duration // of signals
}

// NewSubmissionHandlers returns the handlers of submissions. retention is how long signals are kept.
func NewSubmissionHandlers(
	submitter Submitter, agents *AgentCatalogue, specs *RunSpecs, once *Idempotency, retention time.Duration,
) *SubmissionHandlers {
	return &SubmissionHandlers{submitter, agents, specs, once, retention}
}

// Routes implements Resource.
func (h *SubmissionHandlers) Routes() []*Route {
	return []*Route{route("/v1/agents/{id}/signals",
		methods{"POST": {guard: anyToken, scope: signal.AgentsRun, class: limits.Runs, handle: h.submit}})}
}

// submit answers POST /v1/agents/{id}/signals.
func (h *SubmissionHandlers) submit(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	checkIdempotencyKey(c.r.Header, &c.faults)
	if err := c.faults.Err(); err != nil {
		return err
	}
	a, err := h.agents.known(c.r.Context(), &c.principal, c.vars["id"])
	if err == nil && a.Account == "" {
		_, err = ownID(c)
	}
	if err != nil {
		return err
	}
	req, err := h.read(c, body, &a)
	if err != nil { // another node may have changed the agent
		now, unread := h.agents.named(c.r.Context(), &c.principal, c.vars["id"])
		if unread != nil {
			return unread
		}
		if now.Revision == a.Revision {
			return err
		}
		c.faults = request.Faults{}
		if req, err = h.read(c, body, &now); err != nil {
			return err
		}
	}
	first := func() error { return h.accept(c, body, req) }
	if text := req.Submission.Reference; text != "" {
		req.Reference = h.reference(&req, text)
		inner := first
		first = func() error {
			kept, err := h.once.first(c.r.Context(), req.Account, *req.Reference, inner)
			if kept == nil {
				return usedReference(err)
			}
			if req.Reply != nil {
				h.once.keep(c.r.Context(), c, *req.Reply, replyBody(kept), false)
			}
			return h.once.replay(c, kept, nil)
		}
	}
	if req.Reply = h.once.key(c, body); req.Reply != nil {
		return h.once.replayOr(c, *req.Reply, first, nil)
	}
	return first()
}

// read reads the submission of an agent.
func (h *SubmissionHandlers) read(c *call, body []byte, a *signal.Agent) (signal.RunRequest, error) {
	req := signal.RunRequest{Account: c.principal.Account, Agent: a.ID, Own: a, Submission: &signal.Submission{}}
	if o := request.ReadObject(body, &c.faults); o != nil {
		o.Require("asset", assetRule)
		o.Require("strategy", request.OneOf(a.Strategies))
		req.Asset = readAsset(o)
		req.Strategy, _ = request.Choice(o, "strategy", a.Strategies)
		readSubmission(o, &req)
		o.Close()
		h.checkAsset(c, &req)
	}
	return req, c.faults.Err()
}

// checkAsset gives the asset its catalogue name, and records the fault of one that needs prices and has none.
func (h *SubmissionHandlers) checkAsset(c *call, req *signal.RunRequest) {
	one := []string{req.Asset}
	h.assets.name(*req.Own, one, assetPointer, &c.faults)
	req.Asset = one[0]
	h.assets.find(c.r.Context(), *req.Own, one, assetPointer, &c.faults)
}

// reference returns the key under which the answer to a submission is kept as long as its signal.
func (h *SubmissionHandlers) reference(req *signal.RunRequest, text string) *signal.ReplyKey {
	same := strings.Join([]string{req.Asset, req.Strategy, string(req.Submission.Direction)}, "\x00")
	digests := h.once.sealer.Digests([]byte(same), "reference "+string(req.Account)+" "+string(req.Agent)+" "+text)
	return &signal.ReplyKey{Method: "REFERENCE", Path: string(req.Agent), Key: text, RequestHash: digests[0],
		FormerHashes: digests[1:], Claim: h.once.replies.NewClaim(), Keep: h.retention}
}

// usedReference names the member that a mismatch is about, which of an Idempotency-Key is a header.
func usedReference(err error) error {
	if signal.KindOf(err) == signal.KindMismatch {
		return &signal.Error{Kind: signal.KindConflict, Code: "reference_used",
			Message: "the agent has submitted another asset, strategy or direction under this reference"}
	}
	return err
}

// accept answers with the signal of a submission. It reads agent and body again if the agent was changed meanwhile.
func (h *SubmissionHandlers) accept(c *call, body []byte, req signal.RunRequest) error {
	ctx := context.WithoutCancel(c.r.Context())
	var outcome agent.Outcome
	var err error
	for range acceptAttempts {
		if outcome, err = h.submitter.Accept(ctx, req); !byAgent(err) {
			break
		}
		a, unread := h.agents.own.Agent(ctx, req.Account, req.Agent)
		if unread != nil {
			return unread
		}
		if a.Revision == req.Own.Revision {
			break
		}
		again, invalid := h.read(c, body, &a)
		if invalid != nil {
			return invalid
		}
		again.Reply, again.Reference = req.Reply, req.Reference
		req = again
	}
	if outcome.Run != "" {
		c.Header()["X-Run-Id"] = []string{string(outcome.Run)}
	}
	if err != nil {
		return submissionError(&c.faults, outcome.Run, err)
	}
	return c.json(http.StatusOK, appendSignal(make([]byte, 0, 512+len(outcome.Signal.Metadata)), outcome.Signal))
}

// byAgent reports whether a submission might not have been refused if the agent was read again.
func byAgent(err error) bool {
	if _, invalid := errors.AsType[*agent.InvalidError](err); invalid {
		return true
	}
	code := signal.CodeOf(err)
	return code == signal.CodeAgentChanged || code == "price_moved"
}

// submissionError returns the error of a submission as it is answered.
func submissionError(faults *request.Faults, run signal.RunID, err error) error {
	if e, ok := errors.AsType[*agent.InvalidError](err); ok {
		for _, f := range e.Faults {
			faults.Body(f.Pointer, f.Code, f.Detail)
		}
		return faults.Err()
	}
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		failed := &runFailed{run: run, RunError: e}
		if slices.Contains([]signal.ErrorCode{signal.DataUnavailable, signal.StaleData, signal.MarketClosed}, e.Code) {
			failed.code = "price_unavailable"
		}
		return failed
	}
	return err
}

// ReadReply reads what the agent of a run, req.Own, has answered to its question: a submission without the members that the
// run has. body is a valid JSON object. The error says what is not valid.
func ReadReply(body []byte, req *signal.RunRequest) (*signal.Submission, error) {
	var faults request.Faults
	if o := request.ReadObject(body, &faults); o != nil {
		answered := *req
		answered.Submission = &signal.Submission{}
		readSubmission(o, &answered)
		if o.Has("timeframe") && answered.Timeframe != req.Timeframe {
			o.Bad("timeframe", request.CodeInvalidValue, "must be that of the question, or absent")
		}
		if o.Has("risk_level") && answered.Risk != req.Risk {
			o.Bad("risk_level", request.CodeInvalidValue, "must be that of the question, or absent")
		}
		if o.Has("reference") {
			o.Bad("reference", request.CodeUnknown, "belongs to submissions: what identifies a run is its run_id")
		}
		o.Close()
		if !faults.Any() {
			return answered.Submission, nil
		}
	}
	invalid, ok := errors.AsType[*request.InvalidError](faults.Err())
	if !ok {
		return nil, faults.Err()
	}
	var texts []string
	for _, f := range invalid.Faults[:min(len(invalid.Faults), maxReplyFaults)] {
		texts = append(texts, strings.TrimPrefix(f.Name, "/")+": "+f.Detail)
	}
	return nil, errors.New(strings.Join(texts, "; "))
}

// maxReplyFaults is how many faults of a reply are named.
const maxReplyFaults = 3

// readSubmission reads what an agent has concluded: all members but asset and strategy.
func readSubmission(o *request.Object, req *signal.RunRequest) {
	a, s := req.Own, req.Submission
	withDefaults(req)
	if t, ok := request.Choice(o, "timeframe", signal.Timeframes); ok {
		req.Timeframe = t
	}
	if risk, ok := request.Choice(o, "risk_level", signal.RiskLevels); ok {
		req.Risk = risk
	}
	s.Direction, _ = request.Choice(o, "direction", signal.Directions)
	if o.Has("expires_in") {
		s.ExpiresIn = readExpiresIn(o)
	}
	if n, ok := o.Number("confidence", 0, 1); ok {
		s.Claim = &n
	}
	if a.Category == signal.Trading {
		o.Require("direction", request.OneOf(signal.Directions))
		readPrices(o, s)
	} else {
		readContent(o, a, s)
	}
	s.Indicators, _ = o.Texts("indicators", maxIndicators, "must be a list of names", func(item string) (code, detail string) {
		return request.CheckText(item, maxIndicatorName)
	})
	if text, ok := o.Text("reasoning"); ok {
		s.Reasoning = strings.TrimSpace(text)
		checkProse(o, "reasoning", s.Reasoning, maxReasoning)
	}
	if raw, ok := o.RawObject("parameters"); ok {
		s.Parameters = json.RawMessage(raw)
		var any map[string]any
		switch {
		case len(raw) > maxParameters:
			o.Bad("parameters", request.CodeTooLong, "must have at most 4096 bytes")
		case !jsontext.Value(raw).IsValid():
			o.Bad("parameters", request.CodeDuplicate, "must not name a member twice")
		case json.Unmarshal(raw, &any) != nil: // a reader of the record could not compare them
			o.Bad("parameters", request.CodeOutOfRange, "must have no number beyond 1.8e308")
		}
	}
	if text := readLine(o, "reference", maxReference); text != nil {
		s.Reference = *text
	}
}

// withDefaults sets the members of a submission that have defaults.
func withDefaults(req *signal.RunRequest) {
	d, s := req.Own.Defaults, req.Submission
	req.Timeframe, req.Risk = cmp.Or(d.Timeframe, signal.H1), cmp.Or(d.Risk, signal.MediumRisk)
	s.ExpiresIn = d.ExpiresIn
	if req.Own.Category == signal.Trading {
		s.Stop, s.Target = d.Stop, d.Target
	}
}

// readPrices reads the levels of a trading agent.
func readPrices(o *request.Object, s *signal.Submission) {
	if o.Has("stop") {
		s.Stop = readLevel(o, "stop", stopUnits)
	}
	if o.Has("target") {
		s.Target = readLevel(o, "target", targetUnits)
	}
	if n, ok := o.Number("price", 0, maxLevel); ok {
		if s.Price = n; n == 0 {
			o.Bad("price", request.CodeOutOfRange, "must be above 0")
		}
	}
}

// readContent reads the text of an agent for content or weather.
func readContent(o *request.Object, a *signal.Agent, s *signal.Submission) {
	name := "content"
	if a.Category == signal.Weather {
		name = "outlook"
	}
	o.Require(name, "must be 1 to 20000 characters")
	if text, ok := o.Text(name); ok {
		s.Text = text
		checkProse(o, name, strings.TrimSpace(text), maxText)
	}
	if s.Direction == "" {
		s.Direction = signal.Long
	}
	for _, prices := range []string{"stop", "target", "price"} {
		if o.Has(prices) {
			o.Bad(prices, request.CodeUnknown, "signals of category "+string(a.Category)+" have no prices")
		}
	}
}

// checkProse records the fault of a text that may have several lines.
func checkProse(o *request.Object, name, text string, limit int) {
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		o.Bad(name, request.CodeTooShort, request.NotEmpty)
	case n > limit:
		o.Bad(name, request.CodeTooLong, request.AtMost(limit))
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }):
		o.Bad(name, request.CodeFormat, "must not have control characters")
	}
}
