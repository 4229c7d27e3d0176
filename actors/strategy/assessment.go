package strategy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// What a confidence rests on, if not on outcomes of the strategy alone.
const (
	// CalibrationPrior means all entries in the asset's history, since too few of them had
	// enough news to be compared, and an assumed share of the score.
	CalibrationPrior = "prior"
	// CalibrationAssumed means all entries, and a forecast whose worth is assumed.
	CalibrationAssumed = "assumed"
	// CalibrationFitted means all entries, and a forecast whose worth was measured on
	// closed signals of the same agent.
	CalibrationFitted = "fitted"
	// CalibrationSkill means all entries at the levels of the signal, and the skill of the strategy of an
	// account's agent.
	CalibrationSkill = "skill"
)

// Assessment is the opinion of a strategy on a market at the close of a bar. Copies share
// slices and maps, which are read-only.
//
// Agents with a strategy of their own fill in an Assessment from a Base. Metadata and
// Reasoning then also need Strategy, Indicators, Values and Finding.
type Assessment struct {
	Strategy  string
	Timeframe signal.Timeframe
	Risk      signal.RiskLevel
	Bar       marketdata.Bar // the last closed bar
	Direction signal.Direction
	Score     float64

	Confidence float64 // probability of a profit, 0.01 to 0.99, 4 decimals
	Strength   float64 // share of earlier scores that were weaker, 0 to 1, 4 decimals; no edge
	Win, Loss  float64 // mean result of all earlier entries with and without a profit, in R, positive
	// Sample is the effective count of the earlier entries behind Confidence, 1 decimal: of
	// comparable ones, or with a Calibration of all.
	Sample  float64
	Share   float64 // how many comparable ones closed in profit, 4 decimals; NaN without any
	Prior   float64 // hit rate of an entry without an opinion, 4 decimals
	Entries float64 // effective count of the entries behind Prior, 1 decimal
	// Calibration is one of the constants above, or empty if Confidence rests on the
	// outcomes of the strategy.
	Calibration string
	Closed      int // closed signals behind CalibrationFitted
	Skill       Skill
	// Proven means that earlier differences in confidence were followed by such differences in
	// outcomes, beyond chance. Without it the Reasoning claims neither an edge nor a loss.
	Proven bool
	// Quiet means that a forecast is too near normal to change the Confidence of all entries.
	Quiet bool

	ATR     float64 // ATR14 of the timeframe in price units
	Horizon int     // bars until expiry

	Indicators []string       // at least one
	Values     map[string]any // a number for each indicator, or several by name
	Finding    string         // what the score rests on, without a full stop
	Headlines  []string       // sentiment: up to three; else nil
	Extra      map[string]any // further members of the metadata, or nil
}

// set fills in the members that rest on history.
func (a *Assessment) set(e estimate, place rank) {
	a.Confidence = round(e.confidence, 4)
	a.Sample = round(e.sample, 1)
	a.Share = round(e.share, 4)
	a.Strength = round(place.percentile(), 4)
}

// BreakEven returns the hit rate at which the mean result is 0 where each entry and exit
// together cost the given part of the risk.
func (a *Assessment) BreakEven(cost float64) float64 {
	return round(BreakEven(a.Win, a.Loss, cost), 4)
}

// ExpectedR returns the mean result in R that the confidence implies, after the given
// cost.
func (a *Assessment) ExpectedR(cost float64) float64 {
	return noNegativeZero(round(a.Confidence*a.Win-(1-a.Confidence)*a.Loss-cost, 4))
}

// Edge returns how far the confidence lies above the break-even after the given cost.
func (a *Assessment) Edge(cost float64) float64 {
	return noNegativeZero(round(a.Confidence-a.BreakEven(cost), 4))
}

// Interval returns the bounds between which the probability of a profit lies with 95 %,
// by the effective count of the entries that the confidence rests on. It does not know how
// far off an assumption or a fit may be.
func (a *Assessment) Interval() (low, high float64) {
	n := a.Sample
	if a.Calibration == "" {
		n += a.Entries
	}
	low, high = interval(a.Confidence, n)
	return round(low, 4), round(high, 4)
}

// Levels returns the prices of a signal that enters at entry, rounded to tick; tick is 0
// if the source has none. The error is a *signal.RunError if the price is too small for
// levels.
func (a Assessment) Levels(entry, tick float64) (signal.Levels, error) {
	return priceLevels(a.Direction, entry, a.ATR, StopMultiple(a.Risk), tick)
}

// Origin names an asset and the source of its prices.
type Origin struct {
	Asset       string  // as it is to be shown
	Tick        float64 // tick size; 0 if the source has none
	Source      string  // the source of the prices
	Proxy       string  // the fund whose prices stand in for the asset's; empty: its own
	Compression float64 // market time runs this many times as fast as the clock; 1 is real time
	Cost        float64 // of an entry or an exit, as a share of the price
}

// Evaluation is a signal before it is recorded: without identifiers and times.
type Evaluation struct {
	Direction  signal.Direction
	Confidence float64 // 4 decimals
	Levels     signal.Levels
	Metadata   json.RawMessage
	Lifetime   time.Duration // by the clock, while the market is open
}

// Evaluate returns the signal of an entry at the given price. Live runs and backtests
// share it, so that they agree. The error is a *signal.RunError.
func (a Assessment) Evaluate(o Origin, entry float64) (Evaluation, error) {
	e, err := a.Enter(o, entry)
	if err == nil {
		e.Metadata = a.At(o, e.Levels)
	}
	return e, err
}

// Enter is Evaluate without Metadata, which takes longer than the rest.
func (a *Assessment) Enter(o Origin, entry float64) (Evaluation, error) {
	levels, err := a.Levels(entry, o.Tick)
	if err != nil {
		return Evaluation{}, err
	}
	return Evaluation{
		Direction:  a.Direction,
		Confidence: signal.RoundConfidence(a.Confidence),
		Levels:     levels,
		Lifetime:   Lifetime(a.Timeframe, a.Risk, o.Compression),
	}, nil
}

// At returns the metadata of an entry at the given levels.
func (a Assessment) At(o Origin, l signal.Levels) json.RawMessage {
	extra := map[string]any{"source": o.Source}
	if o.Proxy != "" {
		extra["proxy"] = o.Proxy
	}
	if o.Compression > 1 {
		extra["time_compression"] = o.Compression
	}
	maps.Copy(extra, a.Extra)
	return slices.Clip(a.Metadata(o.Asset, l, CostR(l, l.Entry, o.Cost), extra))
}

// Skilled moves the confidence by the skill of a strategy of an account's agent.
func (a *Assessment) Skilled(s Skill) {
	a.Confidence, a.Calibration, a.Skill = s.Confidence(a.Prior), CalibrationSkill, s
	a.Proven = s.Known() && (s.Low > 0 || s.High < 0)
}

// measure names what a confidence is. That of a text is another one: see package content.
const measure = "probability"

// Metadata returns the JSON object of a signal's metadata. The members of extra (source,
// time_compression, ...) are added and replace others of the same name. cost is that of
// entry and exit together in R. A value that JSON cannot express becomes null.
func (a *Assessment) Metadata(asset string, l signal.Levels, cost float64, extra map[string]any) json.RawMessage {
	o := object{buf: make([]byte, 0, 1024), skip: extra}
	o.strings("indicators", a.Indicators)
	o.value("reasoning", func() any { return a.Reasoning(asset, l, cost) })
	o.value("values", func() any { return a.Values })
	o.number("strength", a.Strength)
	o.number("break_even", a.BreakEven(0))
	o.number("break_even_net", a.BreakEven(cost))
	o.number("expected_r", a.ExpectedR(0))
	o.number("expected_r_net", a.ExpectedR(cost))
	o.number("cost_r", round(cost, 4))
	o.number("edge", a.Edge(cost))
	low, high := a.Interval()
	o.value("confidence_interval", func() any { return [2]float64{low, high} })
	o.number("sample", a.Sample)
	o.number("comparable_share", a.Share)
	o.strings("measure", measure)
	if a.Calibration != "" {
		o.strings("calibration", a.Calibration)
	}
	if a.Headlines != nil {
		o.strings("headlines", a.Headlines)
	}
	if a.Calibration == CalibrationSkill {
		o.number("base_probability", a.Prior)
		o.number("skill", a.Skill.Estimate)
		o.value("skill_interval", func() any { return [2]float64{a.Skill.Low, a.Skill.High} })
		o.number("skill_sample", float64(a.Skill.N))
	}
	o.skip = nil
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		o.value(name, func() any { return extra[name] })
	}
	return o.bytes()
}

// Reasoning explains in three sentences the basis of the signal on asset, from the numbers
// alone. cost is that of entry and exit together in R.
func (a *Assessment) Reasoning(asset string, l signal.Levels, cost float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s on %s %s: %s. ", title(a.Strategy), a.Direction, asset, a.Timeframe, a.Finding)
	fmt.Fprintf(&b, "Estimate %.0f %%: %s; break-even after costs %.0f %%, so %s. ",
		100*a.Confidence, a.basis(), 100*a.BreakEven(cost), a.Verdict(cost))
	fmt.Fprintf(&b, "Stop %s ATR, target %s ATR, expires in %d bars.",
		multiples(l.Entry-l.Stop, a.ATR), multiples(l.Entry-l.Target, a.ATR), a.Horizon)
	return b.String()
}

// basis describes the entries that the confidence rests on.
func (a *Assessment) basis() string {
	points := 100 * (a.Confidence - a.Prior)
	switch {
	case a.Quiet:
		return fmt.Sprintf("%s, since the weather is less than one deviation from normal: past entries, worth %.0f "+
			"independent ones, put it at %.0f %%, and the forecast adds nothing", signal.NoSignal, a.Sample, 100*a.Prior)
	case a.Calibration == CalibrationPrior:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, fewer than %d of them had "+
			"enough news to be compared, and the score changes that by %+.1f points, which is assumed and not measured",
			a.Sample, 100*a.Prior, minOutcomes, points)
	case a.Calibration == CalibrationAssumed:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, "+
			"and the forecast changes that by %+.1f points, which is assumed and not measured",
			a.Sample, 100*a.Prior, points)
	case a.Calibration == CalibrationFitted:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, "+
			"and the forecast changes that by %+.1f points, as fitted to %d closed signals",
			a.Sample, 100*a.Prior, points, a.Closed)
	case a.Calibration == CalibrationSkill && !a.Skill.Known():
		return fmt.Sprintf("past entries at these levels, worth %.0f independent ones, put it at %.0f %%, and the skill of the "+
			"strategy, not yet known with %d closed signals, changes that by %+.1f points",
			a.Sample, 100*a.Prior, a.Skill.N, points)
	case a.Calibration == CalibrationSkill:
		return fmt.Sprintf("past entries at these levels, worth %.0f independent ones, put it at %.0f %%, and the skill of the "+
			"strategy changes that by %+.1f points, as measured on %d closed signals", a.Sample, 100*a.Prior, points, a.Skill.N)
	case a.Sample < 1:
		return fmt.Sprintf("hardly any comparable past setup is known, and past entries as a whole put it at %.0f %%",
			100*a.Prior)
	}
	return fmt.Sprintf("comparable past setups, worth %.0f independent ones, closed in profit %.0f %% of the time; "+
		"past entries as a whole put it at %.0f %%", a.Sample, 100*a.Share, 100*a.Prior)
}

// Verdict compares the confidence with the break-even after costs, those of entry and exit together in R.
func (a *Assessment) Verdict(cost float64) string {
	evens := a.BreakEven(cost)
	switch low, high := a.Interval(); {
	case !a.Proven:
	case low > evens:
		return "the past speaks for an edge"
	case high < evens:
		return "the past speaks for a loss"
	}
	return "no evidence of an edge"
}

// multiples returns a distance in ATR with at most two decimals.
func multiples(distance, atr float64) string {
	return strconv.FormatFloat(round(math.Abs(distance)/atr, 2), 'f', -1, 64)
}

// title returns a strategy's name in the form that begins a sentence.
func title(name string) string {
	name = strings.ReplaceAll(name, "_", " ")
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// object writes the members of a JSON object in the order given.
type object struct {
	buf  []byte
	skip map[string]any // members that are written from elsewhere
}

// begin writes the member's name. It returns false if the member is to be skipped.
func (o *object) begin(name string) bool {
	if _, skip := o.skip[name]; skip {
		return false
	}
	if len(o.buf) == 0 {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(signal.AppendText(o.buf, name), ':')
	return true
}

// value writes a member of any type.
func (o *object) value(name string, v func() any) {
	if o.begin(name) {
		o.buf = append(o.buf, encoded(v())...)
	}
}

// strings writes a string or a list of them.
func (o *object) strings(name string, v any) { o.value(name, func() any { return v }) }

// number writes a number, or null if it is not finite.
func (o *object) number(name string, x float64) {
	if !o.begin(name) {
		return
	}
	if !finite(x) {
		o.buf = append(o.buf, "null"...)
		return
	}
	o.buf = strconv.AppendFloat(o.buf, x, 'f', -1, 64)
}

// bytes ends the object.
func (o *object) bytes() []byte { return append(o.buf, '}') }

// encoded returns v as JSON, or null if JSON cannot express it.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}
