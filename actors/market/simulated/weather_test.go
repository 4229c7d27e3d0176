package simulated

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// logChange returns by how much the log price of the asset named moves in a number of
// hours of market time under an anomaly, and what it would be without, per draw alike.
func logChange(t *testing.T, symbol string, hours int64, anomaly float64) float64 {
	t.Helper()
	const begin = 1_795_253_400_000
	s := New(3600, 3, someAssets(symbol))
	s.Weather = func(string, time.Time) float64 { return anomaly }
	s.Open(t.Context(), nil, 0, begin)
	before := s.assets[0].path.price
	s.Advance(begin + hours*1000)
	return s.assets[0].path.price - before
}

// TestWeatherMovesCommodities: the same draws with and without an anomaly differ by the
// drift, and prices of other assets do not at all.
func TestWeatherMovesCommodities(t *testing.T) {
	t.Parallel()
	const hours = 100
	without, up, down := logChange(t, "natural_gas", hours, 0), logChange(t, "natural_gas", hours, 2), logChange(t, "natural_gas", hours, -2)
	// In a calm to turbulent market the deviation of an hour is .7 to 1.8 times this,
	// times the slow wave.
	unit := weatherDrift * 2 * hours * .60 / math.Sqrt(hoursPerYear)
	if up-without < .2*unit || up-without > 3*unit || math.Abs((up-without)+(down-without)) > .02*unit {
		t.Errorf("an anomaly of 2 moves the price by %v, one of -2 by %v; about %v is wanted", up-without, down-without, unit)
	}
	if got := logChange(t, "BTC", hours, 2); got != logChange(t, "BTC", hours, 0) {
		t.Error("weather moves BTC")
	}
}

// TestWeatherIsHeededAfterARestart: one market that goes on and one that is taken over
// from a checkpoint come to the same prices, and history is made without weather.
func TestWeatherIsHeededAfterARestart(t *testing.T) {
	t.Parallel()
	const begin = 1_795_253_400_000
	weather := func(_ string, at time.Time) float64 {
		if at.UnixMilli() <= begin {
			t.Errorf("the weather of %v is asked for, before the market's start", at)
		}
		return math.Sin(float64(at.UnixMilli()) / 1000)
	}
	one, other := New(60, 1, someAssets("corn", "oil")), New(60, 1, someAssets("corn", "oil"))
	one.Weather, other.Weather = weather, weather
	one.Open(t.Context(), nil, 0, begin)
	other.Open(t.Context(), nil, 0, begin)
	one.Advance(begin + 5000)
	one.Advance(begin + 9000)
	other.Advance(begin + 6000)
	taken := New(60, 7, someAssets("corn", "oil"))
	taken.Weather = weather
	taken.Open(t.Context(), other.Checkpoint(), begin+6000, begin+9000)
	if diff := cmp.Diff(one.Checkpoint(), taken.Checkpoint()); diff != "" {
		t.Error("the market that was taken over is another one")
	}
}
