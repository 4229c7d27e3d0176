package strategy

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Exit is the end of a signal: its reason and its price.
type Exit struct {
	Reason signal.CloseReason
	Price  float64
}

// beyondStop reports whether p has reached the stop.
func beyondStop(d signal.Direction, l signal.Levels, p float64) bool {
	if d == signal.Short {
		return p >= l.Stop
	}
	return p <= l.Stop
}

// beyondTarget reports whether p has reached the target.
func beyondTarget(d signal.Direction, l signal.Levels, p float64) bool {
	if d == signal.Short {
		return p <= l.Target
	}
	return p >= l.Target
}

// ExitOnTick returns the exit by a trade at price, or false if the signal stays open. The
// stop is left at the observed price, which may be worse; the target at exactly the
// target.
func ExitOnTick(d signal.Direction, l signal.Levels, price float64) (Exit, bool) {
	switch {
	case beyondStop(d, l, price):
		return Exit{signal.StopLoss, price}, true
	case beyondTarget(d, l, price):
		return Exit{signal.TakeProfit, l.Target}, true
	}
	return Exit{}, false
}

// ExitOnBar returns the exit by b, a bar after the one in which the signal was created,
// or false if the signal stays open. If a bar opens beyond the stop, the exit is at its
// open. If it contains both levels, the stop is assumed to come first: the order is
// unknown, and this is the cautious choice.
func ExitOnBar(d signal.Direction, l signal.Levels, b marketdata.Bar) (Exit, bool) {
	worst, best := b.Low, b.High
	if d == signal.Short {
		worst, best = b.High, b.Low
	}
	switch {
	case beyondStop(d, l, b.Open):
		return Exit{signal.StopLoss, b.Open}, true
	case beyondTarget(d, l, b.Open):
		return Exit{signal.TakeProfit, l.Target}, true
	case beyondStop(d, l, worst):
		return Exit{signal.StopLoss, l.Stop}, true
	case beyondTarget(d, l, best):
		return Exit{signal.TakeProfit, l.Target}, true
	}
	return Exit{}, false
}

// ExitOnExpiry returns the exit at expiry. price is the last one at or before it; an exit
// by a price at the same instant takes precedence.
func ExitOnExpiry(price float64) Exit { return Exit{signal.Expired, price} }

// ExitByAgent returns the exit by the first price after the agent has asked for it, whatever level that reaches.
func ExitByAgent(price float64) Exit { return Exit{signal.AgentExit, price} }

// PnL returns the result of one unit in price units (8 decimals) and in percent
// of the entry (4 decimals), before costs.
func PnL(d signal.Direction, entry, exit float64) (percent, absolute float64) {
	diff := exit - entry
	if d == signal.Short {
		diff = -diff
	}
	return noNegativeZero(round(diff/entry*100, 4)), noNegativeZero(round(diff, 8))
}

// R returns the result of an exit. See signal.Levels.
func R(d signal.Direction, l signal.Levels, exit float64) float64 {
	return l.R(d, exit)
}

// DurationMinutes returns the whole minutes from created to closed, at least 0.
func DurationMinutes(created, closed time.Time) int64 {
	return max(0, int64(closed.Sub(created)/time.Minute))
}

// Close returns the closing of s, which has levels, by e at the given time.
func Close(s *signal.Signal, e Exit, at time.Time) signal.Closing {
	price := shown(e.Price, s.Direction, *s.Levels)
	percent, absolute := PnL(s.Direction, s.Levels.Entry, price)
	return signal.Closing{Reason: e.Reason, At: at, ExitPrice: &price, PnLPercent: &percent, PnLAbsolute: &absolute,
		DurationMinutes: DurationMinutes(s.CreatedAt, at)}
}

// maxPriceDecimals is the maximum number of decimals of shown prices.
const maxPriceDecimals = 8

// shown returns an observed price as clients see it, rounded to the decimals of the
// entry's magnitude. More decimals are kept if the levels have them, or if rounding would
// move the price across a level.
func shown(price float64, d signal.Direction, l signal.Levels) float64 {
	_, ends := ExitOnTick(d, l, price)
	fits := func(decimals int) bool {
		_, still := ExitOnTick(d, l, round(price, decimals))
		return still == ends && round(l.Entry, decimals) == l.Entry &&
			round(l.Stop, decimals) == l.Stop && round(l.Target, decimals) == l.Target
	}
	decimals := min(7-int(math.Floor(math.Log10(l.Entry))), maxPriceDecimals)
	for decimals < maxPriceDecimals && !fits(decimals) {
		decimals++
	}
	return round(price, decimals)
}

// Excursion is how far the price went while a signal was open, in R: Best is at
// least 0 (MFE), Worst at most 0 (MAE).
type Excursion struct{ Best, Worst float64 }

// Observe returns x extended by prices between low and high.
func (x Excursion) Observe(d signal.Direction, l signal.Levels, low, high float64) Excursion {
	a, b := R(d, l, low), R(d, l, high)
	return Excursion{Best: max(x.Best, a, b), Worst: min(x.Worst, a, b)}
}

// CostR returns the cost of entry and exit together in R. cost is that of each as a share
// of its price.
func CostR(l signal.Levels, exit, cost float64) float64 {
	return cost * (l.Entry + exit) / math.Abs(l.Entry-l.Stop)
}

// minConfidenceChange is the smallest change of confidence that is published.
const minConfidenceChange = 0.02

// Moved reports whether now differs enough from sent, the last published confidence, to
// be published. Both have 4 decimals.
func Moved(sent, now float64) bool {
	return math.Round(math.Abs(now-sent)*1e4) >= minConfidenceChange*1e4
}

// noNegativeZero returns x, with 0 for -0.
func noNegativeZero(x float64) float64 {
	if x == 0 {
		return 0
	}
	return x
}
