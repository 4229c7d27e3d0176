package prices

import (
	"cmp"
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
