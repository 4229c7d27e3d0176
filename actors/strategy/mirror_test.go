package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// mirrored returns the bars with every price reflected by f, which is decreasing.
func mirrored(bars []marketdata.Bar, f func(float64) float64) []marketdata.Bar {
	list := make([]marketdata.Bar, len(bars))
	for i, b := range bars {
		b.Open, b.High, b.Low, b.Close = f(b.Open), f(b.Low), f(b.High), f(b.Close)
		list[i] = b
	}
	return list
}

// TestMirroredPathSwapsDirections reflects the logarithm of the price at 100. The
// averages are of prices, not of logarithms, so scores are the reverse of each
// other except for the curvature: an opinion swaps its direction, and hardly changes
// its strength.
func TestMirroredPathSwapsDirections(t *testing.T) {
	const clear = 0.1 // an opinion too strong for the curvature to reverse
	bars := walk(21, 1500, 0.004)
	plain := NewSeries(signal.H1)
	mirror := NewSeries(signal.H1)
	reflected := mirrored(bars, func(p float64) float64 { return 100 * 100 / p })
	opinions := 0
	for i := range bars {
		add(t, plain, bars[i])
		add(t, mirror, reflected[i])
		if i < minUsable || i%3 != 0 {
			continue
		}
		for _, strategy := range technicalNames {
			a, b := assess(t, plain, strategy, signal.MediumRisk), assess(t, mirror, strategy, signal.MediumRisk)
			if math.Abs(a.Score+b.Score) > 0.05+0.05*math.Abs(a.Score) {
				t.Fatalf("bar %d, %s: score %v, mirrored %v", i, strategy, a.Score, b.Score)
			}
			if math.Abs(a.Score) < clear {
				continue
			}
			opinions++
			if a.Direction == b.Direction {
				t.Fatalf("bar %d, %s: both are %s with scores %v and %v", i, strategy, a.Direction, a.Score, b.Score)
			}
			if math.Abs(a.Confidence-b.Confidence) > 0.02 {
				t.Fatalf("bar %d, %s: confidence %v, mirrored %v", i, strategy, a.Confidence, b.Confidence)
			}
		}
	}
	if opinions < 500 {
		t.Fatalf("only %d opinions were compared", opinions)
	}
}

// TestMirroredOutcomes reflects the prices themselves, which every exit rule
// respects exactly: the result of a long entry on one path is that of a short one on
// the other.
func TestMirroredOutcomes(t *testing.T) {
	bars := walk(22, 700, 0.01)
	high := 0.0
	for _, b := range bars {
		high = max(high, b.High)
	}
	plain := seriesOf(t, signal.H1, bars)
	mirror := seriesOf(t, signal.H1, mirrored(bars, func(p float64) float64 { return 2*high + 1 - p }))
	for i := range plain.bars.history {
		// The indicators except sigma are symmetrical as well.
		if math.Abs(plain.bars.history[i].atr-mirror.bars.history[i].atr) > 1e-9 {
			t.Fatalf("bar %d: ATR %v, mirrored %v", i, plain.bars.history[i].atr, mirror.bars.history[i].atr)
		}
		if r := technicalIndex(MeanReversion); math.Abs(plain.bars.history[i].scores[r]+mirror.bars.history[i].scores[r]) > 1e-9 {
			t.Fatalf("bar %d: score %v, mirrored %v", i, plain.bars.history[i].scores[r], mirror.bars.history[i].scores[r])
		}
	}
	a := resolve(nil, plain.bars.bars, plain.bars.history, 24, 1.5, 0)
	b := resolve(nil, mirror.bars.bars, mirror.bars.history, 24, 1.5, 0)
	compared := 0
	for j := warmUp; j < len(a); j++ {
		if math.Abs(a[j].long-b[j].short) > 1e-9 || math.Abs(a[j].short-b[j].long) > 1e-9 {
			t.Fatalf("bar %d: %+v, mirrored %+v", j, a[j], b[j])
		}
		compared++
	}
	if compared < 500 {
		t.Fatalf("only %d outcomes were compared", compared)
	}
}

func TestScoreOfZero(t *testing.T) {
	for _, c := range []struct {
		name      string
		score     float64
		belowMean bool
		want      signal.Direction
	}{
		{"positive", 1e-9, true, signal.Long},
		{"negative", -1e-9, false, signal.Short},
		{"zero below the average", 0, true, signal.Short},
		{"zero above the average or on it", 0, false, signal.Long},
	} {
		if got := directionOf(c.score, c.belowMean); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
