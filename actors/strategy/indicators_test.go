package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// goldenBars is the series for which the values of TA-Lib are known.
func goldenBars() []marketdata.Bar {
	bars := make([]marketdata.Bar, 60)
	for i := range bars {
		x := float64(i)
		c := 100 + 10*math.Sin(x/5) + 3*math.Cos(x/2) + 0.1*x
		bars[i] = marketdata.Bar{
			OpenTime: int64(i) * 60_000, CloseTime: int64(i+1) * 60_000,
			Open: c, High: c + 1 + 0.5*math.Sin(x), Low: c - 1 - 0.5*math.Cos(x), Close: c,
		}
	}
	return bars
}

// addAll adds bars to new indicators, and calls each after every one.
func addAll(bars []marketdata.Bar, each func(i int, x *indicators)) indicators {
	state := newIndicators()
	for i, b := range bars {
		var previous *marketdata.Bar
		if i > 0 {
			previous = &bars[i-1]
		}
		state.add(previous, b)
		each(i, &state)
	}
	return state
}

func TestIndicatorsEqualTALib(t *testing.T) {
	bars := goldenBars()
	state := addAll(bars, func(int, *indicators) {})
	mean, deviation := bollinger(bars[40:])
	highest, lowest := donchian(bars[40:])
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"RSI14", state.strength.value(), 42.400630383},
		{"EMA12", state.fast.value, 97.993808566},
		{"EMA26", state.slow.value, 101.016126252},
		{"ATR14", state.atr.value, 2.696084388},
		{"ADX14", state.trend.value, 30.323890370},
		{"upper band", mean + 2*deviation, 115.595270393},
		{"middle band", mean, 102.327023068},
		{"lower band", mean - 2*deviation, 89.058775743},
		{"highest high", highest, 116.490385232},
		{"lowest low", lowest, 91.493795056},
	} {
		if math.Abs(c.got-c.want) > 5.01e-10 {
			t.Errorf("%s = %.9f, want %.9f", c.name, c.got, c.want)
		}
	}
}

func TestFirstValueOfIndicators(t *testing.T) {
	first := map[string]int{}
	addAll(goldenBars(), func(i int, x *indicators) {
		for name, ready := range map[string]bool{
			"EMA12": x.fast.count >= x.fast.n, "EMA26": x.slow.count >= x.slow.n,
			"RSI14": x.strength.gain.count >= x.strength.gain.n,
			"ATR14": x.atr.count >= x.atr.n, "ADX14": x.trend.seeded >= x.trend.n,
		} {
			if _, known := first[name]; ready && !known {
				first[name] = i
			}
		}
	})
	for name, want := range map[string]int{"EMA12": 11, "EMA26": 25, "RSI14": 14, "ATR14": 14, "ADX14": 27} {
		if first[name] != want {
			t.Errorf("%s is ready at bar %d, want %d", name, first[name], want)
		}
	}
}

func TestIndicatorsWithoutMovement(t *testing.T) {
	bars := make([]marketdata.Bar, 200)
	for i := range bars {
		bars[i] = flatAt(i, 0.1)
	}
	state := addAll(bars, func(int, *indicators) {})
	if got := state.strength.value(); got != 50 {
		t.Errorf("RSI = %v, want 50", got)
	}
	if got := state.trend.value; got != 0 {
		t.Errorf("ADX = %v, want 0", got)
	}
	if got := state.atr.value; got != 0 {
		t.Errorf("ATR = %v, want 0", got)
	}
	if mean, deviation := bollinger(bars[180:]); mean != 0.1 || deviation != 0 {
		t.Errorf("bollinger = %v, %v, want 0.1, 0", mean, deviation)
	}
}

func TestADXKeepsItsValueWithoutMovement(t *testing.T) {
	a := adx{n: 2, seeded: 2, value: 40}
	a.addDX()
	if a.value != 40 {
		t.Errorf("ADX = %v, want 40", a.value)
	}
}

func TestVolumeRatio(t *testing.T) {
	bars := func(volumes ...float64) []marketdata.Bar {
		list := make([]marketdata.Bar, len(volumes))
		for i, v := range volumes {
			list[i] = marketdata.Bar{Volume: math.Abs(v), Flat: v < 0}
		}
		return list
	}
	for _, c := range []struct {
		name string
		bars []marketdata.Bar
		want float64
	}{
		{"the bar counts in its own mean", bars(1, 1, 4), 2},
		{"fills of gaps are left out", bars(2, -1, -1, 6), 1.5},
		{"no volume at all", bars(0, 0, 0), math.NaN()},
		{"the bar itself fills a gap", bars(3, 3, -1), math.NaN()},
		{"nothing traded", bars(3, 3, 0), 0},
	} {
		got := volumeRatio(c.bars)
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
