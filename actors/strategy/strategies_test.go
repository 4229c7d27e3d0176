package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// TestScores compares with scores computed by hand.
func TestScores(t *testing.T) {
	base := Features{
		Bar: marketdata.Bar{Close: 102}, EMA12: 101, EMA26: 100, ATR14: 2, ADX14: 25, RSI14: 56, SMA20: 100, SD20: 2,
		Upper: 110, Lower: 90, VolumeRatio: math.NaN(), Sigma: 0.01,
		Move10: 0.01 * math.Sqrt(10), Move40: -0.02 * math.Sqrt(40),
	}
	unchanged := func(*Features) {}
	for _, c := range []struct {
		name     string
		strategy technical
		change   func(*Features)
		want     float64
	}{
		{"momentum, full trend", momentum{}, unchanged, (1 - 2 + 0.5) / 3},
		{"momentum, half trend", momentum{}, func(f *Features) { f.ADX14 = 17.5 }, (1 - 2 + 0.5) / 3 * 0.5},
		{"momentum, the trend factor is at least a quarter", momentum{}, func(f *Features) { f.ADX14 = 5 },
			(1 - 2 + 0.5) / 3 * 0.25},
		{"momentum, each part is clipped", momentum{},
			func(f *Features) { f.Move10, f.Move40, f.EMA12 = 9, 9, 900 }, 3},
		{"mean reversion", meanReversion{}, unchanged, -0.6*1 + 0.4*-0.5},
		{"mean reversion, strong trend", meanReversion{}, func(f *Features) { f.ADX14 = 60 },
			(-0.6*1 + 0.4*-0.5) * 0.25},
		{"mean reversion, some trend", meanReversion{}, func(f *Features) { f.ADX14 = 35 },
			(-0.6*1 + 0.4*-0.5) * 0.5},
		{"mean reversion, each part is clipped", meanReversion{},
			func(f *Features) { f.Bar.Close, f.RSI14 = 50, 1 }, 0.6*3 + 0.4*3},
		{"breakout above", breakout{}, func(f *Features) { f.Bar.Close = 111 }, 1.5},
		{"breakout far above", breakout{}, func(f *Features) { f.Bar.Close = 200 }, 3},
		{"breakout below", breakout{}, func(f *Features) { f.Bar.Close = 89 }, -1.5},
		{"breakout, inside the channel", breakout{}, unchanged, 0.8 * (2*12.0/20 - 1)},
		{"breakout, at the upper edge", breakout{}, func(f *Features) { f.Bar.Close = 110 }, 0.8},
		{"breakout, no channel", breakout{}, func(f *Features) { f.Upper, f.Lower = 102, 102 }, 0},
		{"breakout, volume above the mean", breakout{},
			func(f *Features) { f.Bar.Close, f.VolumeRatio = 111, math.Exp(0.5) }, 1.5 * 1.125},
		{"breakout, volume is clipped", breakout{},
			func(f *Features) { f.Bar.Close, f.VolumeRatio = 111, 50 }, 1.5 * 1.25},
		{"breakout, nothing traded", breakout{},
			func(f *Features) { f.Bar.Close, f.VolumeRatio = 111, 0 }, 1.5 * 0.75},
	} {
		f := base
		c.change(&f)
		if got := c.strategy.score(&f); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestFeatures recomputes the windows of a bar directly from the bars.
func TestFeatures(t *testing.T) {
	bars := walk(51, 200, 0.01)
	s := seriesOf(t, "1h", bars)
	f, ready := s.Features()
	if !ready {
		t.Fatal("no features after 200 bars")
	}
	n := len(bars)
	var sum, squares, highest float64
	for i := n - 100; i < n; i++ {
		sum += math.Log(bars[i].Close / bars[i-1].Close)
	}
	for i := n - 100; i < n; i++ {
		d := math.Log(bars[i].Close/bars[i-1].Close) - sum/100
		squares += d * d
	}
	for _, b := range bars[n-21 : n-1] {
		highest = max(highest, b.High)
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"sigma", f.Sigma, math.Sqrt(squares / 99)},
		{"10-bar move", f.Move10, math.Log(bars[n-1].Close / bars[n-11].Close)},
		{"40-bar move", f.Move40, math.Log(bars[n-1].Close / bars[n-41].Close)},
		{"upper edge of the channel", f.Upper, highest},
	} {
		if math.Abs(c.got-c.want) > 1e-12*math.Abs(c.want) {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
	if _, ready := seriesOf(t, "1h", bars[:warmUp]).Features(); ready {
		t.Error("features inside the warm-up")
	}
	if _, ready := seriesOf(t, "1h", bars[:warmUp+1]).Features(); !ready {
		t.Error("no features after the warm-up")
	}
}
