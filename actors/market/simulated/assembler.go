package simulated

import (
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// assembler builds the bars of a simulated asset: those of the finest timeframe from the points of its
// path, and the others from the next finer ones. While the path takes coarse steps there are no fine bars.
type assembler struct {
	grid   prices.Grid
	finest int
	part   [prices.Timeframes]marketdata.Bar // the open bar of each timeframe; CloseTime is 0 without one
}

// start sets the finest timeframe that is built from now on. Finer bars that are open go into the
// coarser ones.
func (a *assembler) start(finest int) {
	for frame := prices.M1; frame < finest; frame++ {
		if a.part[frame].CloseTime != 0 {
			a.join(frame+1, a.part[frame])
			a.part[frame] = marketdata.Bar{}
		}
	}
	a.finest = finest
}

// add adds a point of the path, which must be later than the one before, and passes the bars that
// end by then to out.
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

// join adds part to the open bar of a frame, or opens one with it.
func (a *assembler) join(frame int, part marketdata.Bar) {
	if a.part[frame].CloseTime != 0 {
		prices.Merge(&a.part[frame], &part)
		return
	}
	part.OpenTime, part.CloseTime = a.grid.Interval(frame, part.OpenTime)
	a.part[frame] = part
}
