package strategy

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// rewardToRisk is the ratio of the target's distance to that of the stop.
const rewardToRisk = 1.5

// The minimum distance of a stop. Nearer ones would be hit by noise.
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

// Horizon returns the number of bars after which a signal expires; 0 for an unknown
// timeframe.
func Horizon(tf signal.Timeframe, risk signal.RiskLevel) int {
	high := risk == signal.HighRisk
	switch {
	case tf == signal.M1:
		return 60
	case tf == signal.M5:
		return 48
	case tf == signal.M15:
		return 32
	case tf == signal.H1 && high:
		return 48
	case tf == signal.H1:
		return 24
	case tf == signal.H4 && high:
		return 36
	case tf == signal.H4:
		return 18
	case tf == signal.D1 && high:
		return 20
	case tf == signal.D1:
		return 10
	}
	return 0
}

// Lifetime returns how long a signal lives by the clock while its market is open. speed
// is how many times as fast as the clock market time runs; values up to 1 mean real time.
func Lifetime(tf signal.Timeframe, risk signal.RiskLevel, speed float64) time.Duration {
	d := time.Duration(Horizon(tf, risk)) * tf.Duration()
	if speed > 1 {
		d = time.Duration(float64(d) / speed)
	}
	return d
}

// TickSize returns the tick size for an asset whose source has none: 8 significant digits
// of the price, at least 10^-8.
func TickSize(price float64) float64 {
	return max(math.Pow10(int(math.Floor(math.Log10(price)))-7), minTick)
}

// distances returns the unrounded distances of stop and target from entry: multiples of
// the ATR. Both are widened by one factor if the stop were too near, or narrowed if the
// lower of the two prices were not above zero.
func distances(d signal.Direction, entry, atr, multiple, tick float64) (stop, target float64) {
	stop = max(multiple*atr, minStopTicks*tick, minStopShare*entry)
	below := stop
	if d == signal.Short {
		below *= rewardToRisk
	}
	if room := entry - tick; below > room {
		stop *= room / below
	}
	return stop, rewardToRisk * stop
}

// priceLevels returns the levels around entry, rounded to tick, which is at most
// 0 if the source has none. It fails where entry or atr are not possible, and
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
	// Count in ticks. The subtraction keeps a rounding error from turning 5 ticks into 6.
	at := math.Round(entry / tick)
	minTicks := math.Ceil(max(minStopTicks, minStopShare*entry/tick) - 1e-6)
	down := max(math.Round(stop/tick), minTicks)
	up := max(math.Round(target/tick), math.Round(rewardToRisk*minTicks))
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

// RoundToTick returns a price rounded to the nearest multiple of tick, which is above 0.
func RoundToTick(price, tick float64) float64 {
	tick = max(tick, minTick)
	return toTick(math.Round(price/tick), tick)
}

// toTick returns n ticks as the float64 nearest to the exact decimal: 3 ticks of 0.1 are
// 0.3, not 0.30000000000000004.
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

// Ordered reports whether stop, entry and target are in the order that d demands.
func Ordered(d signal.Direction, l signal.Levels) bool {
	if d == signal.Short {
		return l.Stop > l.Entry && l.Entry > l.Target
	}
	return l.Stop < l.Entry && l.Entry < l.Target
}

// Limits on the age of prices, in milliseconds by the clock. speed is how many times as
// fast as the clock market time runs.

// MinAge is the lower bound of every limit: in compressed time ticks arrive every 100 ms
// at most, and a change of the feeder takes some seconds.
const MinAge = 10_000

// BarAge returns the maximum age of the newest bar: two bars and 30 s. length is that of
// the timeframe in market time.
func BarAge(length, speed int64) int64 { return max((2*length+30_000)/speed, MinAge) }

// GracePeriod returns how long an expired signal waits for a price of an asset without
// prices: three bars. bar is the length of one by the clock.
func GracePeriod(bar int64) int64 { return max(3*bar, MinAge) }
