package market

import (
	"slices"
	"sort"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// frameState is the state of one timeframe in an asset's actor.
type frameState struct {
	wanted  bool // it was asked for
	loaded  bool
	loading bool
	stale   bool             // the read in progress is out of date already
	bars    []marketdata.Bar // ascending; shared with readers up to its length
	count   int64            // of the closed bars that are in bars
	pending []barClosed      // came during a read
	waiting []chan<- error
}

func (f *frameState) answer(err error) {
	for _, reply := range f.waiting {
		reply <- err
	}
	f.waiting = nil
}

// set sets the bars that were read from the records, and adds those that were closed meanwhile.
func (f *frameState) set(bars []marketdata.AssetBar, count int64) {
	f.loaded, f.count = true, count
	f.bars = make([]marketdata.Bar, 0, len(bars)+len(bars)/4)
	for i := range bars {
		f.bars = append(f.bars, bars[i].Bar)
	}
	for _, p := range f.pending {
		f.apply(p)
	}
	f.pending = nil
}

// apply adds a closed bar to the bars, and reports whether it was not among them yet.
func (f *frameState) apply(m barClosed) bool {
	if m.count <= f.count {
		return false
	}
	f.count = m.count
	n := len(f.bars)
	i := n
	for i > 0 && f.bars[i-1].OpenTime >= m.bar.OpenTime {
		i--
	}
	switch {
	case i == n:
		f.bars = append(f.bars, m.bar) // beyond the length that readers see
	case f.bars[i].OpenTime == m.bar.OpenTime:
		f.bars = slices.Clone(f.bars)
		f.bars[i] = m.bar
	default:
		f.bars = slices.Insert(slices.Clone(f.bars), i, m.bar)
	}
	f.bars = f.bars[max(0, len(f.bars)-prices.RecordKept):]
	return true
}

// assetPrices holds the prices of an asset in its actor, and publishes them in its watch.
type assetPrices struct {
	watch  *watch
	recent *recentTicks
	filter prices.Filter
	atr    float64
	frames [prices.Timeframes]frameState
}

// setRecord sets the record of the asset. It reports whether it has another source or speed than before, and then
// forgets the prices so far.
func (p *assetPrices) setRecord(r *marketdata.Asset) (replaced bool) {
	before := p.watch.record.Load()
	replaced = before.Source != r.Source || before.Speed != r.Speed
	if replaced {
		p.forgetTicks()
		p.unload() // the bars are of another source and are read again
	}
	p.watch.record.Store(r)
	p.filter.Rising = r.Source == simulated.Name
	return replaced
}

// setLast sets the last price, by the records, unless a newer one is known. Ticks before an old one are ignored.
func (p *assetPrices) setLast(t marketdata.Tick, old bool) {
	if t.Time <= p.filter.Last.Time {
		return
	}
	p.publishLast(t)
	if old {
		p.filter.Last, p.filter.Held = t, marketdata.Tick{}
	}
}

// unload makes all bars be read again before alerts catch up by them.
func (p *assetPrices) unload() {
	for frame := range p.frames {
		p.frames[frame].loaded = false
	}
}

// forget drops everything about an asset whose record was removed.
func (p *assetPrices) forget() {
	for frame := range p.frames {
		p.frames[frame].loaded, p.frames[frame].bars = false, nil
		p.watch.series[frame].Store(nil)
	}
	p.forgetTicks()
}

func (p *assetPrices) forgetTicks() {
	p.filter, p.atr = prices.Filter{}, 0
	p.watch.last.Store(nil)
}

// tick takes a tick and returns those that the filter accepts, the newest of which it publishes.
func (p *assetPrices) tick(t marketdata.Tick) []marketdata.Tick {
	bars := p.frames[prices.M1].bars
	speed := p.watch.record.Load().Speed
	p.filter.Begin(t, speed, len(bars), func(i int) marketdata.Bar { return bars[i] })
	accepted, _ := p.filter.Take(t, p.atr)
	if len(accepted) > 0 {
		p.publishLast(p.filter.Last)
	}
	return accepted
}

// publishLast publishes the newest price, unless a newer one is published.
func (p *assetPrices) publishLast(t marketdata.Tick) {
	if last := p.watch.last.Load(); last == nil || last.Time <= t.Time {
		p.watch.last.Store(&marketdata.Tick{Price: t.Price, Volume: t.Volume, Time: t.Time})
	}
}

func (p *assetPrices) publish(frame int) {
	bars := p.frames[frame].bars
	if frame == prices.M1 {
		p.atr = prices.ATROfBars(bars)
	}
	s := &series{}
	s.bars, s.err = usable(bars, p.watch.record.Load(), frame)
	p.watch.series[frame].Store(s)
}

// replay filters the recent ticks up to a time. It returns the accepted ones and the filter in
// its state after them.
func (p *assetPrices) replay(upTo int64) ([]marketdata.Tick, prices.Filter) {
	record := p.watch.record.Load()
	ticks := p.recent.upTo(tickKey{p.watch.key, record.Source}, upTo)
	bars := p.frames[prices.M1].bars
	f := prices.Filter{Rising: p.filter.Rising}
	closed, atr := 0, 0.0 // the number of bars that closed before the tick, and their ATR
	list := make([]marketdata.Tick, 0, len(ticks))
	for i, t := range ticks {
		if i == 0 || closed < len(bars) && bars[closed].CloseTime <= t.Time {
			for closed < len(bars) && bars[closed].CloseTime <= t.Time {
				closed++
			}
			atr = prices.ATROfBars(bars[:closed])
		}
		if i == 0 {
			f.Begin(t, record.Speed, closed, func(i int) marketdata.Bar { return bars[i] })
		}
		accepted, _ := f.Take(t, atr)
		list = append(list, accepted...)
	}
	return list, f
}

// barsIn returns the finest bars there are for the interval [from, to), ascending, and the bar
// before them, whose close was the price at from. Where finer bars begin within a coarser one, that
// one comes first, for the alerts that began before it.
func (p *assetPrices) barsIn(from, to int64) []alerts.PastBar {
	var list []alerts.PastBar
	for frame := prices.D1; frame >= prices.M1; frame-- {
		finer := to // when the finer bars begin
		for f := frame - 1; f >= prices.M1; f-- {
			if bars := p.frames[f].bars; len(bars) > 0 {
				finer = min(finer, bars[0].OpenTime)
			}
		}
		if finer <= from {
			continue
		}
		bars := p.frames[frame].bars
		first := sort.Search(len(bars), func(i int) bool { return bars[i].CloseTime > from })
		for i := max(0, first-1); i < len(bars) && bars[i].OpenTime < finer; i++ {
			list = append(list, alerts.PastBar{Bar: bars[i], Frame: frame, Finer: finer})
		}
	}
	return list
}
