package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
)

// RunRequest is what an agent is asked for. Empty members have the defaults of the service.
type RunRequest struct {
	Asset      string         `json:"asset"`
	Strategy   string         `json:"strategy"`
	Timeframe  string         `json:"timeframe,omitempty"`
	Risk       string         `json:"risk_level,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// Run runs an agent and returns the signal, which is stored.
func (c *Client) Run(ctx context.Context, agent string, in RunRequest) (*Signal, error) {
	var s Signal
	return &s, c.send(ctx, runOf(agent), in, &s)
}

// StartRun is Run without waiting for the end: it returns the job.
func (c *Client) StartRun(ctx context.Context, agent string, in RunRequest) (*Job, error) {
	var j Job
	return &j, c.send(ctx, runOf(agent), struct {
		RunRequest
		Async bool `json:"async"`
	}{in, true}, &j)
}

func runOf(agent string) request {
	return request{method: http.MethodPost, path: "/v1/agents/" + url.PathEscape(agent) + "/run", keyed: true}
}

// ScanRequest asks for a comparison of assets.
type ScanRequest struct {
	Assets    []string `json:"assets"`
	Strategy  string   `json:"strategy"`
	Timeframe string   `json:"timeframe,omitempty"`
	Risk      string   `json:"risk_level,omitempty"`
}

// StartScan starts a scan and returns its job. No signal is stored.
func (c *Client) StartScan(ctx context.Context, agent string, in ScanRequest) (*Job, error) {
	var j Job
	r := request{method: http.MethodPost, path: "/v1/agents/" + url.PathEscape(agent) + "/scan"}
	return &j, c.send(ctx, r, in, &j)
}

// Job is a run, a scan or a backtest that does not hold up its request.
type Job struct {
	Object
	ID          string          `json:"job_id"`
	Run         string          `json:"run_id"`
	Kind        string          `json:"kind"` // "" of a run
	Agent       string          `json:"agent_id"`
	Asset       string          `json:"asset"`
	Assets      []string        `json:"assets"` // of a scan
	Strategy    string          `json:"strategy"`
	Timeframe   string          `json:"timeframe"`
	Risk        string          `json:"risk_level"`
	Status      string          `json:"status"` // "queued", "running", "completed" or "error"
	CreatedAt   time.Time       `json:"created_at"`
	StartedAt   *time.Time      `json:"started_at"`
	CompletedAt *time.Time      `json:"completed_at"`
	Signal      *Signal         `json:"signal"` // of a completed run
	Result      json.RawMessage `json:"result"` // of another completed job
	Error       *JobError       `json:"error"`
}

// JobError is why a job failed.
type JobError struct {
	Code      string `json:"error_code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Ended reports whether the job has ended.
func (j *Job) Ended() bool { return j.Status == "completed" || j.Status == "error" }

// ScanResult is the result of a scan.
type ScanResult struct {
	Object
	Ranked []struct {
		Asset        string   `json:"asset"`
		Direction    string   `json:"direction"`
		Confidence   float64  `json:"confidence"`
		ExpectedRNet *float64 `json:"expected_r_net"`
		Edge         *float64 `json:"edge"`
		Strength     *float64 `json:"strength"`
		Entry        *float64 `json:"entry_price"`
		Stop         *float64 `json:"stop_loss"`
		Target       *float64 `json:"take_profit"`
	} `json:"ranked"` // the best first
	Errors []struct {
		Asset string `json:"asset"`
		Code  string `json:"error_code"`
	} `json:"errors"`
}

// Scan returns the result of a completed scan.
func (j *Job) Scan() (*ScanResult, error) {
	var r ScanResult
	return &r, read(j.Result, &r)
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	return get[Job](ctx, c, "/v1/jobs/"+url.PathEscape(id))
}

// pollJob is the pause between two looks at a job.
const pollJob = time.Second

// AwaitJob waits until a job has ended, and returns it.
func (c *Client) AwaitJob(ctx context.Context, id string) (*Job, error) {
	sleep := c.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	for {
		j, err := c.Job(ctx, id)
		if err != nil || j.Ended() {
			return j, err
		}
		if !sleep(ctx, pollJob) {
			return nil, ctx.Err()
		}
	}
}

// Jobs returns the jobs with a status, all if it is empty, the newest first; at most limit of them if it
// is positive.
func (c *Client) Jobs(ctx context.Context, status string, limit int) iter.Seq2[*Job, error] {
	return all(ctx, c, "/v1/jobs", "jobs", values("status", status), limit, func(j *Job) string { return j.ID })
}

// Schedule makes runs again and again.
type Schedule struct {
	Object
	ID        string     `json:"schedule_id"`
	Agent     string     `json:"agent_id"`
	Assets    []string   `json:"assets"`
	Strategy  string     `json:"strategy"`
	Timeframe string     `json:"timeframe"`
	Every     string     `json:"every"` // an interval, or "bar"
	MaxOpen   int        `json:"max_open"`
	Status    string     `json:"status"` // "enabled" or "disabled"
	NextRunAt *time.Time `json:"next_run_at"`
	LastRunAt *time.Time `json:"last_run_at"`
	Failures  int        `json:"failures"` // since the last success
	LastError *struct {
		Code    string    `json:"error_code"`
		Message string    `json:"message"`
		At      time.Time `json:"at"`
	} `json:"last_error"`
}

// Schedules returns the schedules of the account.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*Schedule, error] {
	return all(ctx, c, "/v1/schedules", "schedules", nil, 0, func(s *Schedule) string { return s.ID })
}

// values returns a query without empty values.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
