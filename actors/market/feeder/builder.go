package feeder

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// recentKept is how many closed bars of each timeframe a builder remembers: enough
// for the ATR of 1m bars, and for the coarser bars of the last two intervals to be
// built again when a finer one is replaced.
var recentKept = [prices.Timeframes]int{150, 60, 72, 8}

// builder makes an asset's closed bars out of its ticks and of the bars that a
// source gives: 1m bars from ticks where none are given, coarser ones from the
// next finer ones. A given bar wins over one built; a bar given again replaces the
// former copy, and what was built from that.
type builder struct {
	asset  string
	grid   prices.Grid
	minute marketdata.Bar // the 1m bar that is open; CloseTime 0 if there is none
	recent [prices.Timeframes][]marketdata.AssetBar
	// due is when the interval closes in which finer bars wait to be put together; 0
	// if none do.
	due [prices.Timeframes]int64
	// out receives each bar that is new or different.
	out func(marketdata.AssetBar)
	// rebuild is the open time from which on coarser bars must be built again from
	// the records, because what they consist of is not remembered; 0 if none must.
	rebuild int64
	// atr is the ATR(14) of 1m bars; 0 if there are too few.
	atr float64
}

// restore makes b go on where another builder stood: minute is the bar that was
// open, recent are the newest closed bars of each timeframe, ascending.
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

// tick works in a trade, which must not be older than the one before. It returns
// false if its minute is closed already: the trade is not in any bar.
func (b *builder) tick(t marketdata.Tick) bool {
	b.advance(t.Time)
	from, to := b.grid.Interval(prices.M1, t.Time)
	if n := len(b.recent[prices.M1]); n > 0 && b.recent[prices.M1][n-1].OpenTime >= from {
		return b.recent[prices.M1][n-1].Given // a given bar has it
	}
	point := marketdata.Bar{OpenTime: from, CloseTime: to, Open: t.Price, High: t.Price, Low: t.Price, Close: t.Price, Volume: t.Volume}
	if b.minute.CloseTime == 0 {
		b.minute = point
	} else {
		prices.Merge(&b.minute, &point)
	}
	return true
}

// advance closes what ends at or before now.
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

// give works in a bar that a source gave. Its times have been checked.
func (b *builder) give(bar marketdata.AssetBar) {
	frame, _ := prices.FrameOf(bar.Timeframe)
	b.advance(bar.OpenTime)
	if frame == prices.M1 && b.minute.OpenTime == bar.OpenTime {
		b.minute = marketdata.Bar{}
	}
	b.put(frame, bar)
}

// put stores a closed bar of a frame and sees to the coarser one it is part of.
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
		list = slices.Delete(list, 0, i) // what is remembered has no holes
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
		b.assemble(frame+1, bar.OpenTime) // its interval is over
	}
}

// assemble builds the bar of a frame around the time ms, unless that is given.
func (b *builder) assemble(frame int, ms int64) {
	from, to := b.grid.Interval(frame, ms)
	if i, found := slices.BinarySearchFunc(b.recent[frame], from, prices.ByOpenTime); found && b.recent[frame][i].Given {
		return
	}
	finer := b.recent[frame-1]
	if len(finer) > 0 && finer[0].OpenTime > from && len(finer) >= recentKept[frame-1] {
		// Older ones may have been forgotten.
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
	b.atr = prices.ATR(len(bars), func(i int) (float64, float64, float64) { return bars[i].High, bars[i].Low, bars[i].Close })
}

// rebuilt returns the coarser bars that must be written when finer ones from the
// time from on have changed: series are the records of each timeframe, ascending.
// Bars that end after until are not closed yet; given ones stay.
func rebuilt(g prices.Grid, series *[prices.Timeframes][]marketdata.AssetBar, from, until int64) []marketdata.AssetBar {
	var changed []marketdata.AssetBar
	for frame := prices.M5; frame < prices.Timeframes; frame++ {
		finer := series[frame-1]
		if len(finer) == 0 {
			continue
		}
		start, end := g.Interval(frame, max(from, finer[0].OpenTime))
		if start < finer[0].OpenTime && len(finer) >= prices.RecordKept {
			start, end = g.Interval(frame, end) // the beginning was dropped from the record
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
