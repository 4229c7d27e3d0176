package client

import (
	"encoding/json"
	"time"
)

// RunRequest is what an agent is asked for. Empty members have the defaults of the service.
type RunRequest struct {
	Asset      string         `json:"asset"`
	Strategy   string         `json:"strategy"`
	Timeframe  string         `json:"timeframe,omitempty"`
	Risk       string         `json:"risk_level,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// ScanRequest asks for a comparison of assets.
type ScanRequest struct {
	Assets    []string `json:"assets"`
	Strategy  string   `json:"strategy"`
	Timeframe string   `json:"timeframe,omitempty"`
	Risk      string   `json:"risk_level,omitempty"`
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
	Reason      string          `json:"reason"` // why a completed run of an account's agent has no signal
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
	NoSignal []struct {
		Asset  string `json:"asset"`
		Reason string `json:"reason"`
	} `json:"no_signal"` // of an account's agent
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
