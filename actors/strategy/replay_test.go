package strategy

import (
	"fmt"
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// baseAt fails the test if there is no base.
func baseAt(tb testing.TB, s *Series, r Reach, byTicks bool) Base {
	tb.Helper()
	b, err := s.BaseAt(r, byTicks)
	if err != nil {
		tb.Fatalf("base at %+v: %v", r, err)
	}
	return b
}

// TestBaseAtBuiltInReaches checks that levels which built-in agents use have the base of those.
func TestBaseAtBuiltInReaches(t *testing.T) {
	for _, tf := range []signal.Timeframe{signal.M5, signal.H1, signal.D1} {
		s := seriesOf(t, tf, walk(3, 1200, 0.01))
		for _, risk := range signal.RiskLevels {
			want, err := s.Base(risk)
			if err != nil {
				t.Fatal(err)
			}
			stop := StopMultiple(risk)
			got := baseAt(t, s, Reach{stop, rewardToRisk * stop, float64(Horizon(tf, risk))}, false)
			tolerance := 0.0015 // both start with a market without drift, one of them without expiry
			if risk == signal.HighRisk {
				tolerance = 0.02 // not each bar has an entry
			}
			if math.Abs(got.Prior-want.Prior) > tolerance || math.Abs(got.Win-want.Win) > 10*tolerance ||
				math.Abs(got.Loss-want.Loss) > 10*tolerance {
				t.Errorf("%s %s: %+v, want %+v", tf, risk, got, want)
			}
			if got.ATR != want.ATR || got.Bar != want.Bar || got.Horizon != want.Horizon || got.Timeframe != tf {
				t.Errorf("%s %s: of the market: %+v, want %+v", tf, risk, got, want)
			}
		}
	}
}

func TestBaseAtExtremes(t *testing.T) {
	s := seriesOf(t, signal.H1, walk(4, 1000, 0.01))
	for _, c := range []struct {
		name      string
		r         Reach
		byTicks   bool
		low, high float64
	}{
		{"a target of two ticks with a stop of 20 ATR", Reach{20, 0.02, 24}, true, 0.95, 0.999},
		{"a stop of two ticks with a target of 20 ATR", Reach{0.02, 20, 24}, true, 0.001, 0.05},
		{"both far, without time to reach them", Reach{50, 50, 10}, true, 0.45, 0.55},
		{"a life within a bar", Reach{1, 2, 0.2}, true, 0.45, 0.5},
		{"both within most bars, by trades", Reach{0.2, 0.2, 24}, true, 0.47, 0.53},
		{"both within most bars, by bars", Reach{0.2, 0.2, 24}, false, 0.001, 0.4},
		{"a life far longer than the window", Reach{2, 4, 64_800}, true, 0.28, 0.40},
		{"a life far longer than the window, far levels", Reach{50, 50, 64_800}, true, 0.4, 0.6},
	} {
		b := baseAt(t, s, c.r, c.byTicks)
		if !(c.low <= b.Prior && b.Prior <= c.high) || !(b.Win > 0) || !(b.Loss > 0) || !finite(b.Win+b.Loss) {
			t.Errorf("%s: %+v, want a probability of %v to %v", c.name, b, c.low, c.high)
		}
	}
	for _, stop := range []float64{1e-3, 0.1, 5, 50} { // no reach is without a result
		for _, target := range []float64{1e-3, 0.1, 5, 50} {
			for _, bars := range []float64{1e-3, 1, 30, 1e5} {
				b := baseAt(t, s, Reach{stop, target, bars}, true)
				if !(minBase <= b.Prior && b.Prior <= maxBase) || !finite(b.Win+b.Loss+b.Entries) {
					t.Errorf("stop %v, target %v, %v bars: %+v", stop, target, bars, b)
				}
			}
		}
	}
	for _, r := range []Reach{{}, {1, 0, 5}, {1, 1, 0}, {-1, 1, 5}, {1, math.NaN(), 5}, {1, 1, math.Inf(1)}} {
		if _, err := s.BaseAt(r, false); runErrorCode(err) != signal.Internal {
			t.Errorf("%+v: %v, want an internal error", r, err)
		}
	}
}

// TestBaseAtWithFewBars checks what is said where there is little or nothing to replay.
func TestBaseAtWithFewBars(t *testing.T) {
	r := Reach{1.5, 3, 24}
	if _, err := seriesOf(t, signal.H1, walk(5, 100, 0.01)).BaseAt(r, true); runErrorCode(err) != signal.InsufficientHistory {
		t.Errorf("in the warm-up: %v", err)
	}
	b := baseAt(t, seriesOf(t, signal.H1, walk(5, 130, 0.01)), r, true)
	if b.Entries != 0 || math.Abs(b.Prior-r.Chance()) > 1e-12 {
		t.Errorf("no entry has ended: %+v, want %v", b, r.Chance())
	}
	if mean := b.Prior*b.Win - (1-b.Prior)*b.Loss; math.Abs(mean) > 1e-9 {
		t.Errorf("the mean result without drift is %v R", mean)
	}
}

// TestBaseAtFollowsTheRules checks single entries, which end by the rules for open signals.
func TestBaseAtFollowsTheRules(t *testing.T) {
	bar := func(open, high, low, closing float64) marketdata.Bar {
		return marketdata.Bar{Open: open, High: high, Low: low, Close: closing}
	}
	r := Reach{1, 3, 2}
	entry, quiet := bar(100, 100, 100, 100), bar(100, 101, 99.5, 100.5)
	for _, c := range []struct {
		name    string
		d       signal.Direction
		bars    []marketdata.Bar
		byTicks bool
		want    ending
	}{
		{"target", signal.Long, []marketdata.Bar{entry, bar(100, 103, 99.5, 102)}, true, ending{won: 1, gain: 3}},
		{"stop, by a gap", signal.Long, []marketdata.Bar{entry, bar(98, 99, 97, 99)}, true, ending{loss: 2}},
		{"stop of a short", signal.Short, []marketdata.Bar{entry, bar(100, 101, 97.5, 98)}, true, ending{loss: 1}},
		{"both in a bar", signal.Long, []marketdata.Bar{entry, bar(100, 103, 99, 100)}, false, ending{loss: 1}},
		{"both in a bar of trades", signal.Long, []marketdata.Bar{entry, bar(100, 103, 99, 100)}, true,
			ending{won: 0.25, gain: 0.75, loss: 0.75}},
		{"both in a bar of trades, short", signal.Short, []marketdata.Bar{entry, bar(99, 101, 97, 100)}, true,
			ending{won: 0.5, gain: 1.5, loss: 0.5}},
		{"expiry", signal.Long, []marketdata.Bar{entry, quiet, quiet}, true, ending{won: 1, gain: 0.5}},
		{"expiry at the entry", signal.Long, []marketdata.Bar{entry, quiet, bar(100, 101, 99.5, 100)}, true, ending{}},
	} {
		if got := r.follow(c.d, c.bars, 1, c.byTicks); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	open := r.follow(signal.Long, []marketdata.Bar{entry, quiet}, 1, true)
	if want := r.from(r.levels(signal.Long, 100, 1), 1, 100.5); open != want || !(0.5 < open.won && open.won < 1) {
		t.Errorf("with time left: %+v, want %+v", open, want)
	}
}

// TestBaseAtCountsBothDirections checks that a rise is worth as much as the fall that mirrors it.
func TestBaseAtCountsBothDirections(t *testing.T) {
	bars := walk(8, 700, 0.005)
	for i := range bars { // on top of the walk, a rise of some 0.3 ATR a bar
		rise := 1 + 0.002*float64(i)
		bars[i].Open, bars[i].High = bars[i].Open*rise, bars[i].High*rise
		bars[i].Low, bars[i].Close = bars[i].Low*rise, bars[i].Close*rise
	}
	fall := mirrored(bars, func(p float64) float64 { return 10_000 - p })
	for _, r := range []Reach{{1, 2, 24}, {3, 1, 48}, {4, 4, 100}} {
		x, y := baseAt(t, seriesOf(t, signal.H1, bars), r, true), baseAt(t, seriesOf(t, signal.H1, fall), r, true)
		if math.Abs(x.Prior-y.Prior) > 1e-6 || math.Abs(x.Win-y.Win) > 1e-6 || math.Abs(x.Loss-y.Loss) > 1e-6 {
			t.Errorf("%+v: %+v in a rise, %+v in a fall", r, x, y)
		}
	}
}

// TestBaseAtIsKeptUntilTheNextBar checks that a result is that of its bar, reach and rules.
func TestBaseAtIsKeptUntilTheNextBar(t *testing.T) {
	bars := walk(6, 900, 0.01)
	s, r := seriesOf(t, signal.H1, bars[:899]), Reach{0.5, 0.7, 12}
	first := baseAt(t, s, r, true)
	if again := baseAt(t, s, Reach{0.5, 0.7004, 12}, true); again != first {
		t.Errorf("nearly the same target: %+v, want %+v", again, first)
	}
	if byBars := baseAt(t, s, r, false); byBars.Prior >= first.Prior {
		t.Errorf("by bars %v, by trades %v", byBars.Prior, first.Prior)
	}
	for i := range 2 * maxReaches {
		baseAt(t, s, Reach{1, 1, float64(1+i) / 4}, true)
	}
	if len(s.reaches) > maxReaches {
		t.Errorf("%d results are kept", len(s.reaches))
	}
	add(t, s, bars[899])
	if next, want := baseAt(t, s, r, true), baseAt(t, seriesOf(t, signal.H1, bars), r, true); next != want || next == first {
		t.Errorf("after the next bar: %+v, want %+v", next, want)
	}
}

// BenchmarkBaseAt is the cost of the first submission with given levels at a bar, and of others.
func BenchmarkBaseAt(b *testing.B) {
	s := seriesOf(b, signal.H1, walk(1, 1000, 0.01))
	for _, r := range []Reach{{0.5, 0.3, 10}, {1, 2, 24}, {3, 6, 240}, {5, 10, 500}, {2, 4, 64_800}, {50, 50, 1000}} {
		b.Run(fmt.Sprintf("stop %g, target %g ATR, %g bars", r.Stop, r.Target, r.Bars), func(b *testing.B) {
			for b.Loop() {
				clear(s.reaches)
				baseAt(b, s, r, true)
			}
		})
	}
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			baseAt(b, s, Reach{1, 2, 24}, true)
		}
	})
}
