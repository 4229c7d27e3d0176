package prices

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// AtrLength is of how many bars the average true range is.
const AtrLength = 14

// LastBefore returns which of n bars, ascending, is the last that ends at or before a
// time; -1 if none does.
func LastBefore(n int, at int64, end func(i int) int64) int {
	n--
	for n >= 0 && end(n) > at {
		n--
	}
	return n
}

// ATR returns Wilder's average true range of bars that follow one another, or 0
// if there are too few. It is seeded with the mean of the first ranges; of a
// hundred bars the seed's part in the result is below 0.2 %.
func ATR(n int, bar func(i int) (high, low, close float64)) float64 {
	if n <= AtrLength {
		return 0
	}
	_, _, previous := bar(0)
	var atr float64
	for i := 1; i < n; i++ {
		high, low, closing := bar(i)
		span := math.Max(high, previous) - math.Min(low, previous)
		previous = closing
		if i <= AtrLength {
			atr += span / AtrLength
		} else {
			atr += (span - atr) / AtrLength
		}
	}
	return atr
}

// ATROfBars returns the ATR(14) at the end of bars.
func ATROfBars(bars []marketdata.Bar) float64 {
	newest := bars[max(0, len(bars)-100):]
	return ATR(len(newest), func(i int) (float64, float64, float64) { return newest[i].High, newest[i].Low, newest[i].Close })
}
