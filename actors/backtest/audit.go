package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Requirements and tolerances of an audit.
const (
	// auditBars is the number of bars before a signal that must be known: those that a
	// strategy uses.
	auditBars = 1000
	// auditLate is the number of newest bars any of which may have been the last one of a
	// run in real time, since a newer bar may not have arrived yet. In compressed time it
	// is any bar that was not stale.
	auditLate = 3
	// A live series may have begun at another bar than the stored ones. After auditBars
	// the difference is invisible in the indicators of the newest bar, but the outcomes
	// of the oldest entries may differ.
	auditConfidence = 0.002
	auditStrength   = 0.005
	auditBreakEven  = 0.002
	auditExpected   = 0.02
	auditCost       = 0.0002 // the difference of two rounded figures
	auditEdge       = auditConfidence + auditBreakEven
	auditInterval   = 0.005
	auditShare      = 0.01
	auditSample     = 0.02 // as a share of the sample
)

// Difference is a member of a signal whose stored value is not the recomputed one.
type Difference struct {
	Member string `json:"member"`
	Stored string `json:"stored"`
	Now    string `json:"recomputed"`
}

// Offset is by how much the stored value of a member with a tolerance is above the recomputed
// one, where the two do not differ.
type Offset struct {
	Member    string
	By        float64
	Tolerance float64
}

// Verdict is the result of auditing a signal.
type Verdict struct {
	Differences []Difference
	Offsets     []Offset // of a signal without differences
	// Reason is why the evaluation was not recomputed; empty if it was.
	Reason  string
	FewBars bool // the reason is that too few bars are known
}

// Audit recomputes the stored signals of an asset and timeframe from its bars. On a
// source with ticks the entry of a signal is a trade that bars do not show, so levels are
// recomputed from the stored entry.
type Audit struct {
	origin    strategy.Origin
	timeframe signal.Timeframe
	series    *strategy.Series
	bars      []marketdata.Bar
	late      int // the number of newest bars any of which may have been a run's last
	next      int // the first of bars that series lacks
	assessed  map[assessedKey]assessed
	pool      *strategy.Pool // nil: only the outcomes of the bars count
	key       string         // of the asset in the pool
	whole     bool           // pool has all outcomes ever stored
	waited    *Audit         // of signals that were stored long after their runs began; nil: there was none
}

// assessedKey identifies an assessment of a bar.
type assessedKey struct {
	bar      int
	strategy string
	risk     signal.RiskLevel
}

type assessed struct {
	strategy.Assessment
	err error
}

// audited lists the strategies that an audit recomputes: those that need bars only.
var audited = []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}

// NewAudit returns an audit over bars, which must be as for Run.
func NewAudit(o strategy.Origin, tf signal.Timeframe, bars []marketdata.Bar) *Audit {
	a := &Audit{origin: o, timeframe: tf, bars: bars, late: auditLate, series: strategy.NewSeries(tf).WithTick(o.Tick),
		assessed: map[assessedKey]assessed{}}
	if o.Compression > 1 {
		a.late = max(a.late, 1+int(strategy.MinAge*o.Compression/float64(tf.Duration().Milliseconds())))
	}
	return a
}

// InPool makes a recompute from stored outcomes as they were known at the time, where those of
// the asset have the name key, and returns a. whole reports whether all that were ever stored
// are in the pool. It must be called before Check.
func (a *Audit) InPool(pool *strategy.Pool, key string, whole bool) *Audit {
	a.pool, a.key, a.whole = pool, key, whole
	a.series.InPool(pool, key, func(strategy.Outcome) {}) // these count as in a live run, but are not stored
	a.series.Recall(a.bars)
	return a
}

// Check recomputes the evaluation of s. Signals must come in the order of their creation.
// The error means that the bars are impossible.
//
// A signal is created when Redis stores it. If Redis stands still, that is long after the run has
// read its bars, so any bar since the run began may have been its last one.
func (a *Audit) Check(s *signal.Signal) (Verdict, error) {
	var v Verdict
	if s.Levels == nil || !slices.Contains(audited, s.Strategy) {
		v.Reason = "the strategy reads more than bars"
		return v, nil
	}
	end := a.closed(s.CreatedAt)
	from := end - a.late
	if a.lacks(&v, from, end) {
		return v, nil
	}
	if !hasNet(s.Metadata) {
		v.Reason = "it was made by a version with another estimate of confidence"
		return v, nil
	}
	found, offsets, err := a.nearest(s, from, end)
	if began, ok := s.Run.Time(); ok && err == nil && len(found) > 0 && a.closed(began)-a.late < from {
		from = a.closed(began) - a.late
		if a.lacks(&v, from, end) {
			return v, nil
		}
		found, offsets, err = a.reachingBack(end-from).nearest(s, from, end)
	}
	switch {
	case err != nil:
		return v, err
	case len(found) == 0:
		v.Offsets = offsets
	default:
		v.Differences = found
	}
	return v, nil
}

// closed returns the number of bars that were closed at a time.
func (a *Audit) closed(at time.Time) int {
	return sort.Search(len(a.bars), func(i int) bool { return a.bars[i].CloseTime > at.UnixMilli() })
}

// lacks reports whether what a signal rests on is no longer known whose last bar is one of those from
// from up to end, and notes the reason.
func (a *Audit) lacks(v *Verdict, from, end int) bool {
	switch {
	case from+1 < auditBars:
		v.FewBars = true
		v.Reason = fmt.Sprintf("only %d bars before it are stored, %d are needed", end, auditBars+end-from-1)
	case a.pool != nil && !a.whole && a.pool.Known(a.bars[from].CloseTime) < strategy.MaxPooled:
		v.Reason = "outcomes that its confidence rests on are no longer stored"
	}
	return v.Reason != ""
}

// nearest recomputes s with each of the bars from from up to end as the newest. It returns the
// differences of the bar with fewest, or the offsets of one without differences.
func (a *Audit) nearest(s *signal.Signal, from, end int) (nearest []Difference, offsets []Offset, err error) {
	if err := a.reach(end); err != nil {
		return nil, nil, err
	}
	for i := from; i < end; i++ {
		found, offsets := a.compare(s, i)
		if len(found) == 0 {
			return nil, offsets, nil
		}
		if nearest == nil || len(found) <= len(nearest) {
			nearest = found
		}
	}
	return nearest, nil, nil
}

// reachingBack returns an audit of the same bars any late of which may have been a run's last.
func (a *Audit) reachingBack(late int) *Audit {
	if a.waited == nil || a.waited.late < late {
		a.waited = NewAudit(a.origin, a.timeframe, a.bars)
		a.waited.late = late
		if a.pool != nil {
			a.waited.InPool(a.pool, a.key, a.whole)
		}
	}
	return a.waited
}

// reach appends the bars before end to the series and keeps the assessments at the last
// of them, since several signals may have been made there.
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
				assessment, err := a.series.Assess(name, risk)
				a.assessed[assessedKey{a.next, name, risk}] = assessed{assessment, err}
			}
		}
	}
	return nil
}

// compare recomputes s with bar i as the newest.
func (a *Audit) compare(s *signal.Signal, i int) ([]Difference, []Offset) {
	found := a.assessed[assessedKey{i, s.Strategy, s.Risk}]
	if found.err != nil {
		return []Difference{{"error", "", found.err.Error()}}, nil
	}
	o := a.origin
	o.Asset = s.Asset
	c, err := found.Evaluate(o, s.Levels.Entry)
	if err != nil {
		return []Difference{{"error", "", err.Error()}}, nil
	}
	return differences(s, &c)
}

// differences compares a stored signal with the recomputed evaluation.
func differences(s *signal.Signal, c *strategy.Evaluation) (d []Difference, offsets []Offset) {
	number := func(member string, stored, now, tolerance float64) {
		if !(math.Abs(stored-now) <= tolerance) {
			d = append(d, Difference{member, decimal(stored), decimal(now)})
		} else if tolerance > 0 {
			offsets = append(offsets, Offset{member, stored - now, tolerance})
		}
	}
	if s.Direction != c.Direction {
		d = append(d, Difference{"direction", string(s.Direction), string(c.Direction)})
	}
	number("confidence", s.FirstConfidence, c.Confidence, auditConfidence)
	number("entry_price", s.Levels.Entry, c.Levels.Entry, 0)
	number("stop_loss", s.Levels.Stop, c.Levels.Stop, 0)
	number("take_profit", s.Levels.Target, c.Levels.Target, 0)
	var stored, now figures
	if json.Unmarshal(s.Metadata, &stored) != nil || json.Unmarshal(c.Metadata, &now) != nil {
		return append(d, Difference{"metadata", string(s.Metadata), string(c.Metadata)}), nil
	}
	member := func(name string, stored, now json.RawMessage) {
		if !sameJSON(stored, now) {
			d = append(d, Difference{"metadata." + name, string(stored), string(now)})
		}
	}
	member("indicators", stored.Indicators, now.Indicators)
	member("values", stored.Values, now.Values)
	member("source", stored.Source, now.Source)
	number("metadata.strength", stored.Strength, now.Strength, auditStrength)
	number("metadata.break_even", stored.BreakEven, now.BreakEven, auditBreakEven)
	number("metadata.expected_r", stored.ExpectedR, now.ExpectedR, auditExpected)
	number("metadata.sample", stored.Sample, now.Sample, max(0.1, auditSample*now.Sample))
	for i, bound := range []string{"low", "high"} {
		number("metadata.confidence_interval."+bound, stored.Interval[i], now.Interval[i], auditInterval)
	}
	if (stored.Share == nil) != (now.Share == nil) {
		member("comparable_share", encoded(stored.Share), encoded(now.Share))
	} else if now.Share != nil {
		number("metadata.comparable_share", *stored.Share, *now.Share, auditShare)
	}
	if x, y := stored.cost(), now.cost(); !(math.Abs(x-y) <= auditCost) {
		// Other costs explain all figures that are net of them.
		return append(d, Difference{"cost of entry and exit in R", decimal(x), decimal(y)}), nil
	}
	number("metadata.break_even_net", stored.BreakEvenNet, now.BreakEvenNet, auditBreakEven)
	number("metadata.expected_r_net", stored.ExpectedNet, now.ExpectedNet, auditExpected)
	number("metadata.edge", stored.Edge, now.Edge, auditEdge)
	return d, offsets
}

// figures are the members of metadata that an audit compares.
type figures struct {
	Indicators   json.RawMessage `json:"indicators"`
	Values       json.RawMessage `json:"values"`
	Source       json.RawMessage `json:"source"`
	Strength     float64         `json:"strength"`
	BreakEven    float64         `json:"break_even"`
	BreakEvenNet float64         `json:"break_even_net"`
	ExpectedR    float64         `json:"expected_r"`
	ExpectedNet  float64         `json:"expected_r_net"`
	Edge         float64         `json:"edge"`
	Interval     [2]float64      `json:"confidence_interval"`
	Sample       float64         `json:"sample"`
	Share        *float64        `json:"comparable_share"`
}

// cost returns the cost of entry and exit in R, rounded to four decimals.
func (f *figures) cost() float64 { return math.Round((f.ExpectedR-f.ExpectedNet)*1e4) / 1e4 }

// hasNet reports whether metadata have figures net of costs, as those of the present
// estimate have.
func hasNet(metadata json.RawMessage) bool {
	var m struct {
		Net *float64 `json:"break_even_net"`
	}
	return json.Unmarshal(metadata, &m) != nil || m.Net != nil
}

// encoded returns a number as JSON.
func encoded(x *float64) json.RawMessage {
	b, _ := json.Marshal(x) // a number that was read from JSON
	return b
}

// sameJSON reports whether a and b have the same value, however it is written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// CheckClosing returns the contradictions within the closing of a signal: between its
// price and its levels, and between its figures and its price. An open signal has none.
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
	switch {
	case c.Reason == signal.AgentExit: // at any price
	case reason != c.Reason:
		d = append(d, Difference{"close_reason", string(c.Reason), string(reason)})
	case ended && reached.Price != exit:
		number("exit_price", exit, reached.Price)
	}
	if c.At.Before(s.CreatedAt) {
		d = append(d, Difference{"closed_at", c.At.String(), "not before " + s.CreatedAt.String()})
	}
	return d
}

// decimal returns v in plain decimals.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
