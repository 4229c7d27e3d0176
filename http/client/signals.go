package client

import (
	"net/url"
	"strconv"
	"time"
)

// Signal is a signal with its state. The answer to a run, lists without all members, and messages
// of the stream leave out the members that they do not have.
type Signal struct {
	Object
	ID         string    `json:"signal_id"`
	Agent      string    `json:"agent_id"`
	Asset      string    `json:"asset"`
	Strategy   string    `json:"strategy"`
	Direction  string    `json:"direction"`  // "long" or "short"
	Confidence float64   `json:"confidence"` // 0 to 1; of a closed signal the one at its creation
	Entry      *float64  `json:"entry_price"`
	Stop       *float64  `json:"stop_loss"`
	Target     *float64  `json:"take_profit"`
	Metadata   Metadata  `json:"metadata"`
	CreatedAt  time.Time `json:"created_at"`

	Status    string    `json:"status"` // "open" or "closed"
	UpdatedAt time.Time `json:"updated_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Initial   float64   `json:"initial_confidence"`

	// Of a closed signal.
	ClosedAt    *time.Time `json:"closed_at"`
	CloseReason string     `json:"close_reason"`
	Exit        *float64   `json:"exit_price"`
	PnLPercent  *float64   `json:"pnl_percent"`  // before costs
	PnLAbsolute *float64   `json:"pnl_absolute"` // for one unit, before costs
	Minutes     *int64     `json:"duration_minutes"`
	Final       *float64   `json:"final_confidence"`
	R           *float64   `json:"r"` // result before costs, in multiples of the distance from entry to stop
	BestR       *float64   `json:"mfe_r"`
	WorstR      *float64   `json:"mae_r"`

	ExitRequestedAt *time.Time `json:"exit_requested_at"` // of the answer to CloseSignal alone
}

// Metadata is what a signal rests on. JSON of the signal has further members.
type Metadata struct {
	Indicators   []string   `json:"indicators"`
	Reasoning    string     `json:"reasoning"`
	BreakEvenNet *float64   `json:"break_even_net"` // the hit rate at which signals gain nothing after costs
	ExpectedR    *float64   `json:"expected_r"`     // in R before costs
	ExpectedRNet *float64   `json:"expected_r_net"` // in R after costs
	Interval     *[]float64 `json:"confidence_interval"`
	Measure      string     `json:"measure"`
	Source       string     `json:"source"` // of the prices; "simulated" if they are not real
	Content      string     `json:"content"`
}

// SignalQuery selects signals. A zero member selects all.
type SignalQuery struct {
	Asset         string // by any of its names
	Agent         string
	Strategy      string
	Direction     string
	Status        string
	MinConfidence float64   // inclusive
	Since         time.Time // exclusive
}

func (q *SignalQuery) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"asset": q.Asset, "agent_id": q.Agent, "strategy": q.Strategy,
		"direction": q.Direction, "status": q.Status} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.MinConfidence > 0 {
		v.Set("min_confidence", strconv.FormatFloat(q.MinConfidence, 'f', -1, 64))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	return v
}

// Change is an entry of the history of a signal.
type Change struct {
	Type       string    `json:"type"` // "created", "updated" or "closed"
	At         time.Time `json:"at"`
	Confidence *float64  `json:"confidence"`
	Price      *float64  `json:"price"`
}

// History is what is kept of the life of a signal, the oldest first.
type History struct {
	Object
	Changes []Change `json:"events"`
}

// Statistics summarize closed signals. A figure that has no meaning is nil.
type Statistics struct {
	Count    int      `json:"count"`
	Wins     int      `json:"wins"`
	HitRate  *float64 `json:"hit_rate"`
	Interval struct {
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
	} `json:"hit_rate_interval"` // 95 %
	BreakEvenNet   *float64 `json:"break_even_net"` // the hit rate at which they gain nothing after costs
	MeanR          *float64 `json:"mean_r"`         // before costs
	ExpectancyR    *float64 `json:"expectancy_r"`   // after costs, as the next three
	ProfitFactor   *float64 `json:"profit_factor"`
	TotalR         float64  `json:"total_r"`
	MaxDrawdownR   float64  `json:"max_drawdown_r"`
	MeanConfidence *float64 `json:"mean_confidence"`
	BrierSkill     *float64 `json:"brier_skill"`
}

// Scorecard has the statistics of the account's closed signals.
type Scorecard struct {
	Object
	Statistics Statistics `json:"statistics"`
	Recorded
	Strategies []StrategyScore `json:"strategies"`
	Groups     []struct {
		Agent      string     `json:"agent_id"`
		Strategy   string     `json:"strategy"`
		Asset      string     `json:"asset"`
		Timeframe  string     `json:"timeframe"`
		Risk       string     `json:"risk_level"`
		Statistics Statistics `json:"statistics"`
		Recorded
	} `json:"groups"`
}

// StrategyScore shows how the closed signals of a strategy of an agent of the account did. The members of Statistics that
// the scorecard has not of strategies are zero.
type StrategyScore struct {
	Agent    string `json:"agent_id"`
	Strategy string `json:"strategy"`
	Statistics
	Skill         *float64 `json:"skill"` // in log odds; nil until it is known
	SkillInterval struct {
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
	} `json:"skill_interval"` // 95 %
}

// Recorded counts what the record shows of closed signals.
type Recorded struct {
	Recorded  int `json:"recorded"`  // whose closing has its leaf
	Committed int `json:"committed"` // and whose creation was in a checkpoint of the service before they ended
}

// ScoreQuery selects closed signals. A zero member selects all.
type ScoreQuery struct {
	Agent, Strategy, Asset, Timeframe string
	Since                             time.Time // exclusive
}

// Asset is an asset of which a source has prices.
type Asset struct {
	Object
	Asset       string     `json:"asset"`
	Class       string     `json:"class"` // "" if it is not known
	Source      string     `json:"source"`
	Simulated   bool       `json:"simulated"`
	LastPrice   *float64   `json:"last_price"`
	LastPriceAt *time.Time `json:"last_price_at"`
	Open        bool       `json:"open"` // its session is
}
