// Package prices holds what readers and writers of prices share: the grid of bars at any
// compression of time, merging of bars, the average true range, the Filter that holds back jumps
// until they are confirmed, the maximum ages of prices, and the reasons for skipping an entry from
// outside. It is pure: no clock, no input or output.
package prices

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

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
