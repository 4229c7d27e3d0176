package strategy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Reasoning explains in three sentences the basis of the signal on asset, from the numbers
// alone.
func (a Assessment) Reasoning(asset string, l signal.Levels) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s on %s %s: %s. ", title(a.Strategy), a.Direction, asset, a.Timeframe, a.Finding)
	percent, evens := 100*a.Confidence, 100*a.BreakEven
	switch a.Calibration {
	case CalibrationPrior:
		fmt.Fprintf(&b, "Too few comparable past setups are known; "+
			"of all past entries %.0f %% closed in profit (break-even %.0f %%). ", 100*a.Prior, evens)
	case CalibrationFitted:
		fmt.Fprintf(&b, "Of all past entries %.0f %% closed in profit; "+
			"past signals put this one at %.0f %% (break-even %.0f %%). ", 100*a.Prior, percent, evens)
	default:
		fmt.Fprintf(&b, "Of comparable past setups %.0f %% closed in profit (break-even %.0f %%). ", percent, evens)
	}
	fmt.Fprintf(&b, "Stop %s ATR, target %s ATR, expires in %d bars.",
		multiples(l.Entry-l.Stop, a.ATR), multiples(l.Entry-l.Target, a.ATR), a.Horizon)
	return b.String()
}

// multiples returns a distance in ATR with at most two decimals.
func multiples(distance, atr float64) string {
	return strconv.FormatFloat(round(math.Abs(distance)/atr, 2), 'f', -1, 64)
}

// title returns a strategy's name in the form that begins a sentence.
func title(name string) string {
	name = strings.ReplaceAll(name, "_", " ")
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
