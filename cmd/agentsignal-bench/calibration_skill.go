package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	skillRepetitions = 1000
	skillSteps       = 10 // of a path in a bar
	skillBars        = 24 // until expiry
	skillCovered     = 0.93
	skillMiss        = 0.01 // maximum distance of mean confidence and base probability without skill
)

// skills are the true skills of agents, in log odds.
var skills = []float64{-0.3, 0, 0.3, 0.6}

// skillsSeen sums up the skills that repetitions show.
type skillsSeen struct {
	n             float64
	covered       float64 // times that the interval holds the true skill
	estimate, sd  float64 // sums
	off, distance float64 // sums of how far mean confidence is above the mean base probability, or away from it
}

// add adds what the trials of a repetition show of a true skill.
func (x *skillsSeen) add(skill float64, trials []strategy.Trial) {
	s := strategy.SkillOf(trials)
	x.n++
	if s.Low <= skill && skill <= s.High {
		x.covered++
	}
	x.estimate, x.sd = x.estimate+s.Estimate, x.sd+s.SD
	off := 0.0
	for _, t := range trials {
		off += (s.Confidence(t.Base) - t.Base) / float64(len(trials))
	}
	x.off, x.distance = x.off+off, x.distance+math.Abs(off)
}

func (x *skillsSeen) mean(sum float64) float64 { return sum / x.n }

// printSkills prints how the skills that are estimated compare with true ones.
func printSkills(r *report) {
	fmt.Fprintf(r.out, "  skill of agents with %d signals and base probabilities of 0.2 to 0.8, %d repetitions, seed %d\n",
		strategy.MaxTrials, skillRepetitions, calibrationSeed)
	for _, skill := range skills {
		x := simulateSkill(skill, skillRepetitions)
		r.row(fmt.Sprintf("true skill %+.1f", skill), "estimate %+.4f, deviation %.4f, interval covers in %.1f %% "+
			"(at least %.0f %%), confidence above base %+.4f", x.mean(x.estimate), x.mean(x.sd), 100*x.mean(x.covered),
			100*skillCovered, x.mean(x.off))
	}
	for _, l := range leavings {
		x := simulateLeaving(l, skillRepetitions)
		r.row("no skill, "+l.name, "estimate %+.4f, confidence above base %+.4f (at most %.2f), distance %.4f",
			x.mean(x.estimate), x.mean(x.off), skillMiss, x.mean(x.distance))
	}
}

// simulateSkill simulates agents of a true skill that wait for the end.
func simulateSkill(skill float64, repetitions int) (x skillsSeen) {
	trials := make([]strategy.Trial, strategy.MaxTrials)
	for i := range repetitions {
		r := rand.New(rand.NewPCG(calibrationSeed, uint64(i)))
		for j := range trials {
			base := 0.2 + 0.6*r.Float64()
			trials[j] = strategy.Trial{Base: base}
			if odds := base / (1 - base) * math.Exp(skill); r.Float64() < odds/(1+odds) {
				trials[j].Won = 1
			}
		}
		x.add(skill, trials)
	}
	return x
}

// simulateLeaving simulates agents without skill on Brownian motions without drift.
func simulateLeaving(l leaving, repetitions int) (x skillsSeen) {
	trials := make([]strategy.Trial, strategy.MaxTrials)
	for i := range repetitions {
		r := rand.New(rand.NewPCG(calibrationSeed, uint64(i)))
		for j := range trials {
			stop, base := 1+2*r.Float64(), 0.2+0.6*r.Float64()
			reach := strategy.Reach{Stop: stop, Target: stop * (1 - base) / base, Bars: skillBars}
			c := entered(signal.Long, 100, strategy.Base{ATR: 1, Prior: reach.Chance()}, reach)
			l.closeOnPath(&c, r)
			trials[j], _ = c.Trial()
		}
		x.add(0, trials)
	}
	return x
}

// closeOnPath closes an open signal on a path at whose steps the agent may leave. Between two
// steps the path touches a level with the probability of a Brownian bridge.
func (l leaving) closeOnPath(c *strategy.ClosedSignal, r *rand.Rand) {
	const steps = skillBars * skillSteps
	deviation := 1 / 1.6 / math.Sqrt(skillSteps)
	touches := func(before, after float64) bool {
		return after <= 0 || r.Float64() < math.Exp(-2*before*after/(deviation*deviation))
	}
	price := c.Levels.Entry
	for i := range steps {
		before := price
		price += deviation * r.NormFloat64()
		switch {
		case touches(before-c.Levels.Stop, price-c.Levels.Stop):
			c.Reason, c.Exit = signal.StopLoss, c.Levels.Stop
			return
		case touches(c.Levels.Target-before, c.Levels.Target-price):
			c.Reason, c.Exit = signal.TakeProfit, c.Levels.Target
			return
		}
		c.Reason, c.Exit = signal.Expired, price
		if left := steps - 1 - i; left > 0 && l.when != nil && l.when(strategy.R(c.Direction, c.Levels, price)) {
			c.Reason, c.Left = agentExit, float64(left)/steps
			return
		}
	}
}
