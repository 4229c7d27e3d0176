package simulated

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Points of a path lie at multiples of a step in milliseconds of market time. Steps grow towards the past:
// the last 1,000 bars of each timeframe have full detail, and older ones exist only in the next coarser
// timeframe. All timeframes agree, and a start takes 90,000 points an asset instead of 14 million.
const (
	minuteStep = 6_000     // 10 points a bar of 1m: the ticks
	fiveStep   = 25_000    // 12 a bar of 5m
	hourStep   = 150_000   // 24 a bar of 1h
	dayStep    = 1_800_000 // 48 a bar of 1d

	HistoryBars = 1000
	// maxGap is the longest gap, in bars of 1d, that is filled. After a longer one history begins
	// again from the last prices.
	maxGap = 4000
)

// plan holds the market times from which the timeframes are built.
type plan struct{ days, hours, fives, minutes int64 }

// planFor returns the plan of a path that is to reach the market time now.
func planFor(now int64) plan {
	back := func(aligned, frame int) int64 {
		return now - now%prices.FrameMS[aligned] - HistoryBars*prices.FrameMS[frame]
	}
	return plan{
		days: back(prices.D1, prices.D1), hours: back(prices.H1, prices.H1),
		fives: back(prices.M5, prices.M5), minutes: back(prices.M5, prices.M1),
	}
}

// at returns the step and the finest timeframe at a market time.
func (p plan) at(t int64) (step int64, finest int) {
	switch {
	case t < p.hours:
		step, finest = dayStep, prices.D1
	case t < p.fives:
		step, finest = hourStep, prices.H1
	case t < p.minutes:
		step, finest = fiveStep, prices.M5
	default:
		return minuteStep, prices.M1
	}
	if t%step != 0 {
		step = minuteStep // up to the next coarse point
	}
	return step, finest
}

// simulatedAsset is one path with its bars and news.
type simulatedAsset struct {
	k    *assets.Spec
	path *path
	bars assembler
	news *newswire
	last marketdata.Tick
	// weather returns the anomaly that moves the price from the market time since on. It is nil for
	// assets that the weather does not move.
	weather func(at time.Time) float64
	since   int64
}

// stepsAtOnce is the number of steps between two checks of the context.
const stepsAtOnce = 1000

// yield is the output of a piece of a path.
type yield struct {
	bars  [prices.Timeframes][]marketdata.Bar
	ticks []marketdata.AssetTick
	news  []marketdata.NewsItem
}

// run moves the path from the market time from to the last point at or before to, or until ctx
// ends. It yields one in thin ticks that are newer than the wall time since.
func (a *simulatedAsset) run(ctx context.Context, from, to int64, p plan, since, thin int64) yield {
	var y yield
	g := a.bars.grid
	keep := func(frame int, b marketdata.Bar) { y.bars[frame] = append(y.bars[frame], b) }
	for t, n := from, 0; ; n++ {
		step, _ := p.at(t)
		if t += step; t > to || n%stepsAtOnce == 0 && ctx.Err() != nil {
			return y
		}
		if a.weather != nil && t > a.since {
			a.path.weather = a.weather(time.UnixMilli(g.Wall(t)))
		}
		price, volume := a.path.step(float64(step) / marketMSPerHour)
		if _, finest := p.at(t); finest != a.bars.finest {
			a.bars.start(finest)
		}
		a.last = marketdata.Tick{Price: price, Volume: volume, Time: g.Wall(t)}
		a.bars.add(a.last.Time, price, volume, keep)
		y.news = append(y.news, a.news.until(t, a.path.regime, g)...)
		if a.last.Time > since && t/minuteStep%thin == 0 {
			y.ticks = append(y.ticks, marketdata.AssetTick{Asset: a.k.Symbol, Source: Name, Tick: a.last})
		}
	}
}
