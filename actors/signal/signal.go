package signal

import (
	"encoding/json"
	"time"
)

// Direction says which way a signal expects the price to move.
type Direction string

// The directions.
const (
	Long  Direction = "long"
	Short Direction = "short"
)

// Timeframe is the length of the bars that a strategy reads.
type Timeframe string

// The timeframes.
const (
	M1 Timeframe = "1m"
	M5 Timeframe = "5m"
	H1 Timeframe = "1h"
	D1 Timeframe = "1d"
)

// Timeframes lists them from the finest to the coarsest.
var Timeframes = []Timeframe{M1, M5, H1, D1}

// Duration returns the length of a bar in market time; 0 for an unknown one.
func (t Timeframe) Duration() time.Duration {
	switch t {
	case M1:
		return time.Minute
	case M5:
		return 5 * time.Minute
	case H1:
		return time.Hour
	case D1:
		return 24 * time.Hour
	}
	return 0
}

// RiskLevel scales the distances of stop and target.
type RiskLevel string

// The risk levels.
const (
	LowRisk    RiskLevel = "low"
	MediumRisk RiskLevel = "medium"
	HighRisk   RiskLevel = "high"
)

// RiskLevels lists them from the nearest levels to the farthest.
var RiskLevels = []RiskLevel{LowRisk, MediumRisk, HighRisk}

// Status is the state of a signal. It changes once.
type Status string

// The states of a signal.
const (
	Open   Status = "open"
	Closed Status = "closed"
)

// CloseReason says how a signal ended.
type CloseReason string

// The reasons, in the order in which one observation that satisfies two is read.
const (
	StopLoss   CloseReason = "stop_loss"
	TakeProfit CloseReason = "take_profit"
	Expired    CloseReason = "expired"
)

// CloseReasons lists them, for metrics and the API description.
var CloseReasons = []CloseReason{StopLoss, TakeProfit, Expired}

// Signal is what a run concluded, with its state.
type Signal struct {
	ID         SignalID
	Account    AccountID
	Agent      AgentID
	Run        RunID
	Asset      string // as the client wrote it
	Strategy   string // a strategy of the agent
	Timeframe  Timeframe
	Risk       RiskLevel
	Direction  Direction
	Confidence float64  // 0 to 1, 4 decimals: the current one
	Levels     *Levels  // nil for content, which has no prices
	Weather    *Outlook // of a weather run, else nil; of an open signal as it is watched it has no event
	Metadata   json.RawMessage
	CreatedAt  time.Time // the time of its signal.created event
	ExpiresAt  time.Time

	UpdatedAt time.Time // of the last change of state or confidence
	Sequence  int64     // counts its events: 1 created, 2 and more updated or closed
	Closing   *Closing  // nil while it is open

	// What the actor of an open signal goes by, and statistics later.
	FirstConfidence float64 // Confidence at creation; 0 before the log has stored it
	MFE, MAE        float64 // best and worst excursion so far, in multiples of |Entry-Stop|
}

// Status returns whether s is open or closed.
func (s *Signal) Status() Status {
	if s.Closing != nil {
		return Closed
	}
	return Open
}

// Levels are the prices of a signal, rounded to the asset's tick size. Long:
// Stop < Entry < Target; short: the reverse.
type Levels struct {
	Entry, Stop, Target float64
}

// Closing is how a signal ended.
type Closing struct {
	Reason          CloseReason
	At              time.Time
	ExitPrice       *float64 // nil without prices, and so the next two
	PnLPercent      *float64 // 4 decimals
	PnLAbsolute     *float64 // for one unit, in price units, 8 decimals
	DurationMinutes int64    // whole minutes from creation, rounded down
}

// Listing is what lists show of a signal and what they filter by. Every event
// that concerns a signal carries one.
type Listing struct {
	ID         SignalID
	Agent      AgentID
	Asset      string
	Strategy   string
	Direction  Direction
	Confidence float64  // the current one
	Entry      *float64 // nil without prices
	Status     Status
	CreatedAt  time.Time
}

// Listing returns what lists show of s.
func (s *Signal) Listing() Listing {
	l := Listing{ID: s.ID, Agent: s.Agent, Asset: s.Asset, Strategy: s.Strategy, Direction: s.Direction,
		Confidence: s.Confidence, Status: s.Status(), CreatedAt: s.CreatedAt}
	if s.Levels != nil {
		l.Entry = &s.Levels.Entry
	}
	return l
}
