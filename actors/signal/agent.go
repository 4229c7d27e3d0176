package signal

import (
	"encoding/json"
	"slices"
	"time"
)

// Category is the field that an agent works in.
type Category string

// The categories.
const (
	Trading Category = "trading"
	Weather Category = "weather"
	Content Category = "content"
)

// AgentStatus is the maturity of an agent, for information only.
type AgentStatus string

// The statuses of agents.
const (
	AgentActive     AgentStatus = "active"
	AgentBeta       AgentStatus = "beta"
	AgentDeprecated AgentStatus = "deprecated"
)

// Agent is an entry of the catalogue of an account: one of the service, which all have, or one of its own.
type Agent struct {
	ID          AgentID
	Name        string
	Category    Category
	Description string
	Strategies  []string
	Status      AgentStatus

	// Of an account's own agent.

	Account   AccountID // whose agent it is; empty: of the service
	CreatedAt time.Time
	Revision  string // of the store
	Defaults  AgentDefaults
	Endpoint  *Endpoint // where it is asked; nil: it cannot be run
	Intakes   []Intake  // of alerts, the oldest first
}

// Has reports whether strategy is one of the agent's own.
func (a Agent) Has(strategy string) bool { return slices.Contains(a.Strategies, strategy) }

// Agents returns the built-in catalogue, in the order in which it is listed.
func Agents() []Agent {
	return []Agent{
		{
			ID:       "trading",
			Name:     "Trading Agent",
			Category: Trading,
			Status:   AgentActive,
			Description: "Technical and sentiment signals for crypto, stocks, FX and commodities, " +
				"with price levels and a calibrated probability.",
			Strategies: []string{"momentum", "mean_reversion", "breakout", "sentiment"},
		},
		{
			ID:          "weather",
			Name:        "Weather Agent",
			Category:    Weather,
			Status:      AgentActive,
			Description: "Commodity signals from forecast anomalies against 30-year normals.",
			Strategies:  []string{"commodity_impact", "energy_demand", "agriculture"},
		},
		{
			ID:          "seo",
			Name:        "SEO Content Agent",
			Category:    Content,
			Status:      AgentBeta,
			Description: "Texts for search engines with a reproducible quality score.",
			Strategies:  []string{"blog_post", "product_description", "meta_tags"},
		},
	}
}

// RunRequest asks for one run. Its values are valid: the caller has checked them.
type RunRequest struct {
	Account    AccountID
	Agent      AgentID
	Asset      string
	Strategy   string
	Timeframe  Timeframe
	Risk       RiskLevel
	Parameters Parameters
	Own        *Agent      // the agent, if it is the account's own
	Submission *Submission // what that agent has concluded; nil: it is asked
	Reply      *ReplyKey   // nil without an Idempotency-Key
	Reference  *ReplyKey   // of a submission with a reference
	Alert      *Alert      // of a chart, from which the submission is; nil: of none
}

// Parameters are an agent's own options.
type Parameters struct {
	Region   string   // weather: us, eu, asia, global; empty otherwise
	Keywords []string // content
	Features []string // content
	Locale   string   // content
}

// JobKind is the work that a job does.
type JobKind string

// The kinds of jobs.
const (
	JobRun      JobKind = "" // a run of an agent, the default
	JobScan     JobKind = "scan"
	JobBacktest JobKind = "backtest"
	JobAlert    JobKind = "alert" // of a chart, which was acknowledged before it was carried out
)

// JobStatus is the state of a job.
type JobStatus string

// The states of a job: queued, running, then completed or error.
const (
	JobQueued    JobStatus = "queued"
	JobRunning   JobStatus = "running"
	JobCompleted JobStatus = "completed"
	JobFailed    JobStatus = "error"
)

// Job is work that runs in the background while its client polls for the result.
type Job struct {
	ID      JobID
	Run     RunID
	Kind    JobKind
	Request RunRequest
	Assets  []string  // of a scan, in place of Request.Asset
	From    time.Time // of a backtest: when its first signals are made, or zero
	To      time.Time // of a backtest: when its last signals are made, or zero
	Alert   *QueuedAlert
	Status  JobStatus
	Attempt int // counts the workers that have taken the job; 0 while queued
	// Entry is the job's entry in the queue while a worker holds it; zero otherwise.
	Entry Position

	CreatedAt   time.Time
	StartedAt   time.Time // zero until a worker takes it
	CompletedAt time.Time // zero until it ends
	ExpiresAt   time.Time // when the record is deleted; zero until the job ends

	Signal *Signal         // of a completed run; nil if an account's agent had none
	Reason string          // why it had none
	Result json.RawMessage // of a completed scan or backtest: a JSON object
	Error  *RunError       // of a failed job
}
