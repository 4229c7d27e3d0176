package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// outcome holds the results in R of a long and a short entry at one bar's close;
// positive: closed in profit. Both are NaN if the bar has no score.
type outcome struct{ long, short float64 }

// noOutcome belongs to bars at which no signal was possible.
var noOutcome = outcome{math.NaN(), math.NaN()}

// of returns the outcome of an entry in direction d.
func (o outcome) of(d signal.Direction) float64 {
	if d == signal.Short {
		return o.short
	}
	return o.long
}

// replay enters at the close of bars[0] and follows the next horizon bars by the rules
// for open signals. It returns the result in R.
func replay(d signal.Direction, bars []marketdata.Bar, horizon int, atr, multiple, tick float64) float64 {
	entry := bars[0].Close
	stop, target := distances(d, entry, atr, multiple, tick)
	if d == signal.Short {
		stop, target = -stop, -target
	}
	l := signal.Levels{Entry: entry, Stop: entry - stop, Target: entry + target}
	for i := 1; i <= horizon; i++ {
		if e, ok := ExitOnBar(d, l, bars[i]); ok {
			return R(d, l, e.Price)
		}
	}
	return R(d, l, ExitOnExpiry(bars[horizon].Close).Price)
}

// resolve appends to known the outcomes of all bars whose horizon has passed. known[j]
// belongs to bars[j] and never changes.
func resolve(known []outcome, bars []marketdata.Bar, history []reading, horizon int, multiple, tick float64) []outcome {
	for j := len(known); j+horizon < len(bars); j++ {
		o := noOutcome
		if history[j].scored {
			o.long = replay(signal.Long, bars[j:], horizon, history[j].atr, multiple, tick)
			o.short = replay(signal.Short, bars[j:], horizon, history[j].atr, multiple, tick)
		}
		known = append(known, o)
	}
	return known
}
