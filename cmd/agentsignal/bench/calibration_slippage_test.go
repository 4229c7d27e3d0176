package bench

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestDefaultSlippageIsMeasured checks that the default is the median of the simulated market at
// the default timeframe, and that finer timeframes, whose stops are nearer, pay more.
func TestDefaultSlippageIsMeasured(t *testing.T) {
	t.Parallel()
	median := make(map[signal.Timeframe]float64)
	for _, tf := range []signal.Timeframe{signal.M5, signal.H1} {
		paid := measureSlippage(t.Context(), tf)
		if len(paid) < 1000 || paid[0] < 0 {
			t.Fatalf("%s: %d entries, the least paid %v", tf, len(paid), paid[:min(1, len(paid))])
		}
		median[tf] = paid[len(paid)/2]
	}
	if got := median[signal.H1]; math.Abs(got-backtest.DefaultSlippage) > .0005 {
		t.Errorf("the median is %.4f R, the default %g R", got, backtest.DefaultSlippage)
	}
	if median[signal.M5] < 2*median[signal.H1] {
		t.Errorf("the median is %.4f R on 5m and %.4f R on 1h", median[signal.M5], median[signal.H1])
	}
}
