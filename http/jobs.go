package http

import (
	"encoding/json"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

var jobStatuses = []signal.JobStatus{signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed}

// jobByID answers GET /v1/jobs/{id}.
func (s *Server) jobByID(c *call) error {
	id, ok := signal.ParseJobID(c.vars["id"])
	if !ok {
		return signal.NotFound("job")
	}
	job, err := s.o.Agents.Job(c.r.Context(), c.principal.Account, id)
	if err != nil {
		return err
	}
	if job.Status == signal.JobQueued || job.Status == signal.JobRunning {
		c.Header()["Retry-After"] = headerOne
	}
	return c.value(http.StatusOK, viewJob(&job))
}

// listJobs answers GET /v1/jobs.
func (s *Server) listJobs(c *call) error {
	q := c.query
	status := request.Option(q, "status", jobStatuses)
	p := q.Page()
	if err := c.faults.Err(); err != nil {
		return err
	}
	jobs, total, err := s.o.Agents.Jobs(c.r.Context(), c.principal.Account, status, p.Limit, p.Offset)
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
