package client

import "time"

// Agent is an agent of the service or of the account.
type Agent struct {
	Object
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Category    string   `json:"category"` // "trading", "weather" or "content"
	Description string   `json:"description"`
	Strategies  []string `json:"strategies"`
	Status      string   `json:"status"` // "active", "beta" or "deprecated"
	Owner       string   `json:"owner"`  // "service" or "account"

	// Of an agent of the account; lists leave them out.
	CreatedAt time.Time      `json:"created_at"`
	Defaults  AgentDefaults  `json:"defaults"`
	Endpoint  *AgentEndpoint `json:"endpoint"` // nil: it submits, and cannot be run
}

// AgentEndpoint is where an agent of the account is asked for a signal when it is run.
type AgentEndpoint struct {
	URL string `json:"url"`
	// Secret (whsec_…) signs what the agent is asked. The service makes one where none is given. Only the answer to the
	// request that has set it has it.
	Secret string `json:"secret,omitempty"`
}

// AgentDefaults are what an agent leaves out of its submissions. Zero members are those of the service.
type AgentDefaults struct {
	Timeframe string `json:"timeframe,omitempty"`
	Risk      string `json:"risk_level,omitempty"`
	Stop      Level  `json:"stop,omitempty"`
	Target    Level  `json:"target,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds
}

// Level is a stop or a target: one of "price", "percent" and "atr", or of a target "r", with its value. The nil Level is
// that of the agent, or of the service.
type Level map[string]float64

// NewAgent is what an agent is made of.
type NewAgent struct {
	ID       string `json:"id"` // 3 to 32 lower-case letters, digits and _, never free again
	Category string `json:"category"`
	AgentChange
}

// AgentChange is what an agent is changed to. Members that are zero stay as they are.
type AgentChange struct {
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Strategies  []string       `json:"strategies,omitempty"` // are added to those there are
	Status      string         `json:"status,omitempty"`     // see Agent
	Defaults    *AgentDefaults `json:"defaults,omitempty"`   // all of them
	Endpoint    *AgentEndpoint `json:"endpoint,omitempty"`
}

// Submission is what an agent of the account has concluded. Members that are zero were not given.
type Submission struct {
	Asset      string         `json:"asset"`
	Strategy   string         `json:"strategy"`
	Direction  string         `json:"direction,omitempty"` // "long" or "short"; an agent of category trading has it
	Stop       Level          `json:"stop,omitempty"`
	Target     Level          `json:"target,omitempty"`
	Timeframe  string         `json:"timeframe,omitempty"`
	Risk       string         `json:"risk_level,omitempty"`
	ExpiresIn  int64          `json:"expires_in,omitempty"` // seconds
	Confidence *float64       `json:"confidence,omitempty"` // the agent's own probability of a profit, 0 to 1
	Price      float64        `json:"price,omitempty"`      // what the agent saw; never the entry
	Indicators []string       `json:"indicators,omitempty"`
	Reasoning  string         `json:"reasoning,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Content    string         `json:"content,omitempty"` // of an agent of category content
	Outlook    string         `json:"outlook,omitempty"` // of an agent of category weather
	// Reference is the agent's own identifier of this decision: with the same asset, strategy and direction it is
	// answered like the first time, as long as the signal is kept.
	Reference string `json:"reference,omitempty"`
}
