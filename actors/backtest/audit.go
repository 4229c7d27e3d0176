package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// What an audit demands of the bars, and allows for them.
const (
	// auditBars is how many bars before a signal must be known: what a strategy looks
	// back at.
	auditBars = 1000
	// auditLate is how many of the newest bars a run may have gone by, in real time: the
	// newest may have been on its way. Where time is compressed a run may have gone by any
	// bar that was not stale.
	auditLate = 3
	// A live series may have begun at another bar than what is stored. After auditBars
	// the indicators of the newest bar do not show it; what is counted of the past may
	// in the outcomes of its oldest entries.
	auditConfidence = 0.002
	auditStrength   = 0.005
	auditExpected   = 0.02
	auditSample     = 0.02 // of the sample
)

// Difference is a member of a signal that is not as it is recomputed.
type Difference struct {
	Member string `json:"member"`
	Stored string `json:"stored"`
	Now    string `json:"recomputed"`
}

// Verdict is what an audit says of a signal.
type Verdict struct {
	Differences []Difference
	// Reason says why the conclusion was not recomputed; empty if it was.
	Reason  string
	FewBars bool // the reason is that too few bars are known
}

// Audit recomputes the stored signals of an asset and timeframe from its bars. The
// entry of a signal on a source with ticks is a trade that no bar shows, so levels are
// recomputed from the entry that is stored.
type Audit struct {
	origin   strategy.Origin
	series   *strategy.Series
	bars     []marketdata.Bar
	late     int // how many of the newest bars a run may have gone by
	next     int // the first of bars that series lacks
	assessed map[assessedKey]assessed
}

// assessedKey names what a strategy said of a bar.
type assessedKey struct {
	bar      int
	strategy string
	risk     signal.RiskLevel
}

type assessed struct {
	strategy.Assessment
	err error
}

// audited are the strategies that an audit recomputes: those that read bars alone.
var audited = []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}

// NewAudit returns an audit over bars, which are as Run wants them.
func NewAudit(o strategy.Origin, tf signal.Timeframe, bars []marketdata.Bar) *Audit {
	a := &Audit{origin: o, bars: bars, late: auditLate, series: strategy.NewSeries(tf).WithTick(o.Tick), assessed: map[assessedKey]assessed{}}
	if o.Compression > 1 {
		a.late = max(a.late, 1+int(strategy.MinAge*o.Compression/float64(tf.Duration().Milliseconds())))
	}
	return a
}

// Check recomputes how s was made. Signals must come in the order of their creation. The
// error says that the bars are not possible.
func (a *Audit) Check(s *signal.Signal) (Verdict, error) {
	var v Verdict
	if s.Levels == nil || !slices.Contains(audited, s.Strategy) {
		v.Reason = "the strategy reads more than bars"
		return v, nil
	}
	created := s.CreatedAt.UnixMilli()
	end, _ := slices.BinarySearchFunc(a.bars, created, func(b marketdata.Bar, t int64) int {
		if b.CloseTime <= t {
			return -1
		}
		return 1
	})
	if end-a.late+1 < auditBars {
		v.FewBars = true
		v.Reason = fmt.Sprintf("only %d bars before it are stored, %d are needed", end, auditBars+a.late-1)
		return v, nil
	}
	if err := a.reach(end); err != nil {
		return v, err
	}
	var nearest []Difference
	for i := end - a.late; i < end; i++ {
		found := a.compare(s, i)
		if len(found) == 0 {
			return v, nil
		}
		if nearest == nil || len(found) <= len(nearest) {
			nearest = found
		}
	}
	v.Differences = append(v.Differences, nearest...)
	return v, nil
}

// reach gives the series the bars before end, and notes what is said of the last of
// them: several signals may have been made there.
func (a *Audit) reach(end int) error {
	for key := range a.assessed {
		if key.bar < end-a.late {
			delete(a.assessed, key)
		}
	}
	for ; a.next < end; a.next++ {
		if err := a.series.Append(a.bars[a.next]); err != nil {
			return fmt.Errorf("audit bars: %w", err)
		}
		if a.next < end-a.late {
			continue
		}
		for _, name := range audited {
			for _, risk := range signal.RiskLevels {
				said, err := a.series.Assess(name, risk)
				a.assessed[assessedKey{a.next, name, risk}] = assessed{said, err}
			}
		}
	}
	return nil
}

// compare recomputes s as if bar i had been the newest.
func (a *Audit) compare(s *signal.Signal, i int) []Difference {
	said := a.assessed[assessedKey{i, s.Strategy, s.Risk}]
	if said.err != nil {
		return []Difference{{"error", "", said.err.Error()}}
	}
	o := a.origin
	o.Asset = s.Asset
	c, err := said.Evaluate(o, s.Levels.Entry)
	if err != nil {
		return []Difference{{"error", "", err.Error()}}
	}
	return differences(s, &c)
}

// differences compares a stored signal with what is recomputed.
func differences(s *signal.Signal, c *strategy.Evaluation) []Difference {
	var d []Difference
	number := func(member string, stored, now, tolerance float64) {
		if !(math.Abs(stored-now) <= tolerance) {
			d = append(d, Difference{member, decimal(stored), decimal(now)})
		}
	}
	if s.Direction != c.Direction {
		d = append(d, Difference{"direction", string(s.Direction), string(c.Direction)})
	}
	number("confidence", s.FirstConfidence, c.Confidence, auditConfidence)
	number("entry_price", s.Levels.Entry, c.Levels.Entry, 0)
	number("stop_loss", s.Levels.Stop, c.Levels.Stop, 0)
	number("take_profit", s.Levels.Target, c.Levels.Target, 0)
	var stored, now struct {
		Indicators json.RawMessage `json:"indicators"`
		Values     json.RawMessage `json:"values"`
		Source     json.RawMessage `json:"source"`
		Strength   float64         `json:"strength"`
		BreakEven  float64         `json:"break_even"`
		ExpectedR  float64         `json:"expected_r"`
		Sample     float64         `json:"sample"`
	}
	if err := json.Unmarshal(s.Metadata, &stored); err != nil {
		return append(d, Difference{"metadata", string(s.Metadata), string(c.Metadata)})
	}
	if err := json.Unmarshal(c.Metadata, &now); err != nil {
		return append(d, Difference{"metadata", string(s.Metadata), string(c.Metadata)})
	}
	for _, m := range [...]struct {
		name        string
		stored, now json.RawMessage
	}{{"indicators", stored.Indicators, now.Indicators}, {"values", stored.Values, now.Values}, {"source", stored.Source, now.Source}} {
		if !sameJSON(m.stored, m.now) {
			d = append(d, Difference{"metadata." + m.name, string(m.stored), string(m.now)})
		}
	}
	number("metadata.strength", stored.Strength, now.Strength, auditStrength)
	number("metadata.break_even", stored.BreakEven, now.BreakEven, 0)
	number("metadata.expected_r", stored.ExpectedR, now.ExpectedR, auditExpected)
	number("metadata.sample", stored.Sample, now.Sample, max(0.1, auditSample*now.Sample))
	return d
}

// sameJSON compares values, not how they are written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// CheckClosing returns what does not fit together in how a signal ended: its price and
// its levels, its numbers and its price. An open signal has no such differences.
func CheckClosing(s *signal.Signal) []Difference {
	c := s.Closing
	if c == nil || s.Levels == nil {
		return nil
	}
	var d []Difference
	if c.ExitPrice == nil || c.PnLPercent == nil || c.PnLAbsolute == nil {
		return append(d, Difference{"exit_price", "null", "a price"})
	}
	exit := *c.ExitPrice
	percent, absolute := strategy.PnL(s.Direction, s.Levels.Entry, exit)
	number := func(member string, stored, now float64) {
		if stored != now {
			d = append(d, Difference{member, decimal(stored), decimal(now)})
		}
	}
	number("pnl_percent", *c.PnLPercent, percent)
	number("pnl_absolute", *c.PnLAbsolute, absolute)
	number("duration_minutes", float64(c.DurationMinutes), float64(strategy.DurationMinutes(s.CreatedAt, c.At)))
	reached, ended := strategy.ExitOnTick(s.Direction, *s.Levels, exit)
	reason := signal.Expired
	if ended {
		reason = reached.Reason
	}
	if reason != c.Reason {
		d = append(d, Difference{"close_reason", string(c.Reason), string(reason)})
	} else if ended && reached.Price != exit {
		number("exit_price", exit, reached.Price)
	}
	if c.At.Before(s.CreatedAt) {
		d = append(d, Difference{"closed_at", c.At.String(), "not before " + s.CreatedAt.String()})
	}
	return d
}

// decimal returns v in plain decimals.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
