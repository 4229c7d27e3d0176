package simulated

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Points of a path lie at multiples of a step in milliseconds of market time. The
// farther back, the coarser: of each timeframe the last 1,000 bars are made in
// full detail and the older ones belong to the next coarser timeframe alone. So
// all timeframes agree, and a start costs 90,000 points an asset, not 14 million.
const (
	minuteStep = 6_000     // 10 points a bar of 1m: the ticks
	fiveStep   = 25_000    // 12 a bar of 5m
	hourStep   = 150_000   // 24 a bar of 1h
	dayStep    = 1_800_000 // 48 a bar of 1d

	HistoryBars = 1000
	// longestGap is, in bars of 1d, how long a gap may be to be made up. After a
	// longer one history begins again, at the prices that were.
	longestGap = 4000
)

// plan is where the detail changes, in market time: bars of 1m are made from
// minutes on, bars of 5m from fives on, bars of 1h from hours on.
type plan struct{ days, hours, fives, minutes int64 }

// planFor returns the plan for a path that is to reach the market time now.
func planFor(now int64) plan {
	back := func(aligned, frame int) int64 {
		return now - now%prices.FrameMS[aligned] - HistoryBars*prices.FrameMS[frame]
	}
	return plan{days: back(prices.D1, prices.D1), hours: back(prices.H1, prices.H1), fives: back(prices.M5, prices.M5), minutes: back(prices.M5, prices.M1)}
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

// simulatedAsset is one path with what is made of it.
type simulatedAsset struct {
	k    *assets.Spec
	path *path
	bars assembler
	news *newswire
	last marketdata.Tick
	// weather returns the anomaly that moves the price from the market time since on; nil
	// for what it does not move.
	weather func(at time.Time) float64
	since   int64
}

// stepsAtOnce is after how many steps a path looks whether it is still wanted.
const stepsAtOnce = 1000

// yield is what came of a piece of a path.
type yield struct {
	bars  [prices.Timeframes][]marketdata.Bar
	ticks []marketdata.AssetTick
	news  []marketdata.NewsItem
}

// run moves the path from the market time from to the last point at or before to, or
// until ctx ends.
// Ticks are handed out if they are newer than the wall time since, one in thin.
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
