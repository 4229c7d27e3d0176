package strategy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Reasoning explains in three sentences the basis of the signal on asset, from the numbers
// alone. cost is that of entry and exit together in R.
func (a *Assessment) Reasoning(asset string, l signal.Levels, cost float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s on %s %s: %s. ", title(a.Strategy), a.Direction, asset, a.Timeframe, a.Finding)
	fmt.Fprintf(&b, "Estimate %.0f %%: %s; break-even after costs %.0f %%, so %s. ",
		100*a.Confidence, a.basis(), 100*a.BreakEven(cost), a.verdict(cost))
	fmt.Fprintf(&b, "Stop %s ATR, target %s ATR, expires in %d bars.",
		multiples(l.Entry-l.Stop, a.ATR), multiples(l.Entry-l.Target, a.ATR), a.Horizon)
	return b.String()
}

// basis describes the entries that the confidence rests on.
func (a *Assessment) basis() string {
	points := 100 * (a.Confidence - a.Prior)
	switch {
	case a.Calibration == CalibrationPrior:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, fewer than %d of them had "+
			"enough news to be compared, and the score changes that by %+.1f points, which is assumed and not measured",
			a.Sample, 100*a.Prior, minOutcomes, points)
	case a.Calibration == CalibrationAssumed:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, "+
			"and the forecast changes that by %+.1f points, which is assumed and not measured",
			a.Sample, 100*a.Prior, points)
	case a.Calibration == CalibrationFitted:
		return fmt.Sprintf("past entries, worth %.0f independent ones, put it at %.0f %%, "+
			"and the forecast changes that by %+.1f points, as fitted to %d closed signals",
			a.Sample, 100*a.Prior, points, a.Closed)
	case a.Sample < 1:
		return fmt.Sprintf("hardly any comparable past setup is known, and past entries as a whole put it at %.0f %%",
			100*a.Prior)
	}
	return fmt.Sprintf("comparable past setups, worth %.0f independent ones, closed in profit %.0f %% of the time; "+
		"past entries as a whole put it at %.0f %%", a.Sample, 100*a.Share, 100*a.Prior)
}

// verdict compares the confidence with the break-even after costs.
func (a *Assessment) verdict(cost float64) string {
	evens := a.BreakEven(cost)
	switch low, high := a.Interval(); {
	case low > evens:
		return "the past speaks for an edge"
	case high < evens:
		return "the past speaks for a loss"
	}
	return "no evidence of an edge"
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
