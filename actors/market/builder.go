package market

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// recentKept is how many closed bars of each timeframe a builder remembers: enough
// for the ATR of 1m bars, and for the coarser bars of the last two intervals to be
// built anew when a finer one is replaced.
var recentKept = [timeframes]int{150, 60, 72, 8}

// recordKept is how many bars a record holds.
const recordKept = 1500

// builder makes an asset's closed bars out of its ticks and of the bars that a
// source gives: 1m bars from ticks where none are given, coarser ones from the
// next finer ones. A given bar wins over one built; a bar given again replaces the
// former copy, and what was built from that.
type builder struct {
	asset  string
	grid   grid
	minute marketdata.Bar // the 1m bar that is open; CloseTime 0 if there is none
	recent [timeframes][]marketdata.AssetBar
	// due is when the interval closes in which finer bars wait to be put together; 0
	// if none do.
	due [timeframes]int64
	// out receives each bar that is new or different.
	out func(marketdata.AssetBar)
	// rebuild is the open time from which on coarser bars must be built anew from
	// the records, because what they consist of is not remembered; 0 if none must.
	rebuild int64
	// atr is the ATR(14) of 1m bars; 0 if there are too few.
	atr float64
}

// restore makes b go on where another builder stood: minute is the bar that was
// open, recent are the newest closed bars of each timeframe, ascending.
func (b *builder) restore(minute marketdata.Bar, recent [timeframes][]marketdata.AssetBar) {
	b.minute, b.recent, b.due = minute, recent, [timeframes]int64{}
	if n := len(recent[m1]); n > 0 && recent[m1][n-1].OpenTime >= minute.OpenTime {
		b.minute = marketdata.Bar{} // closed since
	}
	for frame := m5; frame < timeframes; frame++ {
		from := int64(0)
		if n := len(recent[frame]); n > 0 {
			from = recent[frame][n-1].CloseTime
		}
		finer := recent[frame-1]
		i, _ := slices.BinarySearchFunc(finer, from, byOpenTime)
		if i < len(finer) {
			_, b.due[frame] = b.grid.interval(frame, finer[i].OpenTime)
		}
	}
	b.measure()
}

// tick works in a trade, which must not be older than the one before. It returns
// false if its minute is closed already: the trade is not in any bar.
func (b *builder) tick(t marketdata.Tick) bool {
	b.advance(t.Time)
	from, to := b.grid.interval(m1, t.Time)
	if n := len(b.recent[m1]); n > 0 && b.recent[m1][n-1].OpenTime >= from {
		return b.recent[m1][n-1].Given // a given bar has it
	}
	point := marketdata.Bar{OpenTime: from, CloseTime: to, Open: t.Price, High: t.Price, Low: t.Price, Close: t.Price, Volume: t.Volume}
	if b.minute.CloseTime == 0 {
		b.minute = point
	} else {
		merge(&b.minute, &point)
	}
	return true
}

// advance closes what ends at or before now.
func (b *builder) advance(now int64) {
	if b.minute.CloseTime != 0 && b.minute.CloseTime <= now {
		minute := b.minute
		b.minute = marketdata.Bar{}
		b.put(m1, marketdata.AssetBar{Bar: minute})
	}
	for frame := m5; frame < timeframes; frame++ {
		if b.due[frame] != 0 && b.due[frame] <= now {
			to := b.due[frame]
			b.due[frame] = 0
			b.assemble(frame, to-1)
		}
	}
}

// give works in a bar that a source gave. Its times have been checked.
func (b *builder) give(bar marketdata.AssetBar) {
	frame, _ := frameOf(bar.Timeframe)
	b.advance(bar.OpenTime)
	if frame == m1 && b.minute.OpenTime == bar.OpenTime {
		b.minute = marketdata.Bar{}
	}
	b.put(frame, bar)
}

// put stores a closed bar of a frame and sees to the coarser one it is part of.
func (b *builder) put(frame int, bar marketdata.AssetBar) {
	bar.Asset, bar.Timeframe = b.asset, signal.Timeframes[frame]
	list := b.recent[frame]
	i, found := slices.BinarySearchFunc(list, bar.OpenTime, byOpenTime)
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
	if frame == m1 {
		b.measure()
	}
	if frame == d1 {
		return
	}
	_, to := b.grid.interval(frame+1, bar.OpenTime)
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
	from, to := b.grid.interval(frame, ms)
	if i, found := slices.BinarySearchFunc(b.recent[frame], from, byOpenTime); found && b.recent[frame][i].Given {
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
	if bar, ok := combine(finer, from, to); ok {
		b.put(frame, bar)
	}
}

func (b *builder) measure() {
	bars := b.recent[m1]
	bars = bars[max(0, len(bars)-100):]
	b.atr = atr14(len(bars), func(i int) (float64, float64, float64) { return bars[i].High, bars[i].Low, bars[i].Close })
}

// combine puts together the bars, ascending, that open in [from, to). It returns
// false if there are none.
func combine(bars []marketdata.AssetBar, from, to int64) (marketdata.AssetBar, bool) {
	i, _ := slices.BinarySearchFunc(bars, from, byOpenTime)
	var whole marketdata.AssetBar
	for ; i < len(bars) && bars[i].OpenTime < to; i++ {
		if whole.CloseTime == 0 {
			whole.Bar = bars[i].Bar
			whole.OpenTime, whole.CloseTime = from, to
		} else {
			merge(&whole.Bar, &bars[i].Bar)
		}
	}
	return whole, whole.CloseTime != 0
}

// merge extends bar by a later part of it.
func merge(bar, part *marketdata.Bar) {
	bar.High, bar.Low, bar.Close = max(bar.High, part.High), min(bar.Low, part.Low), part.Close
	bar.Volume += part.Volume
	bar.Flat = bar.Flat && part.Flat
}

func byOpenTime(b marketdata.AssetBar, open int64) int {
	switch {
	case b.OpenTime < open:
		return -1
	case b.OpenTime > open:
		return 1
	}
	return 0
}

// rebuilt returns the coarser bars that must be written when finer ones from the
// time from on have changed: series are the records of each timeframe, ascending.
// Bars that end after until are not closed yet; given ones stay.
func rebuilt(g grid, series *[timeframes][]marketdata.AssetBar, from, until int64) []marketdata.AssetBar {
	var changed []marketdata.AssetBar
	for frame := m5; frame < timeframes; frame++ {
		finer := series[frame-1]
		if len(finer) == 0 {
			continue
		}
		start, end := g.interval(frame, max(from, finer[0].OpenTime))
		if start < finer[0].OpenTime && len(finer) >= recordKept {
			start, end = g.interval(frame, end) // the beginning was dropped from the record
		}
		for ; end <= until && start <= finer[len(finer)-1].OpenTime; start, end = g.interval(frame, end) {
			bar, ok := combine(finer, start, end)
			if !ok {
				continue
			}
			bar.Asset, bar.Timeframe = finer[0].Asset, signal.Timeframes[frame]
			i, found := slices.BinarySearchFunc(series[frame], start, byOpenTime)
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
