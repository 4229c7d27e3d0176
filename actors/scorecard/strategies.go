package scorecard

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// claimRanges is the number of ranges by which claims are compared with outcomes.
const claimRanges = 10

// Strategy shows how the closed signals of a strategy of an account's agent did. A figure that has no meaning is null.
type Strategy struct {
	Agent           signal.AgentID    `json:"agent_id"`
	Strategy        string            `json:"strategy"`
	Count           int               `json:"count"`
	Wins            int               `json:"wins"` // closed in profit before costs
	HitRate         backtest.Figure   `json:"hit_rate"`
	HitRateInterval backtest.Interval `json:"hit_rate_interval"`
	BreakEven       backtest.Figure   `json:"break_even"`     // see backtest.Payoff
	BreakEvenNet    backtest.Figure   `json:"break_even_net"` // after costs
	MeanR           backtest.Figure   `json:"mean_r"`
	ExpectancyR     backtest.Figure   `json:"expectancy_r"` // after costs
	// Skill is that of the newest of the signals, in log odds; null until it is known.
	Skill         backtest.Figure   `json:"skill"`
	SkillInterval backtest.Interval `json:"skill_interval"`
	SkillSample   int               `json:"skill_sample"`
	Brier         backtest.Figure   `json:"brier_score"` // of confidence
	Claimed       Claimed           `json:"claimed"`
}

// Claimed compares the probabilities that an agent has claimed with outcomes.
type Claimed struct {
	Count  int             `json:"count"` // signals with a claim
	Brier  backtest.Figure `json:"brier_score"`
	Ranges []ClaimRange    `json:"reliability"` // ten of them
}

// ClaimRange compares similar claims with outcomes.
type ClaimRange struct {
	From    backtest.Figure `json:"from"` // inclusive
	To      backtest.Figure `json:"to"`   // exclusive, except for 1
	Count   int             `json:"count"`
	Claimed backtest.Figure `json:"mean_claimed"`
	Outcome backtest.Figure `json:"mean_outcome"`
}

// Trial is what a closed signal of an account's agent shows of its strategy.
type Trial struct {
	strategy.Trial
	Claim *float64 // what the agent has claimed; nil if nothing
}

// TrialOf returns the trial of a closed signal, or nil if it has none.
func TrialOf(terms *strategy.Terms, d signal.Direction, l signal.Levels, c *signal.Closing) *Trial {
	t, ok := terms.Trial(d, l, c)
	if !ok {
		return nil
	}
	return &Trial{t, terms.Claim}
}

// StrategyTally accumulates the closed signals of a strategy of an account's agent. The zero value is empty.
type StrategyTally struct {
	payoff    backtest.Payoff
	trials    []strategy.Trial
	miss      float64 // of confidence
	claims    int
	claimMiss float64
	ranges    [claimRanges]struct {
		count            int
		claimed, outcome float64
	}
}

// Add adds a closed signal with prices that did not end before the one before.
func (t *StrategyTally) Add(o *backtest.Outcome, of *Trial) {
	t.payoff.Add(o)
	if of == nil {
		return
	}
	t.trials = append(t.trials, of.Trial)
	t.miss += miss(o.Confidence, of.Won)
	if of.Claim == nil {
		return
	}
	claim := *of.Claim
	t.claims++
	t.claimMiss += miss(claim, of.Won)
	r := &t.ranges[max(0, min(claimRanges-1, int(claim*claimRanges)))]
	r.count++
	r.claimed += claim
	r.outcome += of.Won
}

// miss returns the square of how far a forecast is off, or its mean if the outcome is the probability of a profit: an
// agent that leaves early does not improve it.
func miss(forecast, outcome float64) float64 {
	return outcome*(1-forecast)*(1-forecast) + (1-outcome)*forecast*forecast
}

// Strategy returns the figures of the signals added so far, without the names.
func (t *StrategyTally) Strategy() Strategy {
	p, none := &t.payoff, backtest.Figure(math.NaN())
	n := float64(p.Count)
	mean := func(sum, n float64) backtest.Figure { return backtest.Figure(sum / n) } // NaN without any
	skill := strategy.SkillOf(t.trials)
	s := Strategy{Count: p.Count, Wins: p.Wins, HitRate: mean(float64(p.Wins), n),
		HitRateInterval: backtest.Wilson(p.Wins, p.Count), MeanR: mean(p.Gains-p.Losses, n),
		ExpectancyR: mean(p.Gains-p.Losses-p.Costs, n),
		Skill:       none, SkillInterval: backtest.Interval{Low: none, High: none}, SkillSample: skill.N,
		Brier: mean(t.miss, float64(len(t.trials))),
		Claimed: Claimed{Count: t.claims, Brier: mean(t.claimMiss, float64(t.claims)),
			Ranges: make([]ClaimRange, claimRanges)}}
	s.BreakEven, s.BreakEvenNet = p.BreakEven()
	if skill.Known() {
		s.Skill = backtest.Figure(skill.Estimate)
		s.SkillInterval = backtest.Interval{Low: backtest.Figure(skill.Low), High: backtest.Figure(skill.High)}
	}
	for i := range t.ranges {
		r, n := &t.ranges[i], float64(t.ranges[i].count)
		s.Claimed.Ranges[i] = ClaimRange{From: backtest.Figure(i) / claimRanges, To: backtest.Figure(i+1) / claimRanges,
			Count: r.count, Claimed: mean(r.claimed, n), Outcome: mean(r.outcome, n)}
	}
	return s
}
