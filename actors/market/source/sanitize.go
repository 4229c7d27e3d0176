package source

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// sanitize returns the bars that are closed, plausible and in order, and counts the others.
func (k *AssetFeed) sanitize(bars []marketdata.Bar, frame int, now int64) []marketdata.Bar {
	kept := make([]marketdata.Bar, 0, len(bars))
	usual := usualPrice(bars)
	for i, b := range bars {
		if i == len(bars)-1 && b.CloseTime > now {
			break // still open
		}
		if r := checkBar(&b, frame, now); r != "" {
			k.o.Metrics.Skip(r)
			continue
		}
		if n := len(kept); n > 0 && b.OpenTime <= kept[n-1].OpenTime {
			if b.OpenTime == kept[n-1].OpenTime {
				kept[n-1] = b // the later copy
			} else {
				k.o.Metrics.Skip(prices.SkipOld)
			}
			continue
		}
		before := usual
		if n := len(kept); n > 0 {
			before = kept[n-1].Close
		}
		if frame < prices.D1 && !prices.Near(b.Close, before) {
			k.o.Metrics.Skip(prices.SkipLevel)
			continue
		}
		kept = append(kept, b)
	}
	return kept
}

// usualPrice returns the median close of the first bars, so that a single bad one does not
// discredit all others.
func usualPrice(bars []marketdata.Bar) float64 {
	var closes []float64
	for _, b := range bars[:min(len(bars), 21)] {
		if validPrice(b.Close) {
			closes = append(closes, b.Close)
		}
	}
	if len(closes) == 0 {
		return 0
	}
	slices.Sort(closes)
	return closes[len(closes)/2]
}

// checkBar returns why a bar cannot be true, or an empty reason.
func checkBar(b *marketdata.Bar, frame int, now int64) prices.Reason {
	step := prices.FrameMS[frame]
	if skipped := checkBarPrices(b); skipped != "" {
		return skipped
	}
	switch {
	case b.OpenTime < 0 || b.OpenTime > now || b.OpenTime%step != 0,
		b.CloseTime != b.OpenTime+step || b.CloseTime > now+futureMS:
		return prices.SkipTime
	}
	return ""
}

// checkTick returns why a trade cannot be true, or an empty reason.
func (k *AssetFeed) checkTick(t *marketdata.Tick, now int64) prices.Reason {
	if skipped := checkTick(t, now); skipped != "" {
		return skipped
	}
	switch {
	case t.Time < k.ticked:
		return prices.SkipOld
	case k.level > 0 && !prices.Near(t.Price, k.level):
		k.faults++
		return prices.SkipLevel
	}
	k.faults = 0
	return ""
}
