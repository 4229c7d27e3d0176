package strategy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestRescoreOfBuiltInReaches compares with the formula that built-in agents had before signals could
// have any reach. All four decimals must be the same.
func TestRescoreOfBuiltInReaches(t *testing.T) {
	chance := func(l signal.Levels, risk signal.RiskLevel, bars, price float64) float64 {
		width := l.Target - l.Stop
		at, entry := clip((price-l.Stop)/width, 0, 1), (l.Entry-l.Stop)/width
		deviation := entry / StopMultiple(risk) / 1.6
		variance := deviation * deviation * max(0, bars)
		p := at
		if variance < 1e-3 {
			p = 0.5 * math.Erfc((entry-at)/math.Sqrt(2*max(variance, 1e-12)))
		} else {
			for n := 1.0; math.Exp(-0.5*n*n*math.Pi*math.Pi*variance) >= 1e-9; n++ {
				p += 2 / (n * math.Pi) * math.Sin(n*math.Pi*at) * math.Cos(n*math.Pi*entry) *
					math.Exp(-0.5*n*n*math.Pi*math.Pi*variance)
			}
		}
		return clip(p, 0.02, 0.98)
	}
	r := rand.New(rand.NewPCG(1, 5))
	for range 20_000 {
		d, risk := signal.Long, signal.RiskLevels[r.IntN(3)]
		if r.IntN(2) == 0 {
			d = signal.Short
		}
		tf := []signal.Timeframe{signal.M1, signal.M5, signal.H1, signal.D1}[r.IntN(4)]
		l, err := priceLevels(d, 50+100*r.Float64(), 0.1+3*r.Float64(), StopMultiple(risk), 0.01)
		if err != nil {
			t.Fatal(err)
		}
		first, left := r.Float64(), r.Float64()*float64(r.IntN(2)+r.IntN(2))/2
		price := l.Stop + (l.Target-l.Stop)*(1.2*r.Float64()-0.1)
		h := float64(Horizon(tf, risk))
		then, now := chance(l, risk, h, l.Entry), chance(l, risk, left*h, price)
		x := logit(now) + logit(clip(first, 0.01, 0.99)) - logit(then)
		want := round(clip(1/(1+math.Exp(-x)), 0.01, 0.99), 4)
		if got := Rescore(first, l, tf, risk, left, price); got != want {
			t.Fatalf("%s %s %s, %+v, first %v, left %v, price %v: %v, want %v", d, tf, risk, l, first, left, price, got, want)
		}
		own := Reach{StopMultiple(risk), 1.5 * StopMultiple(risk), h}
		if got := own.Rescore(first, l, left, price); got != want {
			t.Fatalf("the same reach of an agent of an account: %v, want %v", got, want)
		}
	}
}

// TestReachFrom compares the mean ending with random walks, in which a level between two steps is
// touched with the probability of a Brownian bridge.
func TestReachFrom(t *testing.T) {
	const walks, steps = 15_000, 40
	r := rand.New(rand.NewPCG(1, 6))
	for _, reach := range []Reach{
		{1.5, 2.25, 24}, {0.5, 10, 5}, {0.05, 10, 0.1}, {5, 1, 30}, {10, 10, 0.5}, {0.3, 0.06, 2}, {20, 4, 200},
	} {
		for _, d := range []signal.Direction{signal.Long, signal.Short} {
			const entry, atr = 100, 2
			l := reach.levels(d, entry, atr)
			if got := ReachOf(l, atr, reach.Bars); math.Abs(got.Stop-reach.Stop)+math.Abs(got.Target-reach.Target) > 1e-9 {
				t.Errorf("the reach of the levels of %+v is %+v", reach, got)
			}
			deviation := math.Sqrt(reach.Bars/steps) * atr / deviationsPerATR
			var sum ending
			for range walks {
				x, n := R(d, l, entry), 0
				scale := deviation / (reach.Stop * atr)
				target := reach.Target / reach.Stop
				for ; n < steps; n++ {
					before := x
					x += scale * r.NormFloat64()
					if touched(r, before+1, x+1, scale) {
						x = -1
						break
					}
					if touched(r, target-before, target-x, scale) {
						x = target
						break
					}
				}
				e := endingAt(x)
				sum.won, sum.gain, sum.loss = sum.won+e.won/walks, sum.gain+e.gain/walks, sum.loss+e.loss/walks
			}
			got := reach.from(l, reach.Bars, entry)
			if math.Abs(got.won-sum.won) > 0.015 || math.Abs(got.gain-sum.gain) > 0.1*max(sum.gain, 0.1) ||
				math.Abs(got.loss-sum.loss) > 0.1*max(sum.loss, 0.1) {
				t.Errorf("%s %+v: %+v, of random walks %+v", d, reach, got, sum)
			}
			if p := reach.Chance(); math.Abs(p-got.won) > 1e-9 {
				t.Errorf("%s %+v: chance %v at the entry, %v of any market", d, reach, got.won, p)
			}
		}
	}
}

// touched reports whether a Brownian motion touches 0 between two values with a deviation of the step.
func touched(r *rand.Rand, before, after, deviation float64) bool {
	return after <= 0 || r.Float64() < math.Exp(-2*before*after/(deviation*deviation))
}

// TestReachFromIsContinuous checks that both solutions agree where one takes over from the other.
func TestReachFromIsContinuous(t *testing.T) {
	for _, entry := range []float64{0.002, 0.02, 0.1, 0.4, 0.8} {
		for _, at := range []float64{0.001, 0.01, 0.1, 0.4, 0.83, 0.99} {
			l := signal.Levels{Entry: 100 + entry, Stop: 100, Target: 101}
			r := Reach{Stop: entry, Target: 1 - entry, Bars: 1} // an ATR is the width
			bars := 1e-3 * deviationsPerATR * deviationsPerATR
			x, y := r.from(l, bars*(1-1e-9), 100+at), r.from(l, bars*(1+1e-9), 100+at)
			if math.Abs(x.won-y.won) > 1e-5 || math.Abs(x.gain-y.gain) > 1e-5*max(1, x.gain) {
				t.Errorf("entry at %v, price at %v: %+v before, %+v after", entry, at, x, y)
			}
		}
	}
}

// TestOwnSignalsAreRescoredByTheirReach, and those of the service by their risk.
func TestOwnSignalsAreRescoredByTheirReach(t *testing.T) {
	t.Parallel()
	l := signal.Levels{Entry: 100, Stop: 97, Target: 106}
	own := &signal.Signal{Levels: &l, Timeframe: signal.H1, Risk: signal.LowRisk, Reach: &signal.Reach{Stop: 3, Bars: 100}}
	plain := &signal.Signal{Levels: &l, Timeframe: signal.H1, Risk: signal.LowRisk}
	for _, price := range []float64{98, 100, 103, 105} {
		if got, want := RescoreAt(own, .4, .3, price), (Reach{Stop: 3, Bars: 100}).Rescore(.4, l, .3, price); got != want {
			t.Errorf("at %v: %v, want %v", price, got, want)
		}
		if got, want := RescoreAt(plain, .4, .3, price), Rescore(.4, l, signal.H1, signal.LowRisk, .3, price); got != want {
			t.Errorf("at %v: %v, want %v", price, got, want)
		}
	}
	if RescoreAt(own, .4, .3, 103) == RescoreAt(plain, .4, .3, 103) {
		t.Error("the reach makes no difference")
	}
}
