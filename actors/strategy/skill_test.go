package strategy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// drawn returns trials of a true skill with base probabilities of 0.2 to 0.8.
func drawn(r *rand.Rand, n int, skill float64) []Trial {
	trials := make([]Trial, n)
	for i := range trials {
		trials[i].Base = 0.2 + 0.6*r.Float64()
		if r.Float64() < logistic(logit(trials[i].Base)+skill) {
			trials[i].Won = 1
		}
	}
	return trials
}

// TestSkillIsThePosteriorMode compares with the log posterior on a grid.
func TestSkillIsThePosteriorMode(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	fractions := drawn(r, 300, 0.2)
	for i := range fractions {
		fractions[i].Won = r.Float64()
	}
	extreme := make([]Trial, 1000)
	for i := range extreme {
		extreme[i] = Trial{Base: 0.001, Won: 1} // a step of Newton's method leaves all bounds
	}
	for name, trials := range map[string][]Trial{
		"none": nil, "one": {{0.4, 1}}, "many": drawn(r, 1000, 0.5), "few": drawn(r, 30, -0.6),
		"left early": fractions, "against all odds": extreme,
	} {
		posterior := func(skill float64) float64 {
			sum := -skill * skill / (2 * 0.3 * 0.3)
			for _, x := range trials {
				p := 1 / (1 + math.Exp(-math.Log(x.Base/(1-x.Base))-skill))
				sum += x.Won*math.Log(p) + (1-x.Won)*math.Log(1-p)
			}
			return sum
		}
		mode, best := 0.0, math.Inf(-1)
		for _, step := range []float64{0.1, 0.01, 0.001} {
			middle := mode
			for i := -100.0; i <= 100; i++ {
				if p := posterior(middle + i*step); p > best {
					mode, best = middle+i*step, p
				}
			}
		}
		const h = 1e-3
		curvature := (2*posterior(mode) - posterior(mode+h) - posterior(mode-h)) / (h * h)
		got, sd := SkillOf(trials), 1/math.Sqrt(curvature)
		if math.Abs(got.Estimate-mode) > 0.0011 || math.Abs(got.SD-sd) > 0.001 || got.N != len(trials) {
			t.Errorf("%s: %+v, want %.3f ± %.4f", name, got, mode, sd)
		}
		if math.Abs(got.Low-(got.Estimate-1.96*got.SD)) > 3e-4 || math.Abs(got.High-(got.Estimate+1.96*got.SD)) > 3e-4 {
			t.Errorf("%s: the interval of %+v", name, got)
		}
	}
}

// TestSkillByHand checks a value from the equation of the mode: with n trials at 0.5, of which a share
// w is won, 100/9 of the estimate is n times the share above what it explains.
func TestSkillByHand(t *testing.T) {
	trials := make([]Trial, 100)
	for i := range trials {
		trials[i] = Trial{Base: 0.5, Won: float64(i % 5 / 2 % 2)} // 2 of 5
	}
	s := SkillOf(trials)
	if off := s.Estimate/0.09 - 100*(0.4-logistic(s.Estimate)); math.Abs(off) > 0.005 || s.Estimate >= 0 {
		t.Errorf("%+v does not solve the equation by %v", s, off)
	}
	if s.Known() != true || SkillOf(trials[:19]).Known() || !SkillOf(trials[:20]).Known() {
		t.Error("a skill is known from 20 closed signals on")
	}
	if got := s.Confidence(0.5); got != round(logistic(s.Estimate), 4) {
		t.Errorf("confidence %v", got)
	}
	for base, want := range map[float64]float64{0: 0.01, 0.0012: 0.01, 1: 0.99, 0.4321: 0.4321} {
		if got := (Skill{}).Confidence(base); got != want {
			t.Errorf("without skill and with a base of %v: %v, want %v", base, got, want)
		}
	}
	old := append([]Trial{{0.5, 1}, {0.5, 1}, {0.5, 1}}, make([]Trial, MaxTrials)...)
	if got, want := SkillOf(old), SkillOf(old[3:]); got != want || got.N != MaxTrials {
		t.Errorf("with older trials %+v, want %+v", got, want)
	}
}

// TestSkillIntervalCovers is a part of agentsignal-bench calibration.
func TestSkillIntervalCovers(t *testing.T) {
	const repetitions = 300
	for _, skill := range []float64{-0.3, 0, 0.3, 0.6} {
		r := rand.New(rand.NewPCG(2, 2))
		covered, off := 0, 0.0
		for range repetitions {
			trials := drawn(r, MaxTrials, skill)
			s := SkillOf(trials)
			if s.Low <= skill && skill <= s.High {
				covered++
			}
			off += s.Estimate / repetitions
		}
		if share := float64(covered) / repetitions; share < 0.90 || share > 0.98 {
			t.Errorf("true skill %v: the interval covers in %.3f of all cases", skill, share)
		}
		if shrunk := off - 0.95*skill; math.Abs(shrunk) > 0.015 {
			t.Errorf("true skill %v: mean estimate %v, want about %v", skill, off, 0.95*skill)
		}
	}
}

func TestTrial(t *testing.T) {
	reach, l := Reach{Stop: 2, Target: 3, Bars: 24}, signal.Levels{Entry: 100, Stop: 98, Target: 103}
	short := signal.Levels{Entry: 100, Stop: 102, Target: 97}
	const exit signal.CloseReason = "agent_exit"
	closed := func(reason signal.CloseReason, price, left float64) ClosedSignal {
		return ClosedSignal{Base: 0.3, Direction: signal.Long, Levels: l, Reach: reach, Reason: reason, Exit: price, Left: left}
	}
	mirrored := closed(exit, 99, 0.5)
	mirrored.Direction, mirrored.Levels = signal.Short, short
	for _, c := range []struct {
		name      string
		closed    ClosedSignal
		low, high float64
	}{
		{"a target", closed(signal.TakeProfit, 103, 0), 1, 1},
		{"a stop", closed(signal.StopLoss, 97.5, 0.4), 0, 0},
		{"an expiry in profit", closed(signal.Expired, 100.01, 0), 1, 1},
		{"an expiry at the entry", closed(signal.Expired, 100, 0), 0, 0},
		{"left at once", closed(exit, 100, 1), 0.3, 0.3},
		{"left with a profit", closed(exit, 101, 0.5), 0.4, 0.8},
		{"left with the same profit, short", mirrored, 0.4, 0.8},
		{"left with a profit at the very end", closed(exit, 101, 0), 0.999, 1},
		{"left with a loss at the very end", closed(exit, 99, 0), 0, 0.001},
		{"left just before the stop", closed(exit, 98.01, 0.9), 0, 0.005},
		{"left beyond the stop", closed(exit, 97, 0.9), 0, 0},
		{"left beyond the target", closed(exit, 104, 0.9), 1, 1},
	} {
		got, ok := c.closed.Trial()
		if !ok || got.Base != 0.3 || got.Won < c.low-1e-12 || got.Won > c.high+1e-12 {
			t.Errorf("%s: %+v %v, want %v to %v", c.name, got, ok, c.low, c.high)
		}
	}
	for name, change := range map[string]func(c *ClosedSignal){
		"no exit price":       func(c *ClosedSignal) { c.Exit = math.NaN() },
		"levels out of order": func(c *ClosedSignal) { c.Direction = signal.Short },
		"no base":             func(c *ClosedSignal) { c.Base = math.NaN() },
		"no ATR":              func(c *ClosedSignal) { c.Reach = ReachOf(l, 0, 24) },
		"more than its life":  func(c *ClosedSignal) { c.Left = 1.1 },
	} {
		c := closed(exit, 101, 0.5)
		change(&c)
		if got, ok := c.Trial(); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestSkillStaysWhileASignalIsOpen: re-scoring goes on from the confidence at the creation. The skill moves it by as much in log
// odds at each price, unless that decides the outcome.
func TestSkillStaysWhileASignalIsOpen(t *testing.T) {
	skill, base := Skill{N: 100, Estimate: 0.4}, 0.4
	s := &signal.Signal{Levels: &signal.Levels{Entry: 100, Stop: 98, Target: 103}, Reach: &signal.Reach{Stop: 2, Bars: 24}}
	first := skill.Confidence(base)
	if got := RescoreAt(s, first, 1, 100); got != first || first < base+0.05 {
		t.Errorf("at the entry %v, created with %v", got, first)
	}
	for _, price := range []float64{98.7, 99.5, 100, 101, 102} {
		without, with := RescoreAt(s, base, 0.6, price), RescoreAt(s, first, 0.6, price)
		if moved := logit(with) - logit(without); math.Abs(moved-0.4) > 0.01 {
			t.Errorf("at %v: %v with and %v without skill, apart by %v", price, with, without, moved)
		}
	}
}

// TestTermsOfARecord: the trial of a signal follows from the members of its record.
func TestTermsOfARecord(t *testing.T) {
	l, exit := signal.Levels{Entry: 100, Stop: 98, Target: 103}, 101.0
	closing := &signal.Closing{Reason: signal.AgentExit, ExitPrice: &exit}
	const whole = `{"base_probability":0.3,"atr":1,"horizon_bars":24,"life_left":0.5,"claimed_confidence":0.9,"parameters":{}}`
	terms := ReadTerms([]byte(whole))
	want, _ := ClosedSignal{Base: 0.3, Direction: signal.Long, Levels: l, Reach: Reach{2, 3, 24}, Reason: signal.AgentExit,
		Exit: 101, Left: 0.5}.Trial()
	if got, ok := terms.Trial(signal.Long, l, closing); !ok || got != want || *terms.Claim != 0.9 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, ok := terms.Trial(signal.Long, l, &signal.Closing{Reason: signal.AgentExit}); ok {
		t.Error("without an exit price")
	}
	for _, text := range []string{"", "[]", `{"base_probability":"0.3"}`, `{"base_probability":0.3,"atr":1,"horizon_bars":24}`,
		`{"base_probability":0.3,"atr":1,"horizon_bars":24,"life_left":2}`, `{"atr":1,"horizon_bars":24,"life_left":0.5}`} {
		terms := ReadTerms([]byte(text))
		if got, ok := terms.Trial(signal.Long, l, closing); ok {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// FuzzTerms checks that no metadata makes an impossible trial.
func FuzzTerms(f *testing.F) {
	f.Add([]byte(`{"base_probability":0.3,"atr":1,"horizon_bars":24,"life_left":0.5,"claimed_confidence":0.9}`), 101.0)
	f.Add([]byte(`{"base_probability":1e300,"atr":-1,"horizon_bars":null}`), math.Inf(1))
	f.Fuzz(func(t *testing.T, metadata []byte, exit float64) {
		terms := ReadTerms(metadata)
		for _, reason := range []signal.CloseReason{signal.AgentExit, signal.Expired} {
			got, ok := terms.Trial(signal.Long, signal.Levels{Entry: 100, Stop: 98, Target: 103},
				&signal.Closing{Reason: reason, ExitPrice: &exit})
			if ok && !(got.Won >= 0 && got.Won <= 1 && got.Base > 0 && got.Base < 1) {
				t.Errorf("%s of %s at %v: %+v", reason, metadata, exit, got)
			}
		}
	})
}

// TestLevelsEarnNoSkill checks that an agent gains nothing by levels that are nearly always hit.
func TestLevelsEarnNoSkill(t *testing.T) {
	bars := walk(7, 3000, 0.01)
	s, reach := NewSeries(signal.H1), Reach{Stop: 20, Target: 0.02, Bars: 24}
	var trials []Trial
	won := 0.0
	for i := range len(bars) - 25 {
		add(t, s, bars[i])
		if i < 1000 || i%2 == 0 {
			continue
		}
		base := baseAt(t, s, reach, false)
		d := []signal.Direction{signal.Long, signal.Short}[i/2%2]
		trial := Trial{Base: round(base.Prior, 4), Won: reach.follow(d, bars[i:i+25], base.ATR, false).won}
		trials, won = append(trials, trial), won+trial.Won
	}
	skill := SkillOf(trials)
	if share := won / float64(len(trials)); share < 0.95 || skill.Estimate > 0.1 || skill.Low > 0 || skill.High < 0 {
		t.Errorf("%.4f of all are hit: %+v", share, skill)
	}
	if got := skill.Confidence(trials[0].Base); math.Abs(got-trials[0].Base) > 0.01 {
		t.Errorf("confidence %v at a base of %v", got, trials[0].Base)
	}
}

// BenchmarkSkillOf is the cost of the skill of a strategy after a signal has closed.
func BenchmarkSkillOf(b *testing.B) {
	trials := drawn(rand.New(rand.NewPCG(2, 3)), MaxTrials, 0.2)
	for b.Loop() {
		SkillOf(trials)
	}
}

// BenchmarkTrial is the cost of a signal that its agent closed.
func BenchmarkTrial(b *testing.B) {
	l := signal.Levels{Entry: 100, Stop: 98, Target: 103}
	c := ClosedSignal{Base: 0.4, Direction: signal.Long, Levels: l, Reach: ReachOf(l, 1, 24), Reason: "agent_exit",
		Exit: 101, Left: 0.5}
	for b.Loop() {
		c.Trial()
	}
}
