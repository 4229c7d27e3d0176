package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Limits of the levels that an account's agent chooses. Nearer ones are within what a price moves by itself, and
// further ones are never reached.
const (
	minStopTicks   = 5
	minStopShare   = 0.0005 // of the entry
	minTargetCosts = 2      // round trips
	minTargetShare = 0.2    // of the stop's distance
	maxLevelATR    = 50
)

// maxPriceAge is how old the price may be at which an account's agent enters, by the clock, whatever the asset.
const maxPriceAge = 30 * time.Second

// maxPriceMove is how far the price that an agent saw may be from the market, as a share of the stop's distance.
const maxPriceMove = 0.25

// Skills has the measured skill of the strategies of accounts' agents.
type Skills interface {
	Skill(ctx context.Context, account signal.AccountID, agent signal.AgentID, strategy string) (strategy.Skill, error)
}

// InvalidError reports the faults of a submission that only the market shows.
type InvalidError struct{ Faults []Fault }

// Error implements error.
func (e *InvalidError) Error() string {
	return strings.TrimPrefix(e.Faults[0].Pointer, "/") + " " + e.Faults[0].Detail
}

func invalidLevel(pointer, format string, args ...any) error {
	return &InvalidError{[]Fault{{pointer, codeInvalidValue, fmt.Sprintf(format, args...)}}}
}

// submitted evaluates what the agents of accounts submit.
type submitted struct {
	trading *trader
	skills  Skills // nil: none is known
}

// Evaluate implements evaluator. Beside a *signal.RunError the error may be an *InvalidError, or KindConflict with the code
// price_moved.
func (s *submitted) Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error) {
	if r.Submission.Text != "" {
		return s.text(r), nil
	}
	t := s.trading
	seen, err := t.market.Series(ctx, r.Asset, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	entry, age, err := s.entry(ctx, r, &seen)
	if err != nil {
		return evaluation{}, err
	}
	_, series, _, err := t.follow(ctx, &seen, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	features, ok := series.Features()
	if !ok || !(features.ATR14 > 0) {
		return evaluation{}, &signal.RunError{Code: signal.InsufficientHistory,
			Message: "the asset has too few bars of " + string(r.Timeframe) + " to know how far its price moves"}
	}
	cost := t.cost(seen.Asset.Class)
	levels, err := submittedLevels(r, entry, features.ATR14, seen.Asset.TickSize, cost)
	if err != nil {
		return evaluation{}, err
	}
	if saw := r.Submission.Price; saw > 0 && math.Abs(saw-entry) > maxPriceMove*math.Abs(entry-levels.Stop) {
		return evaluation{}, &signal.Error{Kind: signal.KindConflict, Code: "price_moved", Message: fmt.Sprintf(
			"price is %v and the market is at %v, further away than a quarter of the distance to the stop", saw, entry)}
	}
	lifetime, bars := s.lifetime(r, &seen)
	reach := strategy.ReachOf(levels, features.ATR14, bars)
	base, err := series.BaseAt(reach, seen.Ticks)
	if err != nil {
		return evaluation{}, err
	}
	skill := strategy.SkillOf(nil)
	if s.skills != nil {
		if skill, err = s.skills.Skill(ctx, r.Account, r.Agent, r.Strategy); err != nil {
			return evaluation{}, &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Passing: true,
				Message: "the skill of the agent cannot be read at the moment", Cause: err}
		}
	}
	base.Risk = r.Risk
	a := base.Assessment(r.Strategy, 0, r.Submission.Direction)
	a.Skilled(skill)
	a.Indicators, a.Values, a.Finding = []string{"submitted"}, map[string]any{}, "submitted by its agent"
	if list := r.Submission.Indicators; list != nil {
		a.Indicators = list
	}
	a.Extra = submittedMembers(r.Submission)
	a.Extra["price_age_ms"], a.Extra["atr"], a.Extra["horizon_bars"] = age.Milliseconds(), features.ATR14, bars
	return evaluation{Direction: a.Direction, Confidence: a.Confidence, Levels: &levels, Lifetime: lifetime,
		Reach:    &signal.Reach{Stop: reach.Stop, Bars: bars},
		Metadata: a.At(originOf(r.Asset, &seen, cost), levels)}, nil
}

// entry returns the price at which a signal enters now, which is never that of the agent, and its age.
func (s *submitted) entry(ctx context.Context, r *signal.RunRequest, seen *market.Snapshot) (float64, time.Duration, error) {
	last := seen.Last
	if !seen.Ticks && r.Timeframe != signal.M1 {
		minutes, err := s.trading.market.Series(ctx, r.Asset, signal.M1)
		if err != nil {
			return 0, 0, err
		}
		last = minutes.Last
	}
	age := s.trading.now().Sub(time.UnixMilli(last.Time))
	if age > maxPriceAge {
		return 0, 0, &signal.RunError{Code: signal.StaleData, Retryable: true, Message: fmt.Sprintf(
			"the last price of %s is %s old, and a signal is entered at one of at most %s", seen.Asset.Symbol,
			age.Truncate(time.Second), maxPriceAge)}
	}
	return last.Price, max(0, age), nil
}

// lifetime returns how long the signal lives, by the clock, and in bars of its timeframe while the market is open.
func (s *submitted) lifetime(r *signal.RunRequest, seen *market.Snapshot) (time.Duration, float64) {
	if r.Submission.ExpiresIn == 0 {
		wall := strategy.Lifetime(r.Timeframe, r.Risk, seen.Compression)
		return seen.Lifetime(s.trading.now(), wall, r.Timeframe), float64(strategy.Horizon(r.Timeframe, r.Risk))
	}
	now := s.trading.now()
	open := seen.Session.Between(now, now.Add(r.Submission.ExpiresIn))
	bars := float64(open) * max(1, seen.Compression) / float64(seen.Session.Lasting(r.Timeframe.Duration(), r.Timeframe))
	return r.Submission.ExpiresIn, bars
}

// text returns the signal of a text, which has no prices.
func (s *submitted) text(r *signal.RunRequest) evaluation {
	x, name := r.Submission, "content"
	if r.Own.Category == signal.Weather {
		name = "outlook"
	}
	confidence := 0.5
	if x.Claim != nil {
		confidence = *x.Claim
	}
	m := submittedMembers(x)
	m[name], m["measure"], m["indicators"] = x.Text, "claimed", []string{"submitted"}
	if x.Indicators != nil {
		m["indicators"] = x.Indicators
	}
	if x.Reasoning == "" {
		m["reasoning"] = fmt.Sprintf("A %s on %s, submitted by its agent, whose claim the confidence is.", name, r.Asset)
	}
	metadata, _ := json.Marshal(m) // texts, numbers and valid JSON
	lifetime := cmp.Or(x.ExpiresIn, strategy.Lifetime(r.Timeframe, r.Risk, 1))
	return evaluation{Direction: cmp.Or(x.Direction, signal.Long), Confidence: confidence, Metadata: metadata, Lifetime: lifetime}
}

// submittedMembers returns the members of the metadata that the agent has given.
func submittedMembers(s *signal.Submission) map[string]any {
	m := map[string]any{}
	if s.Claim != nil {
		m["claimed_confidence"] = *s.Claim
	}
	if s.Parameters != nil {
		m["parameters"] = s.Parameters
	}
	if s.Reasoning != "" {
		m["reasoning"] = s.Reasoning
	}
	if s.Interval != "" {
		m["interval"] = s.Interval
	}
	if s.Reference != "" {
		m["reference"] = s.Reference
	}
	return m
}

// submittedLevels returns the levels of a submission around entry. They are not widened: what is too near or too far is an
// *InvalidError.
func submittedLevels(r *signal.RunRequest, entry, atr, tick, cost float64) (signal.Levels, error) {
	s := r.Submission
	standard, err := strategy.Assessment{Direction: s.Direction, ATR: atr, Risk: r.Risk}.Levels(entry, tick)
	if err != nil {
		return signal.Levels{}, err
	}
	if !(tick > 0) {
		tick = strategy.TickSize(entry)
	}
	sign := 1.0
	if s.Direction == signal.Short {
		sign = -1
	}
	l := standard
	if x := s.Stop; x.Value > 0 {
		l.Stop = strategy.RoundToTick(levelOf(x, entry, -sign, atr, 0), tick)
	}
	risk := math.Abs(l.Entry - l.Stop)
	switch x := s.Target; {
	case x.Value > 0:
		l.Target = strategy.RoundToTick(levelOf(x, entry, sign, atr, risk), tick)
	case s.Stop.Value > 0: // as far from the stop as the service's own levels
		l.Target = strategy.RoundToTick(entry+sign*risk*math.Abs(standard.Target-standard.Entry)/
			math.Abs(standard.Entry-standard.Stop), tick)
	}
	if s.Stop.Value == 0 && s.Target.Value == 0 {
		return l, nil // those that the service chooses for its own agents
	}
	return l, checkLevels(s.Direction, l, atr, tick, cost)
}

// levelOf returns the price of a level on the side of sign.
func levelOf(l signal.Level, entry, sign, atr, risk float64) float64 {
	switch l.Unit {
	case signal.PriceLevel:
	case signal.PercentLevel:
		return entry * (1 + sign*l.Value/100)
	case signal.ATRLevel:
		return entry + sign*l.Value*atr
	case signal.RLevel:
		return entry + sign*l.Value*risk
	}
	return l.Value
}

func checkLevels(d signal.Direction, l signal.Levels, atr, tick, cost float64) error {
	stop, target := l.Entry-l.Stop, l.Target-l.Entry
	below, above := "below", "above"
	if d == signal.Short {
		stop, target, below, above = -stop, -target, above, below
	}
	const side = "would be at %v: the %s of a %s lies %s the entry, which is %v, and above 0"
	if stop <= 0 || l.Stop <= 0 {
		return invalidLevel("/stop", side, l.Stop, "stop", d, below, l.Entry)
	}
	if target <= 0 || l.Target <= 0 {
		return invalidLevel("/target", side, l.Target, "target", d, above, l.Entry)
	}
	const rounding = 1e-9
	least := func(pointer string, distance, least float64, why string) error {
		if distance >= least*(1-rounding) {
			return nil
		}
		return invalidLevel(pointer, "would be %.6g away: at least %.6g, %s", distance, least, why)
	}
	most := func(pointer string, distance float64) error {
		if distance <= maxLevelATR*atr {
			return nil
		}
		return invalidLevel(pointer, "would be %.6g away: at most %d ATR, which are %.6g", distance, maxLevelATR, maxLevelATR*atr)
	}
	return cmp.Or(
		least("/stop", stop, max(minStopTicks*tick, minStopShare*l.Entry), "five ticks and 0.05 % of the entry"),
		least("/target", target, max(minTargetCosts*2*cost*l.Entry, minTargetShare*stop),
			"twice the costs of entry and exit and a fifth of the stop's distance"),
		most("/stop", stop), most("/target", target))
}
