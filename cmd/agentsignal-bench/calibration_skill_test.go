package main

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// TestSkillIsMeasured is a part of agentsignal-bench calibration.
func TestSkillIsMeasured(t *testing.T) {
	t.Parallel()
	const repetitions = 200
	for _, skill := range skills {
		x := simulateSkill(skill, repetitions)
		if covers := x.mean(x.covered); covers < skillCovered-0.04 {
			t.Errorf("true skill %v: the interval covers in %.3f of the repetitions", skill, covers)
		}
		if got := x.mean(x.estimate); math.Abs(got-0.95*skill) > 0.02 {
			t.Errorf("true skill %v: estimate %.4f", skill, got)
		}
	}
	for _, l := range leavings {
		x := simulateLeaving(l, 40)
		if math.Abs(x.mean(x.off)) > skillMiss {
			t.Errorf("an agent without skill that %s: confidence above base %+.4f", l.name, x.mean(x.off))
		}
	}
}

// TestBaseProbabilityIsTheShareOfWonEntries is a part of agentsignal-bench calibration.
func TestBaseProbabilityIsTheShareOfWonEntries(t *testing.T) {
	t.Parallel()
	reaches := []strategy.Reach{
		{Stop: 0.5, Target: 0.3, Bars: 24}, {Stop: 1.5, Target: 3, Bars: 50}, {Stop: 5, Target: 1, Bars: 100},
	}
	for _, byTicks := range []bool{true, false} {
		found, err := measureBases(t.Context(), []string{"BTC", "EURUSD", "AAPL", "oil"}, reaches, byTicks, 1500)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range leavings {
			all, worst := found.summary(i)
			if all.n < 1000 || math.Abs(all.miss()) > 0.03 || worst > 0.06 {
				t.Errorf("closed by trades: %v, an agent that %s: %.0f entries, told %+.4f too much, %.4f for one reach",
					byTicks, l.name, all.n, all.miss(), worst)
			}
		}
	}
}

// TestHourly checks that hours have the prices of their minutes.
func TestHourly(t *testing.T) {
	t.Parallel()
	minutes := simulated.Walk(calibrationSeed, "BTC", signal.M1, 150)
	hours := hourly(minutes)
	if len(hours) != 2 {
		t.Fatalf("%d hours", len(hours))
	}
	last := hours[1]
	if last.Open != minutes[60].Open || last.Close != minutes[119].Close || last.OpenTime != minutes[60].OpenTime ||
		last.CloseTime != minutes[119].CloseTime {
		t.Errorf("%+v", last)
	}
	for _, m := range minutes[60:120] {
		if m.High > last.High || m.Low < last.Low {
			t.Errorf("%+v is not within %+v", m, last)
		}
	}
}
