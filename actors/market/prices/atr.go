package prices

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// ATRLength is the number of bars that the average true range covers.
const ATRLength = 14

// ATR returns Wilder's average true range of consecutive bars, or 0 if there are too few. It is
// seeded with the mean of the first ranges; after a hundred bars the seed contributes less than 0.2
// % to the result.
func ATR(n int, bar func(i int) (high, low, close float64)) float64 {
	if n <= ATRLength {
		return 0
	}
	_, _, previous := bar(0)
	var atr float64
	for i := 1; i < n; i++ {
		high, low, closing := bar(i)
		span := math.Max(high, previous) - math.Min(low, previous)
		previous = closing
		if i <= ATRLength {
			atr += span / ATRLength
		} else {
			atr += (span - atr) / ATRLength
		}
	}
	return atr
}

// ATROfBars returns the ATR(14) at the end of bars.
func ATROfBars(bars []marketdata.Bar) float64 {
	newest := bars[max(0, len(bars)-100):]
	return ATR(len(newest), func(i int) (high, low, close float64) {
		return newest[i].High, newest[i].Low, newest[i].Close
	})
}
