package market

import (
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Timeframes are numbered from the finest to the coarsest where they index arrays.
const (
	m1 = iota
	m5
	h1
	d1
	timeframes
)

// frameMS are the lengths of the timeframes in milliseconds of market time.
var frameMS = [timeframes]int64{60_000, 300_000, 3_600_000, 86_400_000}

// frameOf returns the number of tf, or false if it is unknown.
func frameOf(tf signal.Timeframe) (int, bool) {
	for i, known := range signal.Timeframes {
		if tf == known {
			return i, true
		}
	}
	return 0, false
}

// grid is the calendar of bars at one compression of time. Market time is wall
// time since 1970 multiplied by speed, so bars lie at multiples of the compressed
// timeframe since 1970; where such a multiple is not a whole millisecond, it is
// rounded down.
type grid struct{ speed int64 }

// index returns the number of the bar in which the wall time ms lies.
func (g grid) index(frame int, ms int64) int64 { return ((ms+1)*g.speed - 1) / frameMS[frame] }

// open returns the wall time at which bar i opens, which is when bar i-1 closes.
func (g grid) open(frame int, i int64) int64 { return i * frameMS[frame] / g.speed }

// interval returns the wall times at which the bar around ms opens and closes.
func (g grid) interval(frame int, ms int64) (from, to int64) {
	i := g.index(frame, ms)
	return g.open(frame, i), g.open(frame, i+1)
}

// aligned says that a bar opens at the wall time ms.
func (g grid) aligned(frame int, ms int64) bool { return g.open(frame, g.index(frame, ms)) == ms }

// wall returns the wall time of a market time.
func (g grid) wall(market int64) int64 { return market / g.speed }

// reached returns the last multiple of step in market time that the wall time ms
// has reached.
func (g grid) reached(ms, step int64) int64 {
	at := (ms+1)*g.speed - 1
	return at - at%step
}
