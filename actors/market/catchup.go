package market

import (
	"math"
	"slices"
	"sort"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// ticksMissed reports to an asset's actor that ticks after its last one were missed.
type ticksMissed struct{}

// addPending adds the pending alerts, unless bars must be read first.
func (a *assetActor) addPending(c engine.Context) {
	if len(a.pending) == 0 {
		return
	}
	if frame := a.missingFrame(a.pending); frame >= 0 {
		if f := &a.frames[frame]; !f.loading {
			f.wanted = true
			a.read(c, frame)
		}
		return
	}
	list, requests := a.pending, a.priceRequests
	a.pending, a.priceRequests = nil, nil
	a.alert(list)
	for ref := range requests {
		a.alerts.NotifyPrice(ref)
	}
	a.schedule(c)
}

// sendPrice sends the last price to the Ref of an alert, once all alerts are added.
func (a *assetActor) sendPrice(ref engine.Ref) {
	switch {
	case len(a.pending) > 0:
		if a.priceRequests == nil {
			a.priceRequests = make(map[engine.Ref]struct{})
		}
		a.priceRequests[ref] = struct{}{}
	case a.alerts != nil:
		a.alerts.NotifyPrice(ref)
	}
}

func (a *assetActor) drop(refs []engine.Ref) {
	dropped := make(map[engine.Ref]struct{}, len(refs))
	for _, ref := range refs {
		dropped[ref] = struct{}{}
	}
	a.pending = slices.DeleteFunc(a.pending, func(p alerts.Entry) bool {
		_, ok := dropped[p.Ref]
		return ok
	})
	if a.alerts != nil {
		a.alerts.Drop(dropped)
	}
}

// dropPending drops the pending alerts and notifies their Refs.
func (a *assetActor) dropPending() {
	for i := range a.pending {
		a.pending[i].Ref.Tell(alerts.Dropped{})
	}
	a.pending, a.priceRequests = nil, nil
}

// notifyDropped notifies the Refs of all alerts that this actor drops them.
func (a *assetActor) notifyDropped() {
	a.dropPending()
	if a.alerts != nil {
		for _, ref := range a.alerts.Refs() {
			ref.Tell(alerts.Dropped{})
		}
	}
}

// firstTick returns the index of the first of ascending ticks at or after a time.
func firstTick(ticks []marketdata.Tick, at int64) int {
	return sort.Search(len(ticks), func(i int) bool { return ticks[i].Time >= at })
}

// onBarsMissed reads all bars again. If the asset has no ticks its alerts catch up by the bars.
func (a *assetActor) onBarsMissed(c engine.Context) {
	for frame := range a.frames {
		a.refresh(c, frame)
	}
	if a.alerts == nil || a.alerts.ByTicks() {
		return
	}
	for frame := range a.frames {
		a.frames[frame].loaded = false
	}
	a.onTicksMissed(c)
}

// onTicksMissed adds all alerts again, so that they catch up by bars.
func (a *assetActor) onTicksMissed(c engine.Context) {
	if a.alerts == nil {
		return
	}
	a.pending = append(a.pending, a.alerts.Release()...)
	a.alerts, a.accepted = nil, nil
	a.addPending(c)
}

// alert adds alerts. Those that began before the newest price first catch up by bars and ticks.
func (a *assetActor) alert(list []alerts.Entry) {
	if a.alerts == nil {
		record := a.watch.record.Load()
		a.alerts = alerts.NewSet(record.Class, record.Speed, tradedIn(record), a.notify)
		a.alerts.DelayExpiry(a.now().UnixMilli())
		if last := a.watch.last.Load(); last == nil || last.Time == 0 {
			a.alerts.WithoutTrades()
		}
		var f prices.Filter
		a.accepted, f = a.replay(math.MaxInt64)
		if max(f.Last.Time, f.Held.Time) >= a.filter.Last.Time {
			a.filter = f // so that ticks in the mailbox do not count twice
		}
		minutes := a.frames[prices.M1].bars
		if n := len(a.accepted); n > 0 {
			a.alerts.Tick(a.accepted[n-1])
		} else if n := len(minutes); n > 0 {
			a.alerts.Bar(prices.M1, minutes[n-1])
		}
	}
	if late := a.alerts.Add(list); len(late) > 0 {
		a.catchUp(late)
	}
}

// replay filters the ticks on the tape up to a time. It returns the accepted ones and the filter in
// its state after them.
func (a *assetActor) replay(upTo int64) ([]marketdata.Tick, prices.Filter) {
	record := a.watch.record.Load()
	ticks := a.tapes.upTo(tapeKey{a.watch.key, record.Source}, upTo)
	bars := a.frames[prices.M1].bars
	f := prices.Filter{Rising: a.filter.Rising}
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

// catchUp replays the prices since late alerts began and adds those that are still active.
func (a *assetActor) catchUp(late []alerts.Entry) {
	from := int64(math.MaxInt64)
	for i := range late {
		from = min(from, late[i].Begins())
	}
	ticks := a.ticksSince(from)
	firstAt := a.alerts.LastTime() + 1
	if len(ticks) > 0 {
		firstAt = ticks[0].Time
	}
	a.alerts.CatchUp(late, a.history(from, firstAt), ticks)
}

// ticksSince returns the accepted ticks after a time and the one before them, as far as they are kept.
func (a *assetActor) ticksSince(from int64) []marketdata.Tick {
	ticks := a.accepted
	if len(ticks) == 0 || ticks[0].Time > from {
		ticks, _ = a.replay(a.alerts.LastTime())
	}
	return ticks[max(0, firstTick(ticks, from+1)-1):]
}

// history returns the finest bars there are for the interval [from, to), ascending, and the bar
// before them, whose close was the price at from. Where finer bars begin within a coarser one, that
// one comes first, for the alerts that began before it.
func (a *assetActor) history(from, to int64) []alerts.PastBar {
	var list []alerts.PastBar
	for frame := prices.D1; frame >= prices.M1; frame-- {
		finer := to // when the finer bars begin
		for f := frame - 1; f >= prices.M1; f-- {
			if bars := a.frames[f].bars; len(bars) > 0 {
				finer = min(finer, bars[0].OpenTime)
			}
		}
		if finer <= from {
			continue
		}
		bars := a.frames[frame].bars
		first := sort.Search(len(bars), func(i int) bool { return bars[i].CloseTime > from })
		for i := max(0, first-1); i < len(bars) && bars[i].OpenTime < finer; i++ {
			list = append(list, alerts.PastBar{Bar: bars[i], Frame: frame, Finer: finer})
		}
	}
	return list
}

// missingFrame returns the finest timeframe that must be read before alerts can catch up, or -1.
func (a *assetActor) missingFrame(list []alerts.Entry) int {
	for frame := prices.M1; frame <= prices.D1; frame++ {
		f := &a.frames[frame]
		if !f.loaded {
			return frame
		}
		beginsBefore := func(p alerts.Entry) bool { return p.Begins() < f.bars[0].OpenTime }
		if len(f.bars) > 0 && !slices.ContainsFunc(list, beginsBefore) {
			return -1
		}
	}
	return -1
}
