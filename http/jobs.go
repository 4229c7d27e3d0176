package http

import (
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

var jobStatuses = []signal.JobStatus{signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed}

// jobByID answers GET /v1/jobs/{id}.
func (s *Server) jobByID(c *call) error {
	if err := c.faults.Err(); err != nil {
		return err
	}
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
	return c.json(http.StatusOK, appendJob(make([]byte, 0, 1024), &job))
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
	return c.json(http.StatusOK, appendList(make([]byte, 0, 512+1024*len(jobs)), "jobs", jobs, appendJob, p, total))
}
