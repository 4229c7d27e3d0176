package simulated

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Walk returns n bars of a timeframe of an asset of the simulated market, as the seed
// has it: those of the market itself but for the density of the path, of which there
// are 24 points a bar. The bars begin at 2020-01-01 UTC. It returns nil for an asset
// that the simulated market does not have, and for an unknown timeframe.
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

// walkPoints is how many points of a path are in a bar of Walk.
const walkPoints = 24
