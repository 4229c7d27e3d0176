package strategy

import (
	"math"

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

	ATR     float64 // ATR14 of the timeframe in price units
	Horizon int     // bars until expiry

	Indicators []string       // at least one
	Values     map[string]any // a number for each indicator, or several by name
	Finding    string         // what the score rests on, without a full stop
	Headlines  []string       // sentiment: up to three; else nil
	Extra      map[string]any // further members of the metadata, or nil
}

// Base describes entries at the last bar without regard to direction or strategy. The
// weather agent builds on it.
type Base struct {
	Bar       marketdata.Bar // the last closed bar
	Timeframe signal.Timeframe
	Risk      signal.RiskLevel
	Prior     float64 // share of earlier entries that closed in profit, not rounded
	Win, Loss float64 // mean result of those and of the others in R, positive
	Entries   float64 // effective count of all of them
	ATR       float64 // ATR14 in price units
	Sigma     float64 // sample deviation of the last 100 log returns, per bar
	Horizon   int     // bars until expiry
}

// Base returns the base at the last bar. The error is a *signal.RunError:
// INSUFFICIENT_HISTORY with fewer than 300 bars or 100 outcomes, or if the market does
// not move; DATA_UNAVAILABLE if a bar of the window opens too far from the one before.
func (s *Series) Base(risk signal.RiskLevel) (Base, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base(risk)
}

func (s *Series) base(risk signal.RiskLevel) (Base, error) {
	r, horizon := riskIndex(risk), Horizon(s.tf, risk)
	if r < 0 || horizon == 0 {
		return Base{}, internal("assess %q bars at risk %q", s.tf, risk)
	}
	if n := s.usable(); n < minUsable {
		return Base{}, insufficient("only %d closed bars are known, %d are needed", n, minUsable)
	}
	if !s.last.hasMovement {
		return Base{}, insufficient("the market has not moved")
	}
	if err := s.jumped(); err != nil {
		return Base{}, err
	}
	c := s.record(r)
	if n := c.count.n / 2; n < minOutcomes {
		return Base{}, insufficient("only %.0f past entries are resolved, %d are needed", n, minOutcomes)
	}
	return Base{
		Bar: s.last.Bar, Timeframe: s.tf, Risk: risk,
		Prior: c.prior(), Win: c.meanWin(), Loss: c.meanLoss(), Entries: c.count.n / 2 * overlap(horizon),
		ATR: s.last.ATR14, Sigma: s.last.Sigma, Horizon: horizon,
	}, nil
}

// usable counts the bars of the window that do not fill gaps.
func (s *Series) usable() int {
	n := 0
	for i := max(0, len(s.bars)-window); i < len(s.bars); i++ {
		if !s.bars[i].Flat {
			n++
		}
	}
	return n
}

// jumped returns an error if a bar of the window opens too far from the close before.
func (s *Series) jumped() error {
	for i := max(0, len(s.bars)-window); i < len(s.bars); i++ {
		if jump := s.history[i].jump; jump > 0 {
			cause := &JumpError{s.bars[i].OpenTime, jump}
			return &signal.RunError{Code: signal.DataUnavailable, Cause: cause,
				Message: cause.Error() + ", which is a split or a fault of the source"}
		}
	}
	return nil
}

// record returns the outcomes of all entries whose horizon has passed, for the r-th risk
// level.
func (s *Series) record(r int) *record {
	if s.records[r] != nil {
		return s.records[r]
	}
	s.resolve()
	c := &record{}
	for j := s.scoredFrom(); j < len(s.outcomes[r]); j++ {
		if s.history[j].scored {
			c.add(s.outcomes[r][j])
		}
	}
	s.records[r] = c
	return c
}

// resolve brings the outcomes of all risk levels up to date with the bars.
func (s *Series) resolve() {
	for r, risk := range signal.RiskLevels {
		s.outcomes[r] = resolve(s.outcomes[r], s.bars, s.history, Horizon(s.tf, risk), StopMultiple(risk), s.tick)
	}
	s.pool()
}

// Assess returns the assessment of the last bar by the named strategy. The error is a
// *signal.RunError as for Base. The result is computed once per bar.
func (s *Series) Assess(strategy string, risk signal.RiskLevel) (Assessment, error) {
	t, r := technicalIndex(strategy), riskIndex(risk)
	if t < 0 || r < 0 {
		return Assessment{}, internal("assess strategy %q at risk %q", strategy, risk)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cached[t][r]
	if c == nil {
		c = &result{}
		c.assessment, c.err = s.assess(t, risk)
		s.cached[t][r] = c
	}
	return c.assessment, c.err
}

func (s *Series) assess(t int, risk signal.RiskLevel) (Assessment, error) {
	b, err := s.base(risk)
	if err != nil {
		return Assessment{}, err
	}
	strategy, r := technicals[t], riskIndex(risk)
	now := &s.history[len(s.history)-1]
	score := now.scores[t]
	a := b.Assessment(strategy.name(), score, directionOf(score, now.belowMean))
	a.Calibration = ""
	var place rank
	for j := s.scoredFrom(); j < len(s.history)-1; j++ {
		if s.history[j].scored {
			place.add(math.Abs(s.history[j].scores[t]), math.Abs(score))
		}
	}
	bin := binOf(math.Abs(score))
	all, own := &s.view.all[t][r], &s.view.mine[t][r]
	a.set(estimateFrom(b.Prior, b.Horizon, all.all, all.near(bin), own.near(bin)), place)
	a.Indicators, a.Values = strategy.indicators(), strategy.values(&s.last)
	a.Finding = strategy.finding(&s.last)
	return a, nil
}

// Assessment begins an assessment by a strategy without outcomes of its own: its
// confidence is the prior.
func (b Base) Assessment(strategy string, score float64, d signal.Direction) Assessment {
	a := Assessment{
		Strategy: strategy, Timeframe: b.Timeframe, Risk: b.Risk, Bar: b.Bar, Direction: d, Score: score,
		Win: b.Win, Loss: b.Loss, Prior: round(b.Prior, 4), Entries: round(b.Entries, 1),
		ATR: b.ATR, Horizon: b.Horizon, Calibration: CalibrationPrior,
	}
	a.set(estimate{confidence: b.Prior, sample: b.Entries, share: math.NaN()}, rank{})
	return a
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
	return round(min(1, (a.Loss+cost)/(a.Win+a.Loss)), 4)
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
