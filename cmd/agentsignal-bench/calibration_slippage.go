package main

import (
	"context"
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	slippageSpeed = 60                // of the simulated market, as by default
	slippageBegin = 1_795_253_417_345 // wall time in milliseconds
	slippageTime  = 90 * 60_000       // wall time for which ticks are followed
	slippageStep  = 60_000            // less than simulated.TickWindow
)

// watched is an entry that waits for the tick that closes it.
type watched struct {
	direction signal.Direction
	levels    signal.Levels
}

// slippageMeter enters both directions of all assets at the close of each bar of a timeframe, at medium
// risk, and follows the ticks until one reaches the stop or the target.
type slippageMeter struct {
	timeframe signal.Timeframe
	bars      map[string][]marketdata.Bar
	last      map[string]float64
	open      map[string][]watched
	paid      []float64 // how far beyond the stop entries were closed, in R
}

// measureSlippage returns how far beyond the stop the trades of the simulated market close
// entries of a timeframe, in R and ascending.
func measureSlippage(ctx context.Context, tf signal.Timeframe) []float64 {
	var specs []*assets.Spec
	for _, symbol := range calibrationAssets {
		specs = append(specs, assets.Find(symbol))
	}
	market := simulated.New(slippageSpeed, calibrationSeed, specs)
	m := &slippageMeter{
		timeframe: tf,
		bars:      make(map[string][]marketdata.Bar),
		last:      make(map[string]float64),
		open:      make(map[string][]watched),
	}
	for _, f := range market.Open(ctx, nil, 0, slippageBegin).Fill {
		for i := range f.Bars {
			m.close(f.Asset, f.Timeframe, f.Bars[i].Bar)
		}
	}
	for now := slippageBegin; now < slippageBegin+slippageTime && ctx.Err() == nil; now += slippageStep {
		m.take(market.Advance(int64(now + slippageStep)))
	}
	slices.Sort(m.paid)
	return m.paid
}

// take follows ticks and enters at the closes between them, in the order of their times.
func (m *slippageMeter) take(o simulated.Output) {
	closed := o.Closed
	for i := range o.Ticks {
		t := &o.Ticks[i]
		for len(closed) > 0 && closed[0].CloseTime <= t.Time {
			m.close(closed[0].Asset, closed[0].Timeframe, closed[0].Bar)
			closed = closed[1:]
		}
		m.tick(t.Asset, t.Price)
	}
	for _, b := range closed {
		m.close(b.Asset, b.Timeframe, b.Bar)
	}
}

// close keeps a closed bar and enters at the last tick.
func (m *slippageMeter) close(asset string, tf signal.Timeframe, b marketdata.Bar) {
	if tf != m.timeframe {
		return
	}
	m.bars[asset] = append(m.bars[asset], b)
	entry, ok := m.last[asset]
	if !ok {
		return
	}
	risk := strategy.StopMultiple(signal.MediumRisk) * prices.ATROfBars(m.bars[asset])
	const rewardToRisk = 1.5
	m.open[asset] = append(m.open[asset],
		watched{signal.Long, signal.Levels{Entry: entry, Stop: entry - risk, Target: entry + rewardToRisk*risk}},
		watched{signal.Short, signal.Levels{Entry: entry, Stop: entry + risk, Target: entry - rewardToRisk*risk}})
}

// tick closes the entries whose stop or target a price has reached.
func (m *slippageMeter) tick(asset string, price float64) {
	m.last[asset] = price
	m.open[asset] = slices.DeleteFunc(m.open[asset], func(w watched) bool {
		r := strategy.R(w.direction, w.levels, price)
		if r <= -1 {
			m.paid = append(m.paid, -1-r)
		}
		return r <= -1 || r >= strategy.R(w.direction, w.levels, w.levels.Target)
	})
}
