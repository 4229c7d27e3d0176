// Package prices holds what readers and writers of prices share: the grid of bars at any
// compression of time, merging of bars, the average true range, the Filter that holds back jumps
// until they are confirmed, the maximum ages of prices, and the reasons for skipping an entry from
// outside. It is pure: no clock, no input or output.
package prices

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
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

// Timeframes are numbered from the finest to the coarsest where they index arrays.
const (
	M1 = iota
	M5
	H1
	D1
	Timeframes
)

// FrameMS holds the lengths of the timeframes in milliseconds of market time.
var FrameMS = [Timeframes]int64{60_000, 300_000, 3_600_000, 86_400_000}

// FrameOf returns the number of tf, or false if it is unknown.
func FrameOf(tf signal.Timeframe) (int, bool) {
	for i, known := range signal.Timeframes {
		if tf == known {
			return i, true
		}
	}
	return 0, false
}

// Grid is the calendar of bars at one compression of time. Market time is wall time since 1970 multiplied
// by Speed, so bars open at multiples of the compressed timeframe, rounded down to whole milliseconds.
type Grid struct{ Speed int64 }

// index returns the number of the bar that contains the wall time ms.
func (g Grid) index(frame int, ms int64) int64 { return ((ms+1)*g.Speed - 1) / FrameMS[frame] }

// open returns the wall time at which bar i opens, which is when bar i-1 closes.
func (g Grid) open(frame int, i int64) int64 { return i * FrameMS[frame] / g.Speed }

// Interval returns the wall times at which the bar around ms opens and closes.
func (g Grid) Interval(frame int, ms int64) (from, to int64) {
	i := g.index(frame, ms)
	return g.open(frame, i), g.open(frame, i+1)
}

// Aligned reports whether a bar opens at the wall time ms.
func (g Grid) Aligned(frame int, ms int64) bool { return g.open(frame, g.index(frame, ms)) == ms }

// Wall returns the wall time of a market time.
func (g Grid) Wall(market int64) int64 { return market / g.Speed }

// Reached returns the last multiple of step, in market time, at or before the wall time ms.
func (g Grid) Reached(ms, step int64) int64 {
	at := (ms+1)*g.Speed - 1
	return at - at%step
}

// Time returns the time ms milliseconds after 1970.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
