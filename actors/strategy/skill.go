package strategy

import (
	"encoding/json"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// MaxTrials is the number of closed signals that count towards a Skill: the newest.
	MaxTrials = 1000
	// minTrials is the number from which a Skill counts as known.
	minTrials = 20
	// skillSpread is the standard deviation of skills before any signal is closed, in log odds.
	skillSpread = 0.3
	// minBase and maxBase keep a base probability within what a share of 880 entries can show.
	minBase, maxBase = 0.001, 0.999
	// deviates95 is how many standard deviations on each side hold 95 % of a normal distribution.
	deviates95 = 1.96
)

// Trial is what a closed signal adds to the skill of its strategy.
type Trial struct {
	Base float64 // the probability of a profit without skill, as it stood at the entry
	Won  float64 // 1 if it closed in profit, 0 if not; in between if its agent left early
}

// ClosedSignal holds the members of a closed signal's record from which a Trial follows.
type ClosedSignal struct {
	Base      float64 // metadata.base_probability
	Direction signal.Direction
	Levels    signal.Levels
	Reach     Reach // by ReachOf from metadata.atr and metadata.horizon_bars
	Reason    signal.CloseReason
	Exit      float64 // exit_price; NaN for null
	// Left is the share of its life that was left at the exit, while the market was open, 0 to 1. It counts
	// only if the agent left.
	Left float64
}

// Trial returns what the signal adds to the skill of its strategy, or false if it has no exit price
// or its record is not possible.
//
// A signal that its agent closed has not won or lost. It counts as the probability that it would
// have ended in profit: Base, moved as Rescore moves a confidence, but not rounded and not clipped. So
// neither taking each small profit nor leaving before each stop earns skill. The plain chance of a
// market without drift is not used: where it differs from Base, an agent would earn or lose
// that difference by leaving at once.
func (c ClosedSignal) Trial() (Trial, bool) {
	if !(c.Exit > 0) || !finite(c.Exit) || !Ordered(c.Direction, c.Levels) || !(c.Base >= 0 && c.Base <= 1) {
		return Trial{}, false
	}
	t := Trial{Base: clip(c.Base, minBase, maxBase)}
	switch c.Reason {
	case signal.TakeProfit, signal.StopLoss, signal.Expired:
		if R(c.Direction, c.Levels, c.Exit) > 0 {
			t.Won = 1
		}
	default:
		if !c.Reach.valid() || !(c.Left >= 0 && c.Left <= 1) {
			return Trial{}, false
		}
		t.Won = moved(t.Base, c.Reach.Chance(), c.Reach.from(c.Levels, c.Left*c.Reach.Bars, c.Exit).won)
	}
	return t, true
}

// Terms are the members of the metadata of a signal of an account's agent, of its creation and its closing, that
// its outcome is compared with. Those that are missing are nil or 0.
type Terms struct {
	Base  *float64 `json:"base_probability"`
	Claim *float64 `json:"claimed_confidence"`
	ATR   float64  `json:"atr"`
	Bars  float64  `json:"horizon_bars"`
	Left  *float64 `json:"life_left"` // if the agent ended it
}

// ReadTerms returns the terms that metadata states.
func ReadTerms(metadata []byte) (t Terms) {
	_ = json.Unmarshal(metadata, &t) // members of other types are missing ones
	return t
}

// Trial returns what a signal with these terms adds to the skill of its strategy, or false as ClosedSignal.Trial does.
func (t *Terms) Trial(d signal.Direction, l signal.Levels, c *signal.Closing) (Trial, bool) {
	if t.Base == nil || c.ExitPrice == nil {
		return Trial{}, false
	}
	left := math.NaN()
	if t.Left != nil {
		left = *t.Left
	}
	return ClosedSignal{Base: *t.Base, Direction: d, Levels: l, Reach: ReachOf(l, t.ATR, t.Bars), Reason: c.Reason,
		Exit: *c.ExitPrice, Left: left}.Trial()
}

// moved returns p, moved in log odds as far as from then to now.
func moved(p, then, now float64) float64 {
	won, lost := p*(1-then)*now, (1-p)*then*(1-now)
	if won+lost == 0 {
		return now // 0 or 1
	}
	return won / (won + lost)
}

// Skill is how much more often the signals of a strategy close in profit than their levels and
// expiries explain, as a difference in log odds: 0 for none, and 0.4 turns 50 % into 60 %.
//
// It is the posterior mode under a normal prior with mean 0 and deviation 0.3, where each trial
// counts with the likelihood of its outcome. SD comes from the curvature there. Trials count as independent,
// which those of signals that are open at the same time on related assets are not: then the
// interval is too narrow, as by a factor of 1.4 if two signals always end alike.
type Skill struct {
	N        int     // trials behind it, at most MaxTrials
	Estimate float64 // 4 decimals, as are the next three
	SD       float64 // posterior standard deviation
	// Low and High are the bounds between which it lies with 95 %.
	Low, High float64
}

// Known reports whether enough signals are closed to show the skill. It counts before, too.
func (s Skill) Known() bool { return s.N >= minTrials }

// Confidence returns the probability of a profit of a signal of the strategy, 0.01 to 0.99 with 4
// decimals, given the base probability.
func (s Skill) Confidence(base float64) float64 {
	p := logistic(logit(clip(base, minBase, maxBase)) + s.Estimate)
	return round(clip(p, minConfidence, maxConfidence), 4)
}

// SkillOf returns the skill that the newest MaxTrials of trials show, which are ordered by closing
// time.
func SkillOf(trials []Trial) Skill {
	trials = trials[max(0, len(trials)-MaxTrials):]
	const precision = 1 / (skillSpread * skillSpread)
	// The slope of the log posterior falls throughout. At the bounds it has no trial left to balance
	// the prior, so that they hold its only root.
	low, high := -float64(len(trials))/precision, float64(len(trials))/precision
	skill, curvature := 0.0, precision
	for range 100 { // Newton's method, or halving where that leaves the bounds
		var slope float64
		slope, curvature = slopeAt(skill, trials)
		next := skill + slope/curvature
		if math.Abs(next-skill) < 1e-9 {
			break
		}
		if slope > 0 {
			low = skill
		} else {
			high = skill
		}
		if !(low < next && next < high) {
			next = (low + high) / 2
		}
		skill = next
	}
	sd := 1 / math.Sqrt(curvature)
	return Skill{
		N: len(trials), Estimate: noNegativeZero(round(skill, 4)), SD: round(sd, 4),
		Low: round(skill-deviates95*sd, 4), High: round(skill+deviates95*sd, 4),
	}
}

// slopeAt returns the slope of the log posterior at a skill and its curvature, positive.
func slopeAt(skill float64, trials []Trial) (slope, curvature float64) {
	const precision = 1 / (skillSpread * skillSpread)
	slope, curvature = -skill*precision, precision
	odds := math.Exp(skill)
	for _, t := range trials {
		base := clip(t.Base, minBase, maxBase)
		p := base * odds / (base*odds + 1 - base)
		slope += t.Won - p
		curvature += p * (1 - p)
	}
	return slope, curvature
}
