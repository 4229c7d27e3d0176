package feeder

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// recentKept is the number of closed bars of each timeframe that a builder keeps: enough for the ATR
// of 1m bars, and to rebuild the coarser bars of the last two intervals when a finer one is replaced.
var recentKept = [prices.Timeframes]int{150, 60, 72, 8}

// builder builds the closed bars of an asset: 1m bars from ticks, coarser ones from the next finer
// ones. A bar that a source gives wins over a built one. A bar that is given again replaces its
// former copy and the bars built from that.
type builder struct {
	asset  string
	grid   prices.Grid
	minute marketdata.Bar // the open 1m bar; CloseTime is 0 without one
	recent [prices.Timeframes][]marketdata.AssetBar
	// due is when the interval closes in which finer bars wait to be combined, or 0.
	due [prices.Timeframes]int64
	// out receives each new or changed bar.
	out func(marketdata.AssetBar)
	// rebuild is the open time from which coarser bars must be built again from the records,
	// because their parts are not kept any more, or 0.
	rebuild int64
	// atr is the ATR(14) of 1m bars, or 0 if there are too few.
	atr float64
}

// restore makes b continue from the state of another builder: the open bar minute and the newest
// closed bars of each timeframe, ascending.
func (b *builder) restore(minute marketdata.Bar, recent [prices.Timeframes][]marketdata.AssetBar) {
	b.minute, b.recent, b.due = minute, recent, [prices.Timeframes]int64{}
	if n := len(recent[prices.M1]); n > 0 && recent[prices.M1][n-1].OpenTime >= minute.OpenTime {
		b.minute = marketdata.Bar{} // closed since
	}
	for frame := prices.M5; frame < prices.Timeframes; frame++ {
		from := int64(0)
		if n := len(recent[frame]); n > 0 {
			from = recent[frame][n-1].CloseTime
		}
		finer := recent[frame-1]
		i, _ := slices.BinarySearchFunc(finer, from, prices.ByOpenTime)
		if i < len(finer) {
			_, b.due[frame] = b.grid.Interval(frame, finer[i].OpenTime)
		}
	}
	b.measure()
}

// tick adds a trade, which must not be older than the one before. It returns false if the trade is
// in no bar, because its minute is closed already.
func (b *builder) tick(t marketdata.Tick) bool {
	b.advance(t.Time)
	from, to := b.grid.Interval(prices.M1, t.Time)
	if n := len(b.recent[prices.M1]); n > 0 && b.recent[prices.M1][n-1].OpenTime >= from {
		return b.recent[prices.M1][n-1].Given // a given bar includes it
	}
	point := marketdata.Bar{
		OpenTime: from, CloseTime: to, Open: t.Price, High: t.Price, Low: t.Price, Close: t.Price, Volume: t.Volume,
	}
	if b.minute.CloseTime == 0 {
		b.minute = point
	} else {
		prices.Merge(&b.minute, &point)
	}
	return true
}

func (b *builder) advance(now int64) {
	if b.minute.CloseTime != 0 && b.minute.CloseTime <= now {
		minute := b.minute
		b.minute = marketdata.Bar{}
		b.put(prices.M1, marketdata.AssetBar{Bar: minute})
	}
	for frame := prices.M5; frame < prices.Timeframes; frame++ {
		if b.due[frame] != 0 && b.due[frame] <= now {
			to := b.due[frame]
			b.due[frame] = 0
			b.assemble(frame, to-1)
		}
	}
}

// give adds a bar of a source, whose times have been checked.
func (b *builder) give(bar marketdata.AssetBar) {
	frame, _ := prices.FrameOf(bar.Timeframe)
	b.advance(bar.OpenTime)
	if frame == prices.M1 && b.minute.OpenTime == bar.OpenTime {
		b.minute = marketdata.Bar{}
	}
	b.put(frame, bar)
}

// put stores a closed bar of a frame, and builds or schedules the coarser one that includes it.
func (b *builder) put(frame int, bar marketdata.AssetBar) {
	bar.Asset, bar.Timeframe = b.asset, signal.Timeframes[frame]
	list := b.recent[frame]
	i, found := slices.BinarySearchFunc(list, bar.OpenTime, prices.ByOpenTime)
	if found && list[i] == bar {
		return
	}
	newest := i == len(list)
	switch {
	case found:
		list[i] = bar
	case newest || len(list)-i < recentKept[frame]:
		list = slices.Insert(list, i, bar)
	default:
		list = slices.Delete(list, 0, i) // the bars that are kept have no gaps
	}
	if len(list) >= 2*recentKept[frame] {
		list = slices.Delete(list, 0, len(list)-recentKept[frame])
	}
	b.recent[frame] = list
	b.out(bar)
	if frame == prices.M1 {
		b.measure()
	}
	if frame == prices.D1 {
		return
	}
	_, to := b.grid.Interval(frame+1, bar.OpenTime)
	switch {
	case newest:
		if b.due[frame+1] == 0 {
			b.due[frame+1] = to
		}
	case b.due[frame+1] == 0 || to < b.due[frame+1]:
		b.assemble(frame+1, bar.OpenTime) // the interval is over
	}
}

// assemble builds the bar of a frame around the time ms, unless a source gave it.
func (b *builder) assemble(frame int, ms int64) {
	from, to := b.grid.Interval(frame, ms)
	i, found := slices.BinarySearchFunc(b.recent[frame], from, prices.ByOpenTime)
	if found && b.recent[frame][i].Given {
		return
	}
	finer := b.recent[frame-1]
	if len(finer) > 0 && finer[0].OpenTime > from && len(finer) >= recentKept[frame-1] {
		// Older ones may not be kept any more.
		if b.rebuild == 0 || from < b.rebuild {
			b.rebuild = from
		}
		return
	}
	if bar, ok := prices.Combine(finer, from, to); ok {
		b.put(frame, bar)
	}
}

func (b *builder) measure() {
	bars := b.recent[prices.M1]
	bars = bars[max(0, len(bars)-100):]
	b.atr = prices.ATR(len(bars), func(i int) (high, low, close float64) {
		return bars[i].High, bars[i].Low, bars[i].Close
	})
}

// rebuilt returns the coarser bars that change because finer ones since from did. series holds the records
// of each timeframe, ascending. Bars that end after until are not closed yet. Bars of a source stay.
func rebuilt(g prices.Grid, series *[prices.Timeframes][]marketdata.AssetBar, from, until int64) []marketdata.AssetBar {
	var changed []marketdata.AssetBar
	for frame := prices.M5; frame < prices.Timeframes; frame++ {
		finer := series[frame-1]
		if len(finer) == 0 {
			continue
		}
		start, end := g.Interval(frame, max(from, finer[0].OpenTime))
		if start < finer[0].OpenTime && len(finer) >= prices.RecordKept {
			start, end = g.Interval(frame, end) // the record lacks its beginning
		}
		for ; end <= until && start <= finer[len(finer)-1].OpenTime; start, end = g.Interval(frame, end) {
			bar, ok := prices.Combine(finer, start, end)
			if !ok {
				continue
			}
			bar.Asset, bar.Timeframe = finer[0].Asset, signal.Timeframes[frame]
			i, found := slices.BinarySearchFunc(series[frame], start, prices.ByOpenTime)
			switch {
			case found && (series[frame][i].Given || series[frame][i] == bar):
				continue
			case found:
				series[frame][i] = bar
			default:
				series[frame] = slices.Insert(series[frame], i, bar)
			}
			changed = append(changed, bar)
		}
	}
	return changed
}
