package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Runner runs agents. See agent.Agents.
type Runner interface {
	Run(ctx context.Context, req signal.RunRequest) (agent.Outcome, error)
	// Submit queues a run, with the answer to repeated requests.
	Submit(ctx context.Context, req signal.RunRequest, reply func(signal.Job) *signal.Reply) (signal.Job, error)
}

// RunHandlers answer for runs.
type RunHandlers struct {
	runner Runner
	specs  *RunSpecs
	once   *Idempotency
}

// NewRunHandlers returns the handlers of runs.
func NewRunHandlers(runner Runner, specs *RunSpecs, once *Idempotency) *RunHandlers {
	return &RunHandlers{runner, specs, once}
}

// Routes implements Resource.
func (h *RunHandlers) Routes() []*Route {
	return []*Route{route("/v1/agents/{id}/run",
		methods{"POST": {guard: anyToken, scope: signal.AgentsRun, class: limits.Runs, handle: h.run}})}
}

// run answers POST /v1/agents/{id}/run.
func (h *RunHandlers) run(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	req, async, err := h.decode(c, body)
	if err != nil {
		return err
	}
	if req.Reply = h.once.key(c, body); req.Reply != nil {
		return h.once.replayOr(c, *req.Reply, func() error { return h.execute(c, req, async) }, nil)
	}
	return h.execute(c, req, async)
}

// execute answers with the signal of a run or with a queued job.
func (h *RunHandlers) execute(c *call, req signal.RunRequest, async bool) error {
	// A client that leaves neither cancels its run, which has its own time limit, nor frees
	// its Idempotency-Key during the run.
	ctx := context.WithoutCancel(c.r.Context())
	if async {
		return h.submit(ctx, c, req)
	}
	outcome, err := h.runner.Run(ctx, req)
	if outcome.Run != "" {
		c.Header()["X-Run-Id"] = []string{string(outcome.Run)}
	}
	if err != nil {
		return runError(outcome.Run, err)
	}
	buffer := answerBuffers.Get().(*[]byte)
	*buffer = appendSignal(slices.Grow((*buffer)[:0], 512+len(outcome.Signal.Metadata)), outcome.Signal)
	err = c.json(http.StatusOK, *buffer)
	if cap(*buffer) <= maxKeptAnswer {
		answerBuffers.Put(buffer)
	}
	return err
}

// answerBuffers have memory for the answers of runs, as *[]byte.
var answerBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxKeptAnswer is the maximum size of an answer, in bytes, whose memory is reused.
const maxKeptAnswer = 16 << 10

// runError adds the ID of the run to the error of a run.
func runError(run signal.RunID, err error) error {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return &runFailed{run: run, RunError: e}
	}
	return err
}

// submit queues a job and answers with it.
func (h *RunHandlers) submit(ctx context.Context, c *call, req signal.RunRequest) error {
	job, err := h.runner.Submit(ctx, req, func(j signal.Job) *signal.Reply {
		if req.Reply == nil {
			return nil
		}
		body, err := encode(viewJob(&j))
		if err != nil {
			return nil // cannot happen: a new job has no result yet
		}
		return &signal.Reply{ReplyKey: *req.Reply, Status: http.StatusOK, Header: jobHeader(j), Body: body}
	})
	return answerQueued(c, job, err)
}

// decode reads a run. The error holds the faults of the request, or is KindNotFound if
// the agent does not exist.
func (h *RunHandlers) decode(c *call, body []byte) (req signal.RunRequest, async bool, err error) {
	f := &c.faults
	checkIdempotencyKey(c.r.Header, f)
	o := request.ReadObject(body, f)
	if o == nil {
		return req, false, f.Err()
	}
	r := h.specs.read(c, o, signal.JobRun, c.vars["id"])
	async, _ = o.Bool("async")
	if p, ok := o.Object("parameters"); ok {
		r.Parameters = readParameters(p)
	}
	o.Close()
	err = h.specs.checkForAgent(c, &r)
	if e := f.Err(); e != nil {
		return req, false, e
	}
	return r.RunRequest, async, err
}
