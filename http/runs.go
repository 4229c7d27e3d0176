package http

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// maxAssetLength is in characters.
const maxAssetLength = 64

// runAgent answers POST /v1/agents/{id}/run.
func (s *Server) runAgent(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	req, async, err := s.decodeRun(c, body)
	if err != nil {
		return err
	}
	if req.Reply = s.replyKey(c, body); req.Reply != nil {
		return s.replayOr(c, req.Account, *req.Reply, func() error { return s.execute(c, req, async) }, nil)
	}
	return s.execute(c, req, async)
}

// execute runs or queues, and answers.
func (s *Server) execute(c *call, req signal.RunRequest, async bool) error {
	// A client that goes away does not cancel its run, which has its own time
	// limit. Nor may it free its Idempotency-Key while the run goes on.
	ctx := context.WithoutCancel(c.r.Context())
	if async {
		return s.submit(ctx, c, req)
	}
	outcome, err := s.o.Agents.Run(ctx, req)
	if outcome.Run != "" {
		c.Header()["X-Run-Id"] = []string{string(outcome.Run)}
	}
	if err != nil {
		return runError(outcome.Run, err)
	}
	return c.json(http.StatusOK, appendSignal(make([]byte, 0, 1024), outcome.Signal))
}

// runError gives the error of a run its identifier.
func runError(run signal.RunID, err error) error {
	if e, ok := err.(*signal.RunError); ok {
		return &runFailed{run: run, RunError: e}
	}
	return err
}

// submit queues a job and answers with it.
func (s *Server) submit(ctx context.Context, c *call, req signal.RunRequest) error {
	job, err := s.o.Agents.Submit(ctx, req, func(j signal.Job) *signal.Reply {
		if req.Reply == nil {
			return nil
		}
		body, err := encode(viewJob(&j))
		if err != nil {
			return nil // cannot be: a new job has no result yet
		}
		return &signal.Reply{ReplyKey: *req.Reply, Status: http.StatusOK, Header: jobHeader(j), Body: body}
	})
	if err != nil {
		return err
	}
	for name, value := range jobHeader(job) {
		c.Header().Set(name, value)
	}
	return c.value(http.StatusOK, viewJob(&job))
}

// jobHeader is what the answer to an asynchronous run says beside the job.
func jobHeader(j signal.Job) map[string]string {
	return map[string]string{"Location": "/v1/jobs/" + string(j.ID), "Retry-After": "1", "X-Run-Id": string(j.Run)}
}

// decodeRun reads what shall be run. The error is about the request's values, or
// that there is no such agent.
func (s *Server) decodeRun(c *call, body []byte) (req signal.RunRequest, async bool, err error) {
	f := &c.faults
	checkIdempotencyKey(c.r.Header, f)
	o := request.ReadObject(body, f)
	if o == nil {
		return req, false, f.Err()
	}
	req = signal.RunRequest{Account: c.principal.Account}
	s.requireWork(o, c.vars["id"], "asset")
	req.Asset = decodeAsset(o)
	given := decodeManner(o, &req)
	async, _ = o.Bool("async")
	if p, ok := o.Object("parameters"); ok {
		req.Parameters = decodeParameters(p)
	}
	o.Close()
	known, err := s.checkForAgent(c, &req, nil, given, f, func(a signal.Agent) []agent.Fault { return agent.Check(a, req) })
	if e := f.Err(); e != nil {
		return req, false, e
	}
	req.Agent = known.ID
	return req, async, err
}

const (
	assetRule  = "must be a name such as BTC: GET /v1/assets lists those that there are"
	assetsRule = "must be a list of 1 to 50 names such as BTC: GET /v1/assets lists those that there are"
)

// requireWork notes that what shall be run is not said: its asset, or its assets if that
// is the member's name, and its strategy. What they must be depends on the agent, if
// there is one of that name.
func (s *Server) requireWork(o *request.Object, id, asset string) {
	if o.Has(asset) && o.Has("strategy") { // nearly always
		return
	}
	a, err := s.agentNamed(id)
	if err != nil {
		a.Strategies = strategies
	}
	rule := assetRule
	switch {
	case asset == "assets":
		rule = assetsRule
	case a.Category == signal.Weather:
		rule = request.OneOf(agent.Commodities)
	case a.Category == signal.Content:
		rule = "must be a subject such as standing desk"
	}
	o.Require(asset, rule)
	o.Require("strategy", request.OneOf(a.Strategies))
}

// decodeAsset reads the asset, trimmed; "" if there is none or it is not valid.
func decodeAsset(o *request.Object) string {
	asset, ok := o.Text("asset")
	if !ok {
		return ""
	}
	asset = strings.TrimSpace(asset)
	if code, detail := request.CheckText(asset, maxAssetLength); code != "" {
		o.Bad("asset", code, detail)
		return ""
	}
	return asset
}

// decodeParameters reads the options of all agents; whose they are is checked by
// agent.Check.
func decodeParameters(o *request.Object) signal.Parameters {
	var p signal.Parameters
	const textsRule = "must be an array of strings"
	anyText := func(string) (code, detail string) { return "", "" }
	if region, ok := o.Text("region"); ok {
		if p.Region = region; region == "" {
			o.Bad("region", request.CodeInvalidValue, request.OneOf(agent.Regions))
		}
	}
	p.Keywords, _ = o.Texts("keywords", maxPhrases, textsRule, anyText)
	p.Features, _ = o.Texts("features", maxPhrases, textsRule, anyText)
	if locale, ok := o.Text("locale"); ok {
		if p.Locale = locale; locale == "" {
			o.Bad("locale", request.CodeTooShort, "must not be empty")
		}
	}
	o.Close()
	return p
}

// maxPhrases is how many keywords or features a run may have.
const maxPhrases = 20

// checkForAgent notes what the agent of the path cannot accept by check, and returns the
// agent. If there is none of that name the body is held against the agent whose
// strategy it names, so that a body that is invalid for every agent is told so
// first; else the error is KindNotFound.
func (s *Server) checkForAgent(c *call, req *signal.RunRequest, assets []string, strategyGiven bool, f *request.Faults,
	check func(signal.Agent) []agent.Fault) (signal.Agent, error) {
	a, missing := s.agentNamed(c.vars["id"])
	if missing != nil {
		all := signal.Agents()
		i := slices.IndexFunc(all, func(a signal.Agent) bool { return a.Has(req.Strategy) })
		if i < 0 {
			if strategyGiven {
				f.Body("/strategy", request.CodeInvalidValue, request.OneOf(strategies))
			}
			return a, missing
		}
		a = all[i]
	} else if strategyGiven && req.Strategy == "" {
		f.Body("/strategy", request.CodeInvalidValue, request.OneOf(a.Strategies))
	}
	at, one := assetsPointer, []string{req.Asset}
	if assets == nil {
		assets, at = one, assetPointer
	}
	s.nameAssets(a, assets, at, f)
	req.Asset = one[0]
	for _, fault := range check(a) {
		f.Body(fault.Pointer, fault.Code, fault.Detail)
	}
	s.findAssets(c.r.Context(), a, assets, at, f)
	return a, missing
}

// strategies are those of all agents.
var strategies = func() []string {
	var all []string
	for _, a := range signal.Agents() {
		all = append(all, a.Strategies...)
	}
	return all
}()
