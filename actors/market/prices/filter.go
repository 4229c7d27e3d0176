package prices

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// jumpATRs is the move, in ATR(14) of 1m bars, from which on a tick must be
	// confirmed; confirmATRs is how near the next one must be to do so.
	jumpATRs    = 10
	confirmATRs = jumpATRs / 2
)

// Filter keeps bad ticks out of an asset's last price and bars. Its zero value
// has seen none.
type Filter struct {
	Last marketdata.Tick // the newest tick let through; Time 0 if there was none
	Held marketdata.Tick // a jump that waits for the next tick; Time 0 if there is none
	// Rising demands that times increase: then a second tick with the time of the
	// newest is a repetition. Otherwise two may have one time.
	Rising bool
}

// Begin makes the first tick be held against the bar before it, which ends at a time
// with a price: the first tick may be a mistake, too. A bar older than limit, in
// milliseconds, says nothing of it.
func (f *Filter) Begin(t marketdata.Tick, end int64, price float64, limit int64) {
	if f.Last.Time == 0 && f.Held.Time == 0 && end <= t.Time && t.Time-end <= limit {
		f.Last = marketdata.Tick{Price: price, Time: end}
	}
}

// jumps reports whether a price is so far from that of the last tick that it must be
// confirmed. Where the ATR is not known or 0, because there are too few bars of 1m or
// nothing moves, only a price that can hardly be of the same thing is.
func (f *Filter) jumps(price, atr float64) bool {
	if f.Last.Time == 0 {
		return false
	}
	if !(atr > 0) {
		return !Near(price, f.Last.Price)
	}
	return math.Abs(price-f.Last.Price) > jumpATRs*atr
}

// confirms reports whether a price confirms the tick that is held: by half the distance from
// which on it was.
func (f *Filter) confirms(price, atr float64) bool {
	if f.Held.Time == 0 {
		return false
	}
	limit := confirmATRs * atr
	if !(atr > 0) {
		limit = math.Abs(f.Held.Price-f.Last.Price) / 2
	}
	return math.Abs(price-f.Held.Price) <= limit
}

// Take decides on t. What it lets through is returned in order, at most two
// ticks: a held one and the one that confirms it. atr is the ATR(14) of the 1m
// bars; 0: not known. skipped is the reason for which a tick, t or the one held
// before, was dropped for good.
func (f *Filter) Take(t marketdata.Tick, atr float64) (passed []marketdata.Tick, skipped Reason) {
	if t.Time < f.Last.Time || t.Time < f.Held.Time || f.Rising && t.Time == f.Last.Time {
		return nil, SkipOld
	}
	if !f.jumps(t.Price, atr) {
		// Back where the price was: the held tick was a mistake.
		if f.Held.Time != 0 {
			skipped = skipJump
		}
		f.Last, f.Held = t, marketdata.Tick{}
		return []marketdata.Tick{t}, skipped
	}
	if f.confirms(t.Price, atr) {
		passed = []marketdata.Tick{f.Held, t}
		f.Last, f.Held = t, marketdata.Tick{}
		return passed, ""
	}
	if f.Held.Time != 0 {
		skipped = skipJump
	}
	f.Held = t
	return nil, skipped
}
