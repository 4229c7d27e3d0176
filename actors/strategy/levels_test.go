package strategy

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestLevels(t *testing.T) {
	const long, short = signal.Long, signal.Short
	for _, c := range []struct {
		name             string
		d                signal.Direction
		risk             signal.RiskLevel
		entry, atr, tick float64
		want             signal.Levels
	}{
		{"low risk", long, signal.LowRisk, 100, 2, 0.01, signal.Levels{Entry: 100, Stop: 98, Target: 103}},
		{"medium risk", long, signal.MediumRisk, 100, 2, 0.01, signal.Levels{Entry: 100, Stop: 97, Target: 104.5}},
		{"high risk", long, signal.HighRisk, 100, 2, 0.01, signal.Levels{Entry: 100, Stop: 95, Target: 107.5}},
		{"short", short, signal.MediumRisk, 100, 2, 0.01, signal.Levels{Entry: 100, Stop: 103, Target: 95.5}},
		{"entry between ticks", long, signal.LowRisk, 100.013, 2, 0.05,
			signal.Levels{Entry: 100, Stop: 98, Target: 103}},
		{"no tick given", long, signal.MediumRisk, 64250.125, 900, 0,
			signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125}},
		{"a tick of 0.1 leaves no dust", long, signal.LowRisk, 0.7, 0.1, 0.1,
			signal.Levels{Entry: 0.7, Stop: 0.2, Target: 1.5}}, // 5 ticks; 7.5 are 8
		{"a stop nearer than 0.05 %", long, signal.LowRisk, 100, 0.01, 0.0001,
			signal.Levels{Entry: 100, Stop: 99.95, Target: 100.075}},
		{"0.05 % is no whole number of ticks", long, signal.LowRisk, 101, 0.01, 0.01,
			signal.Levels{Entry: 101, Stop: 100.94, Target: 101.09}},
		{"a stop nearer than 5 ticks", short, signal.LowRisk, 100, 0.01, 0.1,
			signal.Levels{Entry: 100, Stop: 100.5, Target: 99.2}},
		{"ticks coarser than the distances", long, signal.LowRisk, 100, 0.01, 2,
			signal.Levels{Entry: 100, Stop: 90, Target: 116}},
		{"tiny price", long, signal.MediumRisk, 0.00001234, 0.0000004, 0,
			signal.Levels{Entry: 0.00001234, Stop: 0.00001174, Target: 0.00001324}},
		{"tiny price, tick finer than 8 decimals", long, signal.MediumRisk, 0.00001234, 0.0000004, 1e-12,
			signal.Levels{Entry: 0.00001234, Stop: 0.00001174, Target: 0.00001324}},
		{"huge price", short, signal.LowRisk, 123456789012, 1e9, 0,
			signal.Levels{Entry: 123456790000, Stop: 124456790000, Target: 121956790000}},
		{"tick too fine for the price", long, signal.LowRisk, 1e12, 1e10, 1e-8,
			signal.Levels{Entry: 1e12, Stop: 0.99e12, Target: 1.015e12}},
		{"a target below zero draws both nearer", short, signal.LowRisk, 100, 80, 1,
			signal.Levels{Entry: 100, Stop: 166, Target: 1}},
		{"a stop below zero draws both nearer", long, signal.HighRisk, 100, 80, 1,
			signal.Levels{Entry: 100, Stop: 1, Target: 249}},
	} {
		a := Assessment{Direction: c.d, Risk: c.risk, ATR: c.atr}
		got, err := a.Levels(c.entry, c.tick)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestLevelsRefuse(t *testing.T) {
	ok := Assessment{Direction: signal.Long, Risk: signal.MediumRisk, ATR: 2}
	with := func(atr float64, risk signal.RiskLevel) Assessment {
		return Assessment{Direction: signal.Long, Risk: risk, ATR: atr}
	}
	for _, c := range []struct {
		name        string
		a           Assessment
		entry, tick float64
		retryable   bool
	}{
		{"entry is not a number", ok, math.NaN(), 0.01, true},
		{"entry is infinite", ok, math.Inf(1), 0.01, true},
		{"entry is 0", ok, 0, 0.01, true},
		{"entry is negative", ok, -5, 0.01, true},
		{"ATR is 0", with(0, signal.LowRisk), 100, 0.01, true},
		{"ATR is not a number", with(math.NaN(), signal.LowRisk), 100, 0.01, true},
		{"ATR is infinite", with(math.Inf(1), signal.LowRisk), 100, 0.01, true},
		{"risk is not known", with(2, "extreme"), 100, 0.01, true},
		{"five ticks are more than the price", ok, 0.00000004, 0, false},
		{"a tick is more than the price", ok, 100, 1000, false},
	} {
		l, err := c.a.Levels(c.entry, c.tick)
		e, isRun := errors.AsType[*signal.RunError](err)
		if !isRun || e.Code != signal.DataUnavailable || e.Retryable != c.retryable {
			t.Errorf("%s: %+v, %v", c.name, l, err)
		}
	}
}

// TestLevelsHold draws prices of all sizes and checks that order, distances and ratio hold
// after rounding, and that every price is a number of ticks with at most 8 decimals.
func TestLevelsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := math.Exp(rapid.Float64Range(math.Log(1e-5), math.Log(1e12)).Draw(t, "log entry"))
		atr := entry * math.Exp(rapid.Float64Range(math.Log(1e-7), math.Log(0.25)).Draw(t, "log ATR share"))
		tick := 0.0
		if rapid.Bool().Draw(t, "has tick") {
			tick = rapid.SampledFrom([]float64{0.25, 0.01, 0.05, 1e-5, 1.0 / 32, 5, 100}).Draw(t, "tick")
		}
		a := Assessment{
			Direction: rapid.SampledFrom([]signal.Direction{signal.Long, signal.Short}).Draw(t, "direction"),
			Risk:      rapid.SampledFrom(signal.RiskLevels).Draw(t, "risk"), ATR: atr,
		}
		l, err := a.Levels(entry, tick)
		if err != nil {
			if tick*100 < entry && entry > 1e-5 {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if tick == 0 || entry/tick > 1e15 {
			tick = TickSize(entry)
		}
		if !Ordered(a.Direction, l) || min(l.Stop, l.Target) <= 0 {
			t.Fatalf("%s levels %+v", a.Direction, l)
		}
		risk, reward := math.Abs(l.Entry-l.Stop), math.Abs(l.Entry-l.Target)
		if hair := 1e-9 * entry; risk < 5*tick-hair || risk < 0.0005*entry-tick ||
			math.Abs(reward-1.5*risk) > 1.25*tick+hair {
			t.Fatalf("distances %v and %v at tick %v, entry %v", risk, reward, tick, entry)
		}
		for _, p := range []float64{l.Entry, l.Stop, l.Target} {
			if n := p / tick; math.Abs(n-math.Round(n)) > 1e-6*math.Max(1, n*1e-6) {
				t.Fatalf("%v is %v ticks of %v", p, n, tick)
			}
			if text, _ := json.Marshal(p); p > 1e-6 && p < 1e8 && len(text) > 18 {
				t.Fatalf("price %s has dust", text)
			}
		}
	})
}

func TestTickSize(t *testing.T) {
	for price, want := range map[float64]float64{
		67000: 1e-3, 100: 1e-5, 99.99: 1e-6, 1.085: 1e-7, 0.5: 1e-8, 0.00001: 1e-8, 1e12: 1e5, 1e-8: 1e-8,
	} {
		if got := TickSize(price); math.Abs(got-want) > 1e-9*want {
			t.Errorf("tick of %v = %v, want %v", price, got, want)
		}
	}
}

func TestHorizon(t *testing.T) {
	for _, c := range []struct {
		tf   signal.Timeframe
		want [3]int // low, medium, high
	}{
		{signal.M1, [3]int{60, 60, 60}}, {signal.M5, [3]int{48, 48, 48}}, {signal.M15, [3]int{32, 32, 32}},
		{signal.H4, [3]int{18, 18, 36}},
		{signal.H1, [3]int{24, 24, 48}}, {signal.D1, [3]int{10, 10, 20}}, {"1w", [3]int{}},
	} {
		for i, risk := range signal.RiskLevels {
			if got := Horizon(c.tf, risk); got != c.want[i] {
				t.Errorf("%s at %s risk: %d bars, want %d", c.tf, risk, got, c.want[i])
			}
		}
	}
	if got := Lifetime(signal.H1, signal.MediumRisk, 60); got != 24*time.Minute {
		t.Errorf("lifetime at speed 60 = %v, want 24m", got)
	}
	if got := Lifetime(signal.H1, signal.HighRisk, 0); got != 48*time.Hour {
		t.Errorf("lifetime in real time = %v, want 48h", got)
	}
}
