package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestEstimate compares with numbers computed by hand from the formulas.
func TestEstimate(t *testing.T) {
	// Of all assets 42 % of entries close in profit, where 41.9 % break even, but for the 40 with
	// which a record starts. Those of the asset break even at 40 %.
	b := Base{Horizon: 8, Prior: 0.43, Win: 1.5, Loss: 1, Entries: 500} // so its outcomes count half
	c := comparables{
		any: record{count: count{20_000, 8400}, gains: 12_180, loss: 8700}, anySide: count{10_000, 4400},
		all: count{10_000, 4300}, side: count{5000, 2300}, near: count{2000, 1000}, own: count{400, 100},
	}
	const share = (8400 + 16.0) / 20_040
	const win, loss = (12_180 + 24.0) / (8400 + 16), (8700 + 24.0) / (11_600 + 24)
	const plain = 0.4 + (500*0.03+2000*(share-loss/(win+loss)))/2500
	const drift = (0.1*4400+2000*share)/(0.1*10_000+2000) - share
	const all = (0.2*4300 + 2000*share) / (0.2*10_000 + 2000)
	const side = (0.1*2300 + 2000*(all+drift)) / (0.1*5000 + 2000)
	const near = (0.1*1000 + 2000*side) / (0.1*2000 + 2000)
	// A slope of 0.75 that is as uncertain as the assumed one of 0.25: half of a difference is kept.
	const want = (0.5*100 + 2000*(plain+all-share+0.5*(near-all))) / (0.5*400 + 2000)
	e := estimateFrom(b, c, evidence{weight: 0.1, both: 0.2, slope: 0.75, error: 0.5})
	if math.Abs(e.confidence-want) > 1e-12 || e.sample != 200 || e.share != 0.5 {
		t.Errorf("%+v, want confidence %v, sample 200 and share 0.5", e, want)
	}
	b.Prior = 0.4
	e = estimateFrom(b, comparables{}, evidence{weight: 0.1, both: 0.2})
	if math.Abs(e.confidence-0.4) > 1e-12 || e.sample != 0 || !math.IsNaN(e.share) {
		t.Errorf("nothing known: %+v", e)
	}
	sure := count{1e9, 1e9}
	c = comparables{any: record{count: sure, gains: 1e9}, anySide: sure, all: sure, side: sure, near: sure, own: sure}
	if e := estimateFrom(b, c, evidence{weight: 1, both: 1, slope: 1, error: 0.01}); e.confidence != maxConfidence {
		t.Errorf("certainty is %v, want %v", e.confidence, maxConfidence)
	}
}

func TestPrior(t *testing.T) {
	var c record
	if c.prior() != plainShare || math.Abs(c.meanWin()-plainWin) > 1e-12 || math.Abs(c.meanLoss()-plainLoss) > 1e-12 {
		t.Errorf("without entries %v, %v, %v", c.prior(), c.meanWin(), c.meanLoss())
	}
	before := sums{n: 8, won: 3, gains: 1 << 41, loss: 1 << 40}
	all := before
	all.add(outcome{long: 1.5, short: -1})
	all.add(outcome{long: -1, short: -7}) // a fault of data counts as -3
	all.add(outcome{long: 0, short: 0.2}) // 0 is not a profit
	c = *all.since(&before)
	if got, want := c.prior(), (2+16.0)/(6+40); math.Abs(got-want) > 1e-12 {
		t.Errorf("prior = %v, want %v", got, want)
	}
	if got, want := c.meanWin(), (1.7+16*1.5)/(2+16); math.Abs(got-want) > 1e-12 {
		t.Errorf("mean win = %v, want %v", got, want)
	}
	if got, want := c.meanLoss(), (5+24.0)/(4+24); math.Abs(got-want) > 1e-12 {
		t.Errorf("mean loss = %v, want %v", got, want)
	}
}

func TestNumbersOfAnAssessment(t *testing.T) {
	a := Assessment{Confidence: 0.44, Win: 1.4, Loss: 1.1, Sample: 900, Entries: 100}
	if got, want := a.BreakEven(0), 0.44; got != want {
		t.Errorf("break-even %v, want %v", got, want)
	}
	if got, want := a.BreakEven(0.1), 0.48; got != want {
		t.Errorf("break-even after costs %v, want %v", got, want)
	}
	if got := a.BreakEven(9); got != 1 {
		t.Errorf("break-even after ruinous costs %v, want 1", got)
	}
	if got, net := a.ExpectedR(0), a.ExpectedR(0.1); got != 0 || net != -0.1 {
		t.Errorf("expected %v and %v after costs, want 0 and -0.1", got, net)
	}
	if got, want := a.Edge(0.1), -0.04; got != want {
		t.Errorf("edge %v, want %v", got, want)
	}
	if low, high := a.Interval(); low != 0.4092 || high != 0.4708 {
		t.Errorf("interval %v to %v", low, high)
	}
	a.Sample, a.Entries = 0, 0
	if low, high := a.Interval(); low != 0 || high != 1 {
		t.Errorf("interval of nothing %v to %v", low, high)
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
