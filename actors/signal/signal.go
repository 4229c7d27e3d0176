package signal

import (
	"encoding/json"
	"math"
	"time"
)

// Direction is the way in which a signal expects the price to move.
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
	M1  Timeframe = "1m"
	M5  Timeframe = "5m"
	M15 Timeframe = "15m" // of files alone
	H1  Timeframe = "1h"
	H4  Timeframe = "4h" // of files alone
	D1  Timeframe = "1d"
)

// Timeframes lists those of signals from the finest to the coarsest, FileTimeframes those of files of bars.
var (
	Timeframes     = []Timeframe{M1, M5, H1, D1}
	FileTimeframes = []Timeframe{M1, M5, M15, H1, H4, D1}
)

// Duration returns the length of a bar in market time; 0 for an unknown one.
func (t Timeframe) Duration() time.Duration {
	switch t {
	case M1:
		return time.Minute
	case M5:
		return 5 * time.Minute
	case M15:
		return 15 * time.Minute
	case H1:
		return time.Hour
	case H4:
		return 4 * time.Hour
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

// CloseReason is why a signal was closed.
type CloseReason string

// The reasons. If one observation satisfies two, the earlier one in this list applies.
const (
	AgentExit  CloseReason = "agent_exit" // by the first price after the account's agent has asked for it
	StopLoss   CloseReason = "stop_loss"
	TakeProfit CloseReason = "take_profit"
	Expired    CloseReason = "expired"
)

// CloseReasons lists them, for metrics and the API description.
var CloseReasons = []CloseReason{AgentExit, StopLoss, TakeProfit, Expired}

// Signal is the result of a run, with its current state.
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
	Confidence float64  // the current one: 0 to 1, 4 decimals
	Levels     *Levels  // nil for content, which has no prices
	Reach      *Reach   // of levels that an account's agent has chosen; nil for those of the Risk
	Weather    *Outlook // of a weather run, else nil; without its Event while the signal is watched
	Metadata   json.RawMessage
	CreatedAt  time.Time // the time of its signal.created event
	ExpiresAt  time.Time

	UpdatedAt time.Time // of the last change of state or confidence
	Sequence  int64     // counts the signal's events: 1 is created
	Closing   *Closing  // nil while it is open
	// ExitRequested is when the agent of an open signal has asked for its exit; zero if it has not.
	ExitRequested time.Time

	// Kept for the actor that watches the open signal, and for statistics. FirstConfidence is
	// the Confidence at creation; 0 until the log has stored the signal. For the actor of a
	// weather signal it is what that would have been with the newest forecast.
	FirstConfidence float64
	// Initial holds the values at creation. Set at the creation and for an open signal; nil
	// otherwise, and for an open signal that an older version has stored.
	Initial  *Initial
	MFE, MAE float64 // best and worst excursion so far, in multiples of |Entry-Stop|

	// Updates are the published updates, oldest first. Set by reads of a single signal, and of
	// a change that updates the signal the update that it makes.
	Updates []Update
}

// MaxUpdates is how many updates of a signal are kept. When there would be more, every second
// one is dropped, but not the oldest and not the newest.
const MaxUpdates = 200

// Update is a published change of the confidence of an open signal.
type Update struct {
	At         time.Time // as its event has it in updated_at
	Confidence float64
	Price      float64 // on which the confidence rests; 0 if it is not known
}

// Status returns Open until s is closed.
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

// Reach is what a re-scoring needs to know of levels that no RiskLevel stands for.
type Reach struct {
	Stop float64 // its distance from the entry in ATR14 of the timeframe at the entry
	Bars float64 // of the timeframe until expiry, while the market is open
}

// R returns the result of an exit at price in multiples of the risk taken: -1 at the stop,
// 1.5 at the target.
func (l *Levels) R(d Direction, price float64) float64 {
	diff := price - l.Entry
	if d == Short {
		diff = -diff
	}
	return diff / math.Abs(l.Entry-l.Stop)
}

// Closing is the end of a signal.
type Closing struct {
	Reason          CloseReason
	At              time.Time
	ExitPrice       *float64 // nil for content, as are the next two
	PnLPercent      *float64 // 4 decimals
	PnLAbsolute     *float64 // for one unit, in price units, 8 decimals
	DurationMinutes int64    // whole minutes from creation, rounded down
}

// Listing holds the members of a signal that lists show or filter by. Every event of a
// signal carries one.
type Listing struct {
	ID         SignalID
	Agent      AgentID
	Asset      string
	Strategy   string
	Direction  Direction
	Confidence float64  // the current one; in a list, that at creation once the signal is closed
	Entry      *float64 // nil without prices
	Status     Status
	CreatedAt  time.Time
}

// LogEntry is an entry of the signal log as lists read it: the creation of a signal, or a
// later change.
type LogEntry struct {
	Account  AccountID
	Position Position // of a creation or a closing; zero for another change
	// Created is the listing at the creation, without its ID; nil for a change. It is valid until
	// the function that it is given to returns.
	Created    *Listing
	Weather    *Outlook // of a creation by a weather run; nil otherwise
	ULID       [16]byte // of the identifier of the signal
	Origin     Position // of a change: where the signal was created
	Confidence float64  // after the change; of a closing the last one published
	Closed     bool     // the change is the closing
}

// WeatherEntry is an entry of the signal log as the fit of weather slopes reads it: a creation by a weather
// run, or the closing of any signal.
type WeatherEntry struct {
	Position Position

	// Of a creation.
	Commodity  string
	Likelihood float64
	Prior      float64 // as its metadata have it; 0 without one

	// Of a closing.
	Created Position // where the signal was created; zero for a creation
	Won     bool     // it closed in profit
}

// Location is where the records of a signal are in the signal log.
type Location struct {
	ID      SignalID
	Created Position
	Closed  Position // zero while it is open
}

// Listing returns the listing of s in its current state.
func (s *Signal) Listing() Listing {
	l := Listing{
		ID:         s.ID,
		Agent:      s.Agent,
		Asset:      s.Asset,
		Strategy:   s.Strategy,
		Direction:  s.Direction,
		Confidence: s.Confidence,
		Status:     s.Status(),
		CreatedAt:  s.CreatedAt,
	}
	if s.Levels != nil {
		l.Entry = &s.Levels.Entry
	}
	return l
}
