package http

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Jobs has the jobs of accounts. See agent.Agents.
type Jobs interface {
	Job(ctx context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error)
	Jobs(ctx context.Context, account signal.AccountID, status signal.JobStatus,
		limit, offset int) ([]signal.Job, int, error)
}

// JobHandlers answer for jobs.
type JobHandlers struct{ jobs Jobs }

// NewJobHandlers returns the handlers of jobs.
func NewJobHandlers(jobs Jobs) *JobHandlers { return &JobHandlers{jobs} }

// Routes implements Resource.
func (h *JobHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/jobs/{id}", methods{"GET": get(signal.AgentsRun, h.byID)}),
		route("/v1/jobs", methods{"GET": get(signal.AgentsRun, h.list, "status", "limit", "offset")}),
	}
}

var jobStatuses = []signal.JobStatus{signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed}

// byID answers GET /v1/jobs/{id}.
func (h *JobHandlers) byID(c *call) error {
	id, ok := signal.ParseJobID(c.vars["id"])
	if !ok {
		return signal.NotFound("job")
	}
	job, err := h.jobs.Job(c.r.Context(), c.principal.Account, id)
	if err != nil {
		return err
	}
	if job.Status == signal.JobQueued || job.Status == signal.JobRunning {
		c.Header()["Retry-After"] = headerOne
	}
	return c.value(http.StatusOK, viewJob(&job))
}

// list answers GET /v1/jobs.
func (h *JobHandlers) list(c *call) error {
	q := c.query
	status := request.Option(q, "status", jobStatuses)
	p := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	jobs, total, err := h.jobs.Jobs(c.r.Context(), c.principal.Account, status, p.Limit, p.Offset)
	if err != nil {
		return err
	}
	return c.encoded(encodeList("jobs", jobs, viewJob, p, total))
}

// jobView is a job. A scan or a backtest has a kind, the members of its request, and a
// result instead of a signal.
type jobView struct {
	ID          signal.JobID     `json:"job_id"`
	Run         signal.RunID     `json:"run_id"`
	Kind        signal.JobKind   `json:"kind,omitempty"`
	Agent       signal.AgentID   `json:"agent_id"`
	Assets      []string         `json:"assets,omitzero"` // of a scan, instead of the asset
	Asset       *string          `json:"asset,omitempty"`
	Strategy    string           `json:"strategy"`
	Timeframe   signal.Timeframe `json:"timeframe"`
	Risk        signal.RiskLevel `json:"risk_level"`
	From        *instant         `json:"from,omitempty"` // of a backtest, as To
	To          *instant         `json:"to,omitempty"`
	Status      signal.JobStatus `json:"status"`
	CreatedAt   instant          `json:"created_at"`
	StartedAt   instant          `json:"started_at"`
	CompletedAt instant          `json:"completed_at"`
	ExpiresAt   instant          `json:"expires_at"`
	Result      json.RawMessage  `json:"result,omitempty"`
	Signal      json.RawMessage  `json:"signal,omitempty"` // of a run, instead of the result
	Reason      string           `json:"reason,omitempty"` // of a completed run without a signal
	Error       *jobErrorView    `json:"error"`
}

type jobErrorView struct {
	Code      signal.ErrorCode `json:"error_code"`
	Message   string           `json:"message"`
	Retryable bool             `json:"retryable"`
}

// null is the result or signal of a job that has not ended.
var null = json.RawMessage("null")

func viewJob(j *signal.Job) jobView {
	v := jobView{
		ID:          j.ID,
		Run:         j.Run,
		Agent:       j.Request.Agent,
		Strategy:    j.Request.Strategy,
		Timeframe:   j.Request.Timeframe,
		Risk:        j.Request.Risk,
		Status:      j.Status,
		Reason:      j.Reason,
		CreatedAt:   instant(j.CreatedAt),
		StartedAt:   instant(j.StartedAt),
		CompletedAt: instant(j.CompletedAt),
		ExpiresAt:   instant(j.ExpiresAt),
	}
	if j.Kind == signal.JobScan {
		v.Assets = list(j.Assets)
	} else {
		v.Asset = &j.Request.Asset
	}
	if j.Kind == signal.JobBacktest {
		v.From, v.To = new(instant(j.From)), new(instant(j.To))
	}
	switch {
	case j.Kind != signal.JobRun:
		v.Kind, v.Result = j.Kind, null
		if j.Result != nil {
			v.Result = j.Result
		}
	case j.Signal != nil:
		v.Signal = appendSignal(nil, j.Signal)
	default:
		v.Signal = null
	}
	if e := j.Error; e != nil {
		v.Error = &jobErrorView{e.Code, e.Message, e.Retryable}
	}
	return v
}

// answerQueued answers with a queued job, unless queueing it has failed.
func answerQueued(c *call, job signal.Job, err error) error {
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
