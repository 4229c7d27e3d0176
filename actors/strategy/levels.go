package strategy

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// RewardToRisk is the distance of the target over that of the stop.
const RewardToRisk = 1.5

// BreakEven is the share of signals that must reach the target, the others their
// stop, for a result of 0.
const BreakEven = 1 / (1 + RewardToRisk)

// The least distance of a stop. Nearer ones are hit by noise.
const (
	minStopTicks = 5
	minStopShare = 0.0005 // of the entry
)

// minTick is the finest tick: prices are sent with at most 8 decimals.
const minTick = 1e-8

// StopMultiple returns the distance of the stop in ATR; 0 for an unknown risk.
func StopMultiple(risk signal.RiskLevel) float64 {
	switch risk {
	case signal.LowRisk:
		return 1
	case signal.MediumRisk:
		return 1.5
	case signal.HighRisk:
		return 2.5
	}
	return 0
}

// Horizon returns after how many bars a signal expires; 0 for an unknown
// timeframe.
func Horizon(tf signal.Timeframe, risk signal.RiskLevel) int {
	high := risk == signal.HighRisk
	switch {
	case tf == signal.M1:
		return 60
	case tf == signal.M5:
		return 48
	case tf == signal.H1 && high:
		return 48
	case tf == signal.H1:
		return 24
	case tf == signal.D1 && high:
		return 20
	case tf == signal.D1:
		return 10
	}
	return 0
}

// Lifetime returns how long a signal lives on the wall clock while its market is
// open. speed says how many times faster than real time the market runs; 1 and
// less mean real time.
func Lifetime(tf signal.Timeframe, risk signal.RiskLevel, speed float64) time.Duration {
	d := time.Duration(Horizon(tf, risk)) * tf.Duration()
	if speed > 1 {
		d = time.Duration(float64(d) / speed)
	}
	return d
}

// TickSize returns the tick of an asset whose source gives none: 8 significant
// digits of the price, at least 10^-8.
func TickSize(price float64) float64 {
	return max(math.Pow10(int(math.Floor(math.Log10(price)))-7), minTick)
}

// distances returns how far stop and target lie from entry before rounding: ATR
// multiples, both wider by one factor where the stop were too near, both narrower
// where the lower of the two prices would not be above zero.
func distances(d signal.Direction, entry, atr, multiple, tick float64) (stop, target float64) {
	stop = max(multiple*atr, minStopTicks*tick, minStopShare*entry)
	below := stop
	if d == signal.Short {
		below *= RewardToRisk
	}
	if room := entry - tick; below > room {
		stop *= room / below
	}
	return stop, RewardToRisk * stop
}

// priceLevels returns the levels around entry, rounded to tick, which is at most
// 0 where the source gives none. It fails where entry or atr are not possible, and
// where a price has too few ticks to hold levels.
func priceLevels(d signal.Direction, entry, atr, multiple, tick float64) (signal.Levels, error) {
	if err := checkPrice(entry); err != nil || !(atr > 0) || !finite(atr) || !(multiple > 0) || !finite(multiple) {
		return signal.Levels{}, unavailable("the market has no price to build levels on")
	}
	if !(tick > 0) || !finite(tick) || entry/tick > 1e15 {
		tick = TickSize(entry)
	}
	tick = max(tick, minTick)
	stop, target := distances(d, entry, atr, multiple, tick)
	// Count in ticks; a hair is taken off so that 5 ticks are not rounded up to 6.
	at := math.Round(entry / tick)
	least := math.Ceil(max(minStopTicks, minStopShare*entry/tick) - 1e-6)
	down := max(math.Round(stop/tick), least)
	up := max(math.Round(target/tick), math.Round(RewardToRisk*least))
	if d == signal.Short {
		down, up = -down, -up
	}
	l := signal.Levels{
		Entry:  toTick(at, tick),
		Stop:   toTick(at-down, tick),
		Target: toTick(at+up, tick),
	}
	if min(l.Stop, l.Target) <= 0 || !Ordered(d, l) {
		return signal.Levels{}, &signal.RunError{Code: signal.DataUnavailable,
			Message: "the price is too small for its tick size to hold price levels"}
	}
	return l, nil
}

// toTick returns n ticks as the float64 nearest to the decimal number that is
// meant: 3 ticks of 0.1 are 0.3, not 0.30000000000000004.
func toTick(n, tick float64) float64 {
	scale := 1.0
	for range 9 {
		if whole := math.Round(tick * scale); whole > 0 && math.Abs(tick*scale-whole) < 1e-9*whole {
			return n * whole / scale
		}
		scale *= 10
	}
	return round(n*tick, 8)
}

// Ordered says that stop, entry and target lie in the order that d demands.
func Ordered(d signal.Direction, l signal.Levels) bool {
	if d == signal.Short {
		return l.Stop > l.Entry && l.Entry > l.Target
	}
	return l.Stop < l.Entry && l.Entry < l.Target
}
