package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// deviationsPerATR is how many deviations of a bar's change make an ATR14, as measured on real
// prices.
const deviationsPerATR = 1.6

// Reach describes how far the levels of a signal lie from its entry and how long it lives, in units of
// its market. Built-in agents have few reaches, one for each timeframe and risk level; agents of an
// account choose theirs.
type Reach struct {
	Stop, Target float64 // distances from the entry in ATR14 of the timeframe at the entry, above 0
	Bars         float64 // bars of the timeframe until expiry, while the market is open; may be a fraction
}

// ReachOf returns the reach of levels, given ATR14 in price units and the number of bars until expiry.
func ReachOf(l signal.Levels, atr, bars float64) Reach {
	return Reach{Stop: math.Abs(l.Entry-l.Stop) / atr, Target: math.Abs(l.Target-l.Entry) / atr, Bars: bars}
}

// valid reports whether a signal can have the reach.
func (r Reach) valid() bool {
	return r.Stop > 0 && r.Target > 0 && r.Bars > 0 && finite(r.Stop+r.Target+r.Bars)
}

// levels returns the levels of an entry, not rounded.
func (r Reach) levels(d signal.Direction, entry, atr float64) signal.Levels {
	if d == signal.Short {
		atr = -atr
	}
	return signal.Levels{Entry: entry, Stop: entry - r.Stop*atr, Target: entry + r.Target*atr}
}

// lifetime returns the mean number of bars after which a Brownian motion without drift reaches the
// stop or the target.
func (r Reach) lifetime() float64 { return r.Stop * r.Target * deviationsPerATR * deviationsPerATR }

// Chance returns the probability of a profit on a market without drift, from which BaseAt starts. It
// serves where BaseAt has no bars to replay.
func (r Reach) Chance() float64 { return r.driftless().won }

// driftless returns the mean ending on a market without drift, which is that of all prices and ranges.
func (r Reach) driftless() ending { return r.from(r.levels(signal.Long, 0, 1), r.Bars, 0) }

// Rescore returns the confidence of an open signal at the current price: its first
// confidence, moved as far as the price and the time have moved the chances of a market
// without drift. left is the share of its life, while the market is open, that is left.
func Rescore(first float64, l signal.Levels, tf signal.Timeframe, risk signal.RiskLevel, left, price float64) float64 {
	return Reach{Stop: StopMultiple(risk), Bars: float64(Horizon(tf, risk))}.Rescore(first, l, left, price)
}

// RescoreAt is Rescore for a signal, of any reach. first is what its first confidence would be by now.
func RescoreAt(s *signal.Signal, first, left, price float64) float64 {
	if r := s.Reach; r != nil {
		return Reach{Stop: r.Stop, Bars: r.Bars}.Rescore(first, *s.Levels, left, price)
	}
	return Rescore(first, *s.Levels, s.Timeframe, s.Risk, left, price)
}

// Rescore is the function of the same name for a signal of any reach, whose Target it does not need.
func (r Reach) Rescore(first float64, l signal.Levels, left, price float64) float64 {
	then, now := r.profitChance(l, r.Bars, l.Entry), r.profitChance(l, left*r.Bars, price)
	x := logit(now) + logit(clip(first, minConfidence, maxConfidence)) - logit(then)
	return round(clip(logistic(x), minConfidence, maxConfidence), 4)
}

// profitChance returns the probability that a Brownian motion without drift from price,
// absorbed at stop and target, ends in profit within the given number of bars: at the
// target, or on its side of the entry when the time is over. It is kept within 0.02 of 0
// and 1.
func (r Reach) profitChance(l signal.Levels, bars, price float64) float64 {
	return clip(r.from(l, bars, price).won, 0.02, 0.98)
}

// ending is how an entry ended, or the mean of how it may end.
type ending struct {
	won        float64 // whether it closed in profit, or the probability
	gain, loss float64 // the profit and the loss in R, neither below 0; one is 0 unless they are means
}

// endingAt returns the ending of an entry with a known result in R.
func endingAt(r float64) ending {
	if r > 0 {
		return ending{won: 1, gain: r}
	}
	return ending{loss: min(-r, maxR)}
}

// from returns the mean ending of a Brownian motion without drift from price, which is absorbed at
// stop and target, within the given number of bars.
//
// The solution of the heat equation is a series of sines. Shortly before the end, when that converges
// slowly, it is the solution for a stop alone, by reflection: the target does not matter, since a
// path that touches it cannot return to the entry in time. The profit solves the same equation from
// other values at the end.
func (r Reach) from(l signal.Levels, bars, price float64) ending {
	// Places are in units of the distance from stop to target. All differences change
	// sign for short.
	width := l.Target - l.Stop
	at, entry := clip((price-l.Stop)/width, 0, 1), (l.Entry-l.Stop)/width
	deviation := entry / r.Stop / deviationsPerATR // of a bar
	variance := deviation * deviation * max(0, bars)
	chance, profit := at, (1-entry)*at
	if variance < 1e-3 {
		d := math.Sqrt(max(variance, 1e-12))
		chance = normal((entry+at)/d) - normal((entry-at)/d)
		profit = d * (upside((at-entry)/d) - upside((-at-entry)/d))
	} else {
		for n := 1.0; ; n++ {
			decay := math.Exp(-0.5 * n * n * math.Pi * math.Pi * variance)
			if decay < 1e-9 {
				break
			}
			sin, cos := math.Sincos(n * math.Pi * entry)
			part := 2 / (n * math.Pi) * math.Sin(n*math.Pi*at) * decay
			chance += part * cos
			profit -= part * sin / (n * math.Pi)
		}
	}
	gain := max(0, profit/entry)
	return ending{clip(chance, 0, 1), gain, max(0, gain-(at-entry)/entry)}
}

// normal returns the probability that a standard normal variable is below z.
func normal(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }

// upside returns the mean of the part above 0 of a normal variable with mean z and deviation 1.
func upside(z float64) float64 {
	return z*normal(z) + math.Exp(-0.5*z*z)/math.Sqrt(2*math.Pi)
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
