package main

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestDefaultSlippageIsMeasured checks that the default is the median of the simulated market on
// each timeframe for which it was measured.
func TestDefaultSlippageIsMeasured(t *testing.T) {
	t.Parallel()
	median := make(map[signal.Timeframe]float64)
	for _, tf := range []signal.Timeframe{signal.M1, signal.M5, signal.H1} {
		paid := measureSlippage(t.Context(), tf)
		if len(paid) < 1000 || paid[0] < 0 {
			t.Fatalf("%s: %d entries, the least paid %v", tf, len(paid), paid[:min(1, len(paid))])
		}
		median[tf] = paid[len(paid)/2]
	}
	for tf, got := range median {
		if want := backtest.SlippageOn(tf, backtest.DefaultSlippage); math.Abs(got-want) > .0006 {
			t.Errorf("%s: the median is %.4f R, the default %g R", tf, got, want)
		}
	}
}
