package prices

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// RecordKept is how many bars a record holds.
const RecordKept = 1500

// Combine merges the bars that open in [from, to) into one. bars must be ascending. It returns
// false if no bar opens in that interval.
func Combine(bars []marketdata.AssetBar, from, to int64) (marketdata.AssetBar, bool) {
	i, _ := slices.BinarySearchFunc(bars, from, ByOpenTime)
	var whole marketdata.AssetBar
	for ; i < len(bars) && bars[i].OpenTime < to; i++ {
		if whole.CloseTime == 0 {
			whole.Bar = bars[i].Bar
			whole.OpenTime, whole.CloseTime = from, to
		} else {
			Merge(&whole.Bar, &bars[i].Bar)
		}
	}
	return whole, whole.CloseTime != 0
}

// Merge extends bar by a later part of it.
func Merge(bar, part *marketdata.Bar) {
	bar.High, bar.Low, bar.Close = max(bar.High, part.High), min(bar.Low, part.Low), part.Close
	bar.Volume += part.Volume
	bar.Flat = bar.Flat && part.Flat
}

// ByOpenTime compares the open time of b with open, in milliseconds, for binary searches.
func ByOpenTime(b marketdata.AssetBar, open int64) int { return cmp.Compare(b.OpenTime, open) }

// ATRLength is the number of bars that the average true range covers.
const ATRLength = 14

// ATR returns Wilder's average true range of consecutive bars, or 0 if there are too few. It is seeded with
// the mean of the first ranges; after a hundred bars the seed contributes less than 0.2 % to the result.
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
