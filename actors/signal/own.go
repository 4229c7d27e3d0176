package signal

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Limits of the agents of an account.
const (
	MaxAgents          = 50  // that it has
	MaxAgentsEver      = 200 // with those that it has removed, whose names stay taken
	MaxAgentStrategies = 20  // of one
	MaxIntakes         = 10  // of one
)

// BuiltIn reports whether a is an agent of the service, which all accounts have.
func (a AgentID) BuiltIn() bool {
	switch a {
	case "trading", "weather", "seo":
		return true
	}
	return false
}

// OwnAgents is the label of all agents of accounts, and of their strategies.
const OwnAgents = "own"

// Label returns the agent as metrics and the public record name it: OwnAgents for one of an account, whose names are
// the account's own and unlimited in number.
func (a AgentID) Label() string {
	if a.BuiltIn() {
		return string(a)
	}
	return OwnAgents
}

// IsAgentName reports whether an agent of an account, or a strategy of one, may have the name: 3 to 32 lower-case letters,
// digits and underscores, of which the first is a letter.
func IsAgentName(name string) bool {
	if len(name) < 3 || len(name) > 32 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// Endpoint is where an account's agent is asked for a signal.
type Endpoint struct {
	URL    string
	Secret string // whsec_…, by which requests are signed
}

// AgentDefaults are what an account's agent leaves out of a submission. Zero values are those of the service.
type AgentDefaults struct {
	Timeframe Timeframe
	Risk      RiskLevel
	Stop      Level
	Target    Level
	ExpiresIn time.Duration
}

// LevelUnit is what the value of a Level measures.
type LevelUnit string

// The units.
const (
	PriceLevel   LevelUnit = "price"   // the level itself
	PercentLevel LevelUnit = "percent" // the distance from the entry in percent of it
	ATRLevel     LevelUnit = "atr"     // the distance in average true ranges of the timeframe
	RLevel       LevelUnit = "r"       // of a target: the distance in multiples of that of the stop
)

// Level is where a signal is to be closed. Its value is finite and above 0; the zero Level is none.
type Level struct {
	Unit  LevelUnit
	Value float64
}

// String returns the level as people write it: "95.5", "1.5%", "2R", "2 ATR".
func (l Level) String() string {
	suffix := map[LevelUnit]string{PercentLevel: "%", ATRLevel: " ATR", RLevel: "R"}[l.Unit]
	return string(AppendPrice(nil, l.Value)) + suffix
}

// Submission is what an account's agent has concluded about an asset. Zero values were not given.
type Submission struct {
	Direction  Direction
	Stop       Level
	Target     Level
	ExpiresIn  time.Duration   // by the clock
	Claim      *float64        // the agent's own probability of a profit, 0 to 1
	Price      float64         // what the agent saw; never the entry
	Indicators []string        // names
	Reasoning  string          // of the agent
	Parameters json.RawMessage // a JSON object of the agent
	Text       string          // of agents for content and weather, whose signals have no prices
	Interval   string          // of a chart, if the service has no such timeframe
	Reference  string          // the agent's identifier of this decision
}

// IntakeTokenPrefix begins the tokens of intakes.
const IntakeTokenPrefix = "ain_"

// Intake is a way for chart programs to send alerts to an account's agent.
type Intake struct {
	ID        IntakeID
	Digest    string // the SHA-256 of its token in hexadecimal
	CreatedAt time.Time
}

// Alert is the part of a change that carries out an alert of a chart.
type Alert struct {
	ID     EventID // makes its mark unlike any other
	Intake IntakeID
	// Topics are what the alert is about. The change is refused with KindConflict, alert_overtaken, if another alert
	// about one of them was accepted since its mark was read. It becomes their newest.
	Topics   []AlertTopic
	Digest   string    // of the intake and of the body
	Received time.Time // when the service got it
	// Answer is the JSON that is answered; empty for the signal that the change creates.
	Answer  string
	Request []byte     // for the intake's list of requests: JSON; nil for none
	Exits   []SignalID // whose agent ends them: those that are open, once
	// Queued is a new job that carries out the alert: the change only acknowledges it.
	Queued *Job
	// Claim holds one value, which the change takes: without it the change is refused, since another one has acknowledged the
	// alert. Only a change that is refused puts it back. Nil: nothing else can acknowledge the alert.
	Claim chan struct{}
	// Job is the job that has carried out the alert, which ends. Unless its attempt holds it the change is refused with
	// KindConflict, job_lost.
	Job *Job
}

// QueuedAlert is the alert of a job of kind JobAlert, whose request has the account and the agent alone. It was received
// when the job was created.
type QueuedAlert struct {
	Intake    IntakeID
	RequestID string // of the request that brought it
	Body      []byte
}

// Mark returns what the change leaves under its topics. created is the signal that it creates.
func (a *Alert) Mark(created SignalID) string {
	received := strconv.FormatInt(a.Received.UnixMilli(), 10)
	return strings.Join([]string{string(a.ID), a.Digest, received, cmp.Or(a.Answer, string(created))}, " ")
}

// AlertTopic is a strategy with an asset, about which alerts are.
type AlertTopic struct {
	Name string // unique within the account
	// Mark is that of the newest alert as it was read: "ID DIGEST RECEIVED ANSWER", with the time in milliseconds and the
	// answer or the signal's id; empty: of none in the last AlertMemory.
	Mark string
}

// AlertMemory is how long the newest alert about a topic is remembered.
const AlertMemory = time.Minute

// MaxIntakeRequests is how many requests of an intake are listed.
const MaxIntakeRequests = 200

// IntakeRequest is an alert as an intake has received it.
type IntakeRequest struct {
	At      time.Time
	Signal  SignalID // that it has made; empty: none
	Request []byte   // JSON, see Alert.Request
}
