package market

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// sound returns the bars that are closed, possible and in order; what is not is
// counted.
func (k *keeper) sound(bars []marketdata.Bar, frame int, now int64) []marketdata.Bar {
	kept := make([]marketdata.Bar, 0, len(bars))
	usual := usualPrice(bars)
	for i, b := range bars {
		if i == len(bars)-1 && b.CloseTime > now {
			break // the one that is open still
		}
		if r := soundBar(&b, frame, now); r != "" {
			k.metrics.skip(r)
			continue
		}
		if n := len(kept); n > 0 && b.OpenTime <= kept[n-1].OpenTime {
			if b.OpenTime == kept[n-1].OpenTime {
				kept[n-1] = b // the later copy
			} else {
				k.metrics.skip(skipOld)
			}
			continue
		}
		before := usual
		if n := len(kept); n > 0 {
			before = kept[n-1].Close
		}
		if frame < d1 && !near(b.Close, before) {
			k.metrics.skip(skipLevel)
			continue
		}
		kept = append(kept, b)
	}
	return kept
}

// usualPrice returns the median close of the first bars, so that one that is wrong does
// not have all others look wrong.
func usualPrice(bars []marketdata.Bar) float64 {
	var closes []float64
	for _, b := range bars[:min(len(bars), 21)] {
		if b.Close >= minPrice && b.Close <= maxPrice {
			closes = append(closes, b.Close)
		}
	}
	if len(closes) == 0 {
		return 0
	}
	slices.Sort(closes)
	return closes[len(closes)/2]
}

// soundBar returns why a bar cannot be true, or "".
func soundBar(b *marketdata.Bar, frame int, now int64) reason {
	for _, p := range [...]float64{b.Open, b.High, b.Low, b.Close} {
		if !(p >= minPrice && p <= maxPrice) { // NaN is neither
			return skipPrice
		}
	}
	switch {
	case !(b.Volume >= 0 && b.Volume <= maxVolume):
		return skipVolume
	case b.High < max(b.Open, b.Close) || b.Low > min(b.Open, b.Close):
		return skipRange
	case b.OpenTime < 0 || b.OpenTime > now || b.OpenTime%frameMS[frame] != 0 || b.CloseTime != b.OpenTime+frameMS[frame] || b.CloseTime > now+futureMS:
		return skipTime
	}
	return ""
}

// near says that two prices can be of the same thing, shortly after one another.
func near(a, b float64) bool { return a < levelFactor*b && b < levelFactor*a }

// soundTick returns why a trade cannot be true, or "".
func (k *keeper) soundTick(t *marketdata.Tick, now int64) reason {
	switch {
	case !(t.Price >= minPrice && t.Price <= maxPrice):
		return skipPrice
	case !(t.Volume >= 0 && t.Volume <= maxVolume):
		return skipVolume
	case t.Time < earliestTime || t.Time > now+futureMS:
		return skipTime
	case t.Time < k.ticked:
		return skipOld
	case k.level > 0 && !near(t.Price, k.level):
		k.faults++
		return skipLevel
	}
	k.faults = 0
	return ""
}
