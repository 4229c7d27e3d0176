package simulated

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// logChange returns the change of the log price of an asset in some hours of market time under an
// anomaly. Its draws are always the same.
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

// An anomaly adds a drift to prices of commodities, and does not change prices of other assets.
func TestWeatherMovesCommodities(t *testing.T) {
	t.Parallel()
	const hours = 100
	without := logChange(t, "natural_gas", hours, 0)
	up, down := logChange(t, "natural_gas", hours, 2)-without, logChange(t, "natural_gas", hours, -2)-without
	// The deviation of an hour is .7 to 1.8 times this, depending on the regime, times the slow wave.
	unit := weatherDrift * 2 * hours * .60 / math.Sqrt(hoursPerYear)
	if up < .2*unit || up > 3*unit || math.Abs(up+down) > .02*unit {
		t.Errorf("an anomaly of 2 moves the price by %v, one of -2 by %v; want about %v", up, down, unit)
	}
	if got := logChange(t, "BTC", hours, 2); got != logChange(t, "BTC", hours, 0) {
		t.Error("weather moves BTC")
	}
}

// A market that is restored from a checkpoint has the prices of one that went on. History is
// generated without weather.
func TestWeatherMovesARestoredMarket(t *testing.T) {
	t.Parallel()
	const begin = 1_795_253_400_000
	weather := func(_ string, at time.Time) float64 {
		if at.UnixMilli() <= begin {
			t.Errorf("the weather of %v, before the market begins, is used", at)
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
	restored := New(60, 7, someAssets("corn", "oil"))
	restored.Weather = weather
	restored.Open(t.Context(), other.Checkpoint(), begin+6000, begin+9000)
	if diff := cmp.Diff(one.Checkpoint(), restored.Checkpoint()); diff != "" {
		t.Error("the restored market differs")
	}
}
