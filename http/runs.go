package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

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
		return s.replayOr(c, *req.Reply, func() error { return s.execute(c, req, async) }, nil)
	}
	return s.execute(c, req, async)
}

// execute answers with the signal of a run or with a queued job.
func (s *Server) execute(c *call, req signal.RunRequest, async bool) error {
	// A client that leaves neither cancels its run, which has its own time limit, nor frees
	// its Idempotency-Key during the run.
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
	room := answerRooms.Get().(*[]byte)
	*room = appendSignal(slices.Grow((*room)[:0], 512+len(outcome.Signal.Metadata)), outcome.Signal)
	err = c.json(http.StatusOK, *room)
	if cap(*room) <= maxKeptAnswer {
		answerRooms.Put(room)
	}
	return err
}

// answerRooms has memory for the answers of runs, as *[]byte.
var answerRooms = sync.Pool{New: func() any { return new([]byte) }}

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
func (s *Server) submit(ctx context.Context, c *call, req signal.RunRequest) error {
	job, err := s.o.Agents.Submit(ctx, req, func(j signal.Job) *signal.Reply {
		if req.Reply == nil {
			return nil
		}
		body, err := encode(viewJob(&j))
		if err != nil {
			return nil // cannot happen: a new job has no result yet
		}
		return &signal.Reply{ReplyKey: *req.Reply, Status: http.StatusOK, Header: jobHeader(j), Body: body}
	})
	return c.queued(job, err)
}

// queued answers with a queued job, unless queueing it has failed.
func (c *call) queued(job signal.Job, err error) error {
	if err != nil {
		return err
	}
	for name, value := range jobHeader(job) {
		c.Header().Set(name, value)
	}
	return c.value(http.StatusOK, viewJob(&job))
}

// jobHeader returns the headers of the answer with a queued job.
func jobHeader(j signal.Job) map[string]string {
	return map[string]string{"Location": "/v1/jobs/" + string(j.ID), "Retry-After": "1", "X-Run-Id": string(j.Run)}
}

// decodeRun reads a run. The error holds the faults of the request, or is KindNotFound if
// the agent does not exist.
func (s *Server) decodeRun(c *call, body []byte) (req signal.RunRequest, async bool, err error) {
	f := &c.faults
	checkIdempotencyKey(c.r.Header, f)
	o := request.ReadObject(body, f)
	if o == nil {
		return req, false, f.Err()
	}
	r := s.readRunSpec(c, o, signal.JobRun, c.vars["id"])
	async, _ = o.Bool("async")
	if p, ok := o.Object("parameters"); ok {
		r.Parameters = readParameters(p)
	}
	o.Close()
	err = s.checkForAgent(c, &r)
	if e := f.Err(); e != nil {
		return req, false, e
	}
	return r.RunRequest, async, err
}
