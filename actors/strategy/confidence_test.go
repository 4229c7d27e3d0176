package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestWeigh compares with numbers computed by hand from the formulas.
func TestWeigh(t *testing.T) {
	past := []setup{{1, 1.5}, {1, -1}, {1 + kernelWidth, 1.5}}
	const prior, horizon = 0.41, 8 // so the outcomes count half
	e := weigh(1, horizon, prior, past)
	const d, w = 0.5, 0.6065306597126334 // exp(-1/2)
	base := (d*2 + 400*prior) / (d*3 + 400)
	want := (d*(1+w) + 400*base) / (d*(2+w) + 400)
	if math.Abs(e.confidence-want) > 1e-12 {
		t.Errorf("confidence %v, want %v", e.confidence, want)
	}
	if want := (1.5 - 1 + w*1.5) / (2 + w); math.Abs(e.expectedR-want) > 1e-12 {
		t.Errorf("expected R %v, want %v", e.expectedR, want)
	}
	if want := d * (2 + w); math.Abs(e.sample-want) > 1e-12 {
		t.Errorf("sample %v, want %v", e.sample, want)
	}
}

func TestWeighStaysFinite(t *testing.T) {
	if e := weigh(1e6, 24, 0.4, []setup{{0, -1}, {0, 2}}); e.confidence <= 0.39 || e.confidence >= 0.41 ||
		e.expectedR != 0.5 {
		t.Errorf("nothing comparable: %+v", e)
	}
	if e := weigh(1, 24, 0.4, nil); math.Abs(e.confidence-0.4) > 1e-12 || e.expectedR != 0 || e.sample != 0 {
		t.Errorf("nothing known: %+v", e)
	}
	var sure []setup
	for range 100_000 {
		sure = append(sure, setup{1, 1.5})
	}
	if e := weigh(1, 1, 1, sure); e.confidence != maxConfidence {
		t.Errorf("certainty is %v, want %v", e.confidence, maxConfidence)
	}
}

func TestPrior(t *testing.T) {
	var c record
	if got := c.prior(); got != BreakEven {
		t.Errorf("prior without entries = %v, want %v", got, BreakEven)
	}
	c.add(outcome{1.5, -1})
	c.add(outcome{-1, -1})
	c.add(outcome{0, 0.2}) // 0 is not a profit
	if got, want := c.prior(), (2+16.0)/(6+40); math.Abs(got-want) > 1e-12 {
		t.Errorf("prior = %v, want %v", got, want)
	}
}

func TestPercentile(t *testing.T) {
	var r rank
	if got := r.percentile(); got != 0.5 {
		t.Errorf("percentile without others = %v, want 0.5", got)
	}
	for _, x := range []float64{1, 2, 2, 3} {
		r.add(x, 2)
	}
	if got := r.percentile(); got != 0.5 {
		t.Errorf("percentile = %v, want 0.5", got)
	}
}

// hits returns the mean confidence of signals made on a walk without drift, and
// the share of them that then closed in profit.
func hits(tb testing.TB, strategy string, walks, bars, every int) (confidence, hit float64, n int) {
	horizon := Horizon(signal.H1, signal.MediumRisk)
	for seed := range walks {
		path := walk(uint64(1000+seed), bars, 0.01)
		s := NewSeries(signal.H1)
		for i, b := range path {
			add(tb, s, b)
			if i < minUsable || i%every != 0 || i+horizon >= len(path) {
				continue
			}
			a := assess(tb, s, strategy, signal.MediumRisk)
			l, err := a.Levels(b.Close, 0)
			if err != nil {
				tb.Fatal(err)
			}
			exit := ExitOnExpiry(path[i+horizon].Close)
			for _, next := range path[i+1 : i+horizon+1] {
				if e, ok := ExitOnBar(a.Direction, l, next); ok {
					exit = e
					break
				}
			}
			confidence += a.Confidence
			if R(a.Direction, l, exit.Price) > 0 {
				hit++
			}
			n++
		}
	}
	return confidence / float64(n), hit / float64(n), n
}

// TestCalibration checks that confidence is a probability: on a market without
// drift its mean lies within 0.03 of the share that closed in profit. Signals 24
// bars apart hardly overlap, so 2,000 of them are nearly as informative as 5,000 that do,
// which only one strategy uses.
func TestCalibration(t *testing.T) {
	for strategy, every := range map[string]int{Momentum: 10, MeanReversion: 24, Breakout: 24} {
		if testing.Short() {
			every = 24
		}
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			confidence, hit, n := hits(t, strategy, 21, 2800, every)
			t.Logf("%d signals: mean confidence %.4f, hit rate %.4f", n, confidence, hit)
			if n < 50_000/every {
				t.Errorf("only %d signals", n)
			}
			if math.Abs(confidence-hit) > 0.03 {
				t.Errorf("mean confidence %.4f, hit rate %.4f of %d signals", confidence, hit, n)
			}
		})
	}
}

// BenchmarkCalibration reports how far confidence and hit rate lie apart over
// 5,000 signals of each strategy.
func BenchmarkCalibration(b *testing.B) {
	for _, strategy := range technicalNames {
		b.Run(strategy, func(b *testing.B) {
			var confidence, hit float64
			for b.Loop() {
				confidence, hit, _ = hits(b, strategy, 21, 2800, 10)
			}
			b.ReportMetric(confidence, "confidence")
			b.ReportMetric(hit, "hits")
		})
	}
}
