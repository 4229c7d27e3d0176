package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Limits on the replay of entries at the levels of a Reach, which keep its cost near that of the
// shortest ones.
const (
	// maxReplay is the number of bars for which an entry is followed. What becomes of it afterwards is
	// estimated. Longer ones would leave few entries in the window.
	maxReplay = 250
	// denseLife is the life in bars up to which there is an entry at each bar. Neighbours of
	// longer-lived ones end alike.
	denseLife = 24
	// lives is the number of mean lives after which nearly all entries have ended.
	lives = 3
	// maxReaches is the number of results that are kept until the next bar.
	maxReaches = 512
)

// reachKey identifies a result of BaseAt at a bar.
type reachKey struct {
	Reach
	byTicks bool
}

// threeDigits returns x with three significant digits.
func threeDigits(x float64) float64 {
	scale := math.Pow10(2 - int(math.Floor(math.Log10(x))))
	return math.Round(x*scale) / scale
}

// replay returns the base of the given reach.
func (b *scoredBars) replay(r Reach, byTicks bool) Base {
	life := min(r.Bars, lives*r.lifetime())
	limit := int(min(r.Bars, maxReplay))
	step := max(1, int(life/denseLife))
	var sum ending
	n := 0.0
	for j := len(b.bars) - 1 - limit; limit > 0 && j >= b.scoredFrom(); j -= step {
		if !b.history[j].scored {
			continue
		}
		for _, d := range [...]signal.Direction{signal.Long, signal.Short} {
			e := r.follow(d, b.bars[j:j+limit+1], b.history[j].atr, byTicks)
			sum.won, sum.gain, sum.loss = sum.won+e.won, sum.gain+e.gain, sum.loss+e.loss
			n++
		}
	}
	plain := r.driftless()
	won, lost := sum.won+priorCount*plain.won, n-sum.won+priorCount*(1-plain.won)
	return Base{
		Bar: b.last.Bar, Timeframe: b.tf, Prior: clip(won/(n+priorCount), minBase, maxBase),
		Win: (sum.gain + priorCount*plain.gain) / won, Loss: (sum.loss + priorCount*plain.loss) / lost,
		Entries: n / 2 * min(1, float64(step)*independent/life),
		ATR:     b.last.ATR14, Sigma: b.last.Sigma, Horizon: int(math.Ceil(r.Bars)),
	}
}

// follow enters at the close of the first bar and follows the others by the rules for open signals.
// If it is open at their end and has time left, it may end as in a market without drift.
func (r Reach) follow(d signal.Direction, bars []marketdata.Bar, atr float64, byTicks bool) ending {
	l := r.levels(d, bars[0].Close, atr)
	low, high := min(l.Stop, l.Target), max(l.Stop, l.Target)
	for i := 1; i < len(bars); i++ {
		b := &bars[i]
		if b.Low > low && b.High < high {
			continue
		}
		if byTicks && b.Low <= low && b.High >= high && low < b.Open && b.Open < high {
			first := (b.Open - l.Stop) / (l.Target - l.Stop)
			return ending{first, first * r.Target / r.Stop, 1 - first}
		}
		e, _ := ExitOnBar(d, l, *b)
		return endingAt(R(d, l, e.Price))
	}
	price := bars[len(bars)-1].Close
	if left := r.Bars - float64(len(bars)-1); left > 0 {
		return r.from(l, left, price)
	}
	return endingAt(R(d, l, price))
}
