package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

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
	r, horizon := riskIndex(risk), Horizon(s.bars.tf, risk)
	if r < 0 || horizon == 0 {
		return Base{}, internal("assess %q bars at risk %q", s.bars.tf, risk)
	}
	if n := s.bars.usable(); n < minUsable {
		return Base{}, insufficient("only %d closed bars are known, %d are needed", n, minUsable)
	}
	if !s.bars.last.hasMovement {
		return Base{}, insufficient("the market has not moved")
	}
	if err := s.bars.jumped(); err != nil {
		return Base{}, err
	}
	c := s.entries.record(r)
	if n := c.count.n / 2; n < minOutcomes {
		return Base{}, insufficient("only %.0f past entries are resolved, %d are needed", n, minOutcomes)
	}
	return Base{
		Bar: s.bars.last.Bar, Timeframe: s.bars.tf, Risk: risk,
		Prior: c.prior(), Win: c.meanWin(), Loss: c.meanLoss(), Entries: c.count.n / 2 * overlap(horizon),
		ATR: s.bars.last.ATR14, Sigma: s.bars.last.Sigma, Horizon: horizon,
	}, nil
}

// BaseAt returns what entries of the given reach came to at the bars of the window, in both
// directions and without an opinion: as Base, but for any levels and expiry. Risk is empty, and
// Horizon is rounded up.
//
// Each entry is followed by the rules for open signals. byTicks states that trades close the signals of
// the asset, rather than bars. A bar that contains both levels is then not assumed to hit the stop
// first, but either level with the odds of a market without drift from its open. Otherwise
// signals with near levels would close in profit more often than expected, which would pass for skill.
//
// Where the bars do not suffice, since the expiry is more than 250 bars away or within a bar, the rest
// is that of a market without drift with a deviation of ATR14/1.6 a bar. So is the estimate
// without entries, which weighs as much as 40 of them.
//
// The result is kept until the next bar for the reach with three significant digits. The error is a
// *signal.RunError as for Base, but for the number of bars: it suffices that ATR14 is known.
func (s *Series) BaseAt(r Reach, byTicks bool) (Base, error) {
	if !r.valid() {
		return Base{}, internal("replay entries of reach %+v", r)
	}
	r = Reach{threeDigits(r.Stop), threeDigits(r.Target), threeDigits(r.Bars)}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := reachKey{r, byTicks}
	if b, ok := s.reaches[key]; ok {
		return b, nil
	}
	if !s.bars.last.ready || !s.bars.last.hasMovement {
		return Base{}, insufficient("the range of the market's bars is not known yet")
	}
	if err := s.bars.jumped(); err != nil {
		return Base{}, err
	}
	b := s.bars.replay(r, byTicks)
	if len(s.reaches) >= maxReaches {
		clear(s.reaches)
	}
	s.reaches[key] = b
	return b, nil
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
	c := &s.cached[t][r]
	if !c.known {
		c.assessment, c.err = s.assess(t, risk)
		c.known = true
	}
	return c.assessment, c.err
}

func (s *Series) assess(t int, risk signal.RiskLevel) (Assessment, error) {
	b, err := s.base(risk)
	if err != nil {
		return Assessment{}, err
	}
	strategy, r := technicals[t], riskIndex(risk)
	now := &s.bars.history[len(s.bars.history)-1]
	score := now.scores[t]
	a := b.Assessment(strategy.name(), score, directionOf(score, now.belowMean))
	a.Calibration = ""
	place := rankOf(math.Abs(score), s.bars.strengths[t][s.bars.scoredFrom():len(s.bars.history)-1])
	c, e := s.entries.comparable(t, r, binOf(math.Abs(score), a.Direction))
	a.set(estimateFrom(b, c, e), place)
	a.Proven = e.proven()
	if s.terse {
		return a, nil
	}
	a.Indicators, a.Values = strategy.indicators(), strategy.values(&s.bars.last)
	a.Finding = strategy.finding(&s.bars.last)
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

// AssessSentiment is Assess for the strategy sentiment. news holds the known messages
// about the asset in any order: those of the window, and older ones for the scores at
// earlier bars. now, in milliseconds, is the time from which ages count; later messages
// are ignored. With fewer than three messages the error is INSUFFICIENT_HISTORY. With
// fewer than 100 earlier outcomes the confidence is the prior, moved by the score.
func (s *Series) AssessSentiment(news []NewsItem, risk signal.RiskLevel, now int64) (Assessment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.base(risk)
	if err != nil {
		return Assessment{}, err
	}
	m := &s.news
	m.take(news, s.bars.newsWindow())
	if m.weights == nil {
		m.weights = m.decays(b.Bar.CloseTime)
	}
	index, ok := m.indexAt(now, m.weights)
	if !ok {
		known := len(index.articles)
		return Assessment{}, insufficient("only %d relevant news items are known, %d are needed", known, minNews)
	}
	current := &s.bars.history[len(s.bars.history)-1]
	score := index.score() + momentumShare*current.scores[momentumIndex]
	a := b.Assessment(Sentiment, score, directionOf(score, current.belowMean))
	m.scoreAll(&s.bars)
	s.entries.calibrate(&a, b, m.history)
	a.Indicators = []string{"news_sentiment", "news_count", "atr_14"}
	index.describe(&a, current.scores[momentumIndex], now, m.window)
	return a, nil
}
