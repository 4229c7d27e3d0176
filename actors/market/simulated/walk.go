package simulated

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Walk returns n bars of a timeframe of a simulated asset for a seed, from 2020-01-01 UTC on. They
// follow the process of the simulated market with walkPoints points a bar. Walk returns nil for an
// unknown asset or timeframe.
func Walk(seed uint64, asset string, tf signal.Timeframe, n int) []marketdata.Bar {
	k := assets.Find(asset)
	frame, ok := prices.FrameOf(tf)
	if k == nil || !ok {
		return nil
	}
	const begin = 1_577_836_800_000
	p := newPath(seed, k)
	step := prices.FrameMS[frame] / walkPoints
	bars := make([]marketdata.Bar, 0, n)
	last := roundTo(math.Exp(p.price), p.tick)
	for i := range n {
		open := begin + int64(i)*prices.FrameMS[frame]
		b := marketdata.Bar{OpenTime: open, CloseTime: open + prices.FrameMS[frame], Open: last, High: last, Low: last}
		for range walkPoints {
			price, volume := p.step(float64(step) / marketMSPerHour)
			b.High, b.Low, b.Close = max(b.High, price), min(b.Low, price), price
			b.Volume += volume
		}
		last = b.Close
		bars = append(bars, b)
	}
	return bars
}

// walkPoints is the number of points in a bar of Walk.
const walkPoints = 24
