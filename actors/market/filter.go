package market

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// jumpATRs is the move, in ATR(14) of 1m bars, from which on a tick must be
	// confirmed; confirmATRs is how near the next one must be to do so.
	jumpATRs    = 10
	confirmATRs = jumpATRs / 2
	atrLength   = 14
)

// filter keeps bad ticks out of an asset's last price and bars. Its zero value
// has seen none.
type filter struct {
	last marketdata.Tick // the newest tick let through; Time 0 if there was none
	held marketdata.Tick // a jump that waits for the next tick; Time 0 if there is none
	// rising demands that times increase: then a second tick with the time of the
	// newest is a repetition. Otherwise two may have one time.
	rising bool
}

// begin makes the first tick be held against the bar before it, which ends at a time
// with a price: the first tick may be a mistake, too. A bar older than limit, in
// milliseconds, says nothing of it.
func (f *filter) begin(t marketdata.Tick, end int64, price float64, limit int64) {
	if f.last.Time == 0 && f.held.Time == 0 && end <= t.Time && t.Time-end <= limit {
		f.last = marketdata.Tick{Price: price, Time: end}
	}
}

// jumps says that a price is so far from that of the last tick that it must be
// confirmed. Where the ATR is not known or 0, because there are too few bars of 1m or
// nothing moves, only a price that can hardly be of the same thing is.
func (f *filter) jumps(price, atr float64) bool {
	if f.last.Time == 0 {
		return false
	}
	if !(atr > 0) {
		return !near(price, f.last.Price)
	}
	return math.Abs(price-f.last.Price) > jumpATRs*atr
}

// confirms says that a price confirms the tick that is held: by half the distance from
// which on it was.
func (f *filter) confirms(price, atr float64) bool {
	if f.held.Time == 0 {
		return false
	}
	limit := confirmATRs * atr
	if !(atr > 0) {
		limit = math.Abs(f.held.Price-f.last.Price) / 2
	}
	return math.Abs(price-f.held.Price) <= limit
}

// take decides on t. What it lets through is returned in order, at most two
// ticks: a held one and the one that confirms it. atr is the ATR(14) of the 1m
// bars; 0: not known. skipped is the reason for which a tick, t or the one held
// before, was dropped for good.
func (f *filter) take(t marketdata.Tick, atr float64) (passed []marketdata.Tick, skipped reason) {
	if t.Time < f.last.Time || t.Time < f.held.Time || f.rising && t.Time == f.last.Time {
		return nil, skipOld
	}
	if !f.jumps(t.Price, atr) {
		// Back where the price was: the held tick was a mistake.
		if f.held.Time != 0 {
			skipped = skipJump
		}
		f.last, f.held = t, marketdata.Tick{}
		return []marketdata.Tick{t}, skipped
	}
	if f.confirms(t.Price, atr) {
		passed = []marketdata.Tick{f.held, t}
		f.last, f.held = t, marketdata.Tick{}
		return passed, ""
	}
	if f.held.Time != 0 {
		skipped = skipJump
	}
	f.held = t
	return nil, skipped
}

// lastBefore returns which of n bars, ascending, is the last that ends at or before a
// time; -1 if none does.
func lastBefore(n int, at int64, end func(i int) int64) int {
	n--
	for n >= 0 && end(n) > at {
		n--
	}
	return n
}

// atr14 returns Wilder's average true range of bars that follow one another, or 0
// if there are too few. It is seeded with the mean of the first ranges; of a
// hundred bars the seed's part in the result is below 0.2 %.
func atr14(n int, bar func(i int) (high, low, close float64)) float64 {
	if n <= atrLength {
		return 0
	}
	_, _, previous := bar(0)
	var atr float64
	for i := 1; i < n; i++ {
		high, low, closing := bar(i)
		span := math.Max(high, previous) - math.Min(low, previous)
		previous = closing
		if i <= atrLength {
			atr += span / atrLength
		} else {
			atr += (span - atr) / atrLength
		}
	}
	return atr
}
