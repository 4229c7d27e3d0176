package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// What a confidence rests on, if not on the strategy's own history.
const (
	// CalibrationPrior means all entries in the asset's history, since too few comparable
	// ones are known.
	CalibrationPrior = "prior"
	// CalibrationFitted means these entries, adjusted by how closed signals of the same
	// agent ended.
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
	Strength   float64 // share of earlier scores that were weaker, 0 to 1, 4 decimals
	BreakEven  float64 // the hit rate at which the mean result is 0
	ExpectedR  float64 // mean result of comparable earlier entries in R, 4 decimals
	Sample     float64 // effective count of those entries, 1 decimal
	Prior      float64 // hit rate of an entry without an opinion, 4 decimals
	// Calibration is one of the constants above, or empty if Confidence rests on the
	// strategy's own history.
	Calibration string

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
	ExpectedR float64 // their mean result in R
	Sample    float64 // effective count of them
	ATR       float64 // ATR14 in price units
	Sigma     float64 // sample deviation of the last 100 log returns, per bar
	Horizon   int     // bars until expiry
}

// Base returns the base at the last bar. The error is a *signal.RunError:
// INSUFFICIENT_HISTORY with fewer than 300 bars or 100 outcomes, or if the market does
// not move.
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
	c := s.record(r)
	if n := c.count / 2; n < minOutcomes {
		return Base{}, insufficient("only %.0f past entries are resolved, %d are needed", n, minOutcomes)
	}
	return Base{
		Bar: s.last.Bar, Timeframe: s.tf, Risk: risk, Prior: c.prior(), ExpectedR: c.meanR(),
		Sample: c.count / 2 * min(1, independent/float64(horizon)),
		ATR:    s.last.ATR14, Sigma: s.last.Sigma, Horizon: horizon,
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

// record returns the outcomes of all entries whose horizon has passed, for the r-th risk
// level.
func (s *Series) record(r int) *record {
	if s.records[r] != nil {
		return s.records[r]
	}
	risk := signal.RiskLevels[r]
	known := resolve(s.outcomes[r], s.bars, s.history, Horizon(s.tf, risk), StopMultiple(risk), s.tick)
	s.outcomes[r] = known
	c := &record{}
	for j := s.scoredFrom(); j < len(known); j++ {
		if s.history[j].scored {
			c.add(known[j])
		}
	}
	s.records[r] = c
	return c
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
	strategy := technicals[t]
	now := &s.history[len(s.history)-1]
	score := now.scores[t]
	a := b.Assessment(strategy.name(), score, directionOf(score, now.belowMean))
	a.Calibration = ""

	known := s.outcomes[riskIndex(risk)]
	var place rank
	s.scratch = s.scratch[:0]
	for j := s.scoredFrom(); j < len(s.history)-1; j++ {
		p := &s.history[j]
		if !p.scored {
			continue
		}
		strength := math.Abs(p.scores[t])
		place.add(strength, math.Abs(score))
		if j < len(known) {
			s.scratch = append(s.scratch, setup{strength, known[j].of(directionOf(p.scores[t], p.belowMean))})
		}
	}
	a.set(weigh(math.Abs(score), b.Horizon, b.Prior, s.scratch), place)
	a.Indicators, a.Values = strategy.indicators(), strategy.values(&s.last)
	a.Finding = strategy.finding(&s.last)
	return a, nil
}

// Assessment begins an assessment by a strategy without a history of its own: its
// confidence is the prior.
func (b Base) Assessment(strategy string, score float64, d signal.Direction) Assessment {
	a := Assessment{
		Strategy: strategy, Timeframe: b.Timeframe, Risk: b.Risk, Bar: b.Bar, Direction: d, Score: score,
		BreakEven: BreakEven, Prior: round(b.Prior, 4), ATR: b.ATR, Horizon: b.Horizon,
		Calibration: CalibrationPrior,
	}
	a.set(estimate{b.Prior, b.ExpectedR, b.Sample}, rank{})
	return a
}

// set fills in the members that rest on history.
func (a *Assessment) set(e estimate, place rank) {
	a.Confidence = round(e.confidence, 4)
	a.ExpectedR = noNegativeZero(round(e.expectedR, 4))
	a.Sample = round(e.sample, 1)
	a.Strength = round(place.percentile(), 4)
}

// Levels returns the prices of a signal that enters at entry, rounded to tick; tick is 0
// if the source has none. The error is a *signal.RunError if the price is too small for
// levels.
func (a Assessment) Levels(entry, tick float64) (signal.Levels, error) {
	return priceLevels(a.Direction, entry, a.ATR, StopMultiple(a.Risk), tick)
}
