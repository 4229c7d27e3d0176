package simulated

import (
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// assembler makes the bars of a simulated asset out of its path: each timeframe
// from the next finer one, the finest from the points of the path. While the path
// takes coarse steps there are no fine bars.
type assembler struct {
	grid   prices.Grid
	finest int
	part   [prices.Timeframes]marketdata.Bar // the open bar of each timeframe; CloseTime 0: none
}

// start sets from which timeframe on bars are made of the points to come. What
// finer bars have begun goes into the coarser ones.
func (a *assembler) start(finest int) {
	for frame := prices.M1; frame < finest; frame++ {
		if a.part[frame].CloseTime != 0 {
			a.join(frame+1, a.part[frame])
			a.part[frame] = marketdata.Bar{}
		}
	}
	a.finest = finest
}

// add works in a point of the path, which is later than the one before, and hands
// the bars that end by then to out.
func (a *assembler) add(ms int64, price, volume float64, out func(frame int, b marketdata.Bar)) {
	for frame := prices.M1; frame < prices.Timeframes; frame++ {
		b := a.part[frame]
		if b.CloseTime == 0 || b.CloseTime > ms {
			continue
		}
		a.part[frame] = marketdata.Bar{}
		if frame < prices.D1 {
			a.join(frame+1, b)
		}
		out(frame, b)
	}
	a.join(a.finest, marketdata.Bar{OpenTime: ms, Open: price, High: price, Low: price, Close: price, Volume: volume})
}

// join adds part to the open bar of a frame, or opens that with it.
func (a *assembler) join(frame int, part marketdata.Bar) {
	if a.part[frame].CloseTime != 0 {
		prices.Merge(&a.part[frame], &part)
		return
	}
	part.OpenTime, part.CloseTime = a.grid.Interval(frame, part.OpenTime)
	a.part[frame] = part
}
