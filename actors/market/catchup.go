package market

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// passedKept is for how many milliseconds an asset's actor remembers the ticks that
// it let through, for alerts that are made a little after they began.
const passedKept = 120_000

// clockEvery bounds the pause between two looks at the clock while there are alerts.
const clockEvery = 10 * time.Second

// expireDue reports to an asset's actor that the time of an alert may be over.
type expireDue struct{}

// ticksMissed reports to it that ticks were missed after the last one that it has.
type ticksMissed struct{}

// send sends the Ref of an alert a message.
func (a *assetActor) send(ref engine.Ref, m any) {
	if a.notify != nil {
		a.notify(ref, m)
		return
	}
	ref.Tell(m)
}

// alertWaiting adds the alerts that wait, unless bars must be read before.
func (a *assetActor) alertWaiting(c engine.Context) {
	if len(a.waiting) == 0 {
		return
	}
	if frame := a.lacks(a.waiting); frame >= 0 {
		if f := &a.frames[frame]; !f.loading {
			f.wanted = true
			a.read(c, frame)
		}
		return
	}
	list, asked := a.waiting, a.asked
	a.waiting, a.asked = nil, nil
	a.alert(list)
	for ref := range asked {
		a.alerts.NotifyPrice(ref)
	}
	a.schedule(c)
}

// sendLastPrice sends the last price to the Ref of an alert, once all alerts are added.
func (a *assetActor) sendLastPrice(ref engine.Ref) {
	switch {
	case len(a.waiting) > 0:
		if a.asked == nil {
			a.asked = make(map[engine.Ref]struct{})
		}
		a.asked[ref] = struct{}{}
	case a.alerts != nil:
		a.alerts.NotifyPrice(ref)
	}
}

// drop takes alerts back.
func (a *assetActor) drop(refs []engine.Ref) {
	gone := make(map[engine.Ref]struct{}, len(refs))
	for _, ref := range refs {
		gone[ref] = struct{}{}
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(p alerts.Entry) bool {
		_, ok := gone[p.Ref]
		return ok
	})
	if a.alerts != nil {
		a.alerts.Drop(gone)
	}
}

// dropWaiting notifies the alerts that wait to be added that they are lost.
func (a *assetActor) dropWaiting() {
	for i := range a.waiting {
		a.waiting[i].Ref.Tell(alerts.Dropped{})
	}
	a.waiting, a.asked = nil, nil
}

// tellDropped tells all who have an alert that this actor knows nothing of it any
// more.
func (a *assetActor) tellDropped() {
	a.dropWaiting()
	if a.alerts != nil {
		for _, ref := range a.alerts.Refs() {
			ref.Tell(alerts.Dropped{})
		}
	}
}

// take works in ticks that were let through.
func (a *assetActor) take(c engine.Context, passed []marketdata.Tick) {
	for _, t := range passed {
		a.alerts.Tick(t)
		a.passed = append(a.passed, t)
	}
	newest := a.passed[len(a.passed)-1].Time
	if newest-a.passed[0].Time > 2*passedKept {
		i, _ := slices.BinarySearchFunc(a.passed, newest-passedKept, func(t marketdata.Tick, at int64) int { return cmp.Compare(t.Time, at) })
		a.passed = slices.Clone(a.passed[i:])
	}
	a.schedule(c)
}

// schedule has the next alert end in time.
func (a *assetActor) schedule(c engine.Context) {
	next := a.alerts.Next()
	if next == math.MaxInt64 || a.due != 0 && a.due <= next {
		return
	}
	a.timer.Stop()
	a.due, a.looked = next, a.now()
	// The clock may jump, timers do not: it is looked at now and then.
	a.timer = c.After(min(time.Duration(next-a.looked.UnixMilli())*time.Millisecond, clockEvery), expireDue{})
}

// onExpireDue ends what is over, unless the process was halted.
func (a *assetActor) onExpireDue(c engine.Context) {
	a.due = 0
	if a.alerts == nil {
		return
	}
	now := a.now()
	if now.Sub(a.looked) > 2*clockEvery {
		a.alerts.Settle(now.UnixMilli())
	}
	a.alerts.Expire(now.UnixMilli())
	a.schedule(c)
}

// onMissed reads all bars again, and has alerts made up by them if it is bars that
// tell of the asset's prices.
func (a *assetActor) onMissed(c engine.Context) {
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

// onTicksMissed has alerts made up by bars for the time of which no ticks came.
func (a *assetActor) onTicksMissed(c engine.Context) {
	if a.alerts == nil {
		return
	}
	a.waiting = append(a.waiting, a.alerts.Release()...)
	a.alerts, a.passed = nil, nil
	a.alertWaiting(c)
}

// alert adds alerts. Those that began before the newest price are first told what has
// happened since, by bars of the time of which no tick is left, then by ticks.
func (a *assetActor) alert(list []alerts.Entry) {
	if a.alerts == nil {
		record := a.watch.record.Load()
		a.alerts = alerts.NewSet(record.Class, record.Speed, tradedIn(record), a.send)
		a.alerts.Settle(a.now().UnixMilli())
		var f prices.Filter
		a.passed, f = a.replay(math.MaxInt64)
		if max(f.Last.Time, f.Held.Time) >= a.filter.Last.Time {
			a.filter = f // so that what is still in the mailbox is not taken twice
		}
		if n := len(a.passed); n > 0 {
			a.alerts.Tick(a.passed[n-1])
		} else if n := len(a.frames[prices.M1].bars); n > 0 {
			a.alerts.Bar(prices.M1, a.frames[prices.M1].bars[n-1])
		}
	}
	late := a.alerts.Add(list)
	if len(late) > 0 {
		a.catchUp(late)
	}
}

// replay returns the ticks up to a time that are not taken for mistakes, as they are
// remembered, and the filter behind them.
func (a *assetActor) replay(upTo int64) ([]marketdata.Tick, prices.Filter) {
	record := a.watch.record.Load()
	raw := a.tapes.upTo(tapeKey{a.watch.key, record.Source}, upTo)
	bars := a.frames[prices.M1].bars
	f := prices.Filter{Rising: a.filter.Rising}
	next, atr := 0, 0.0 // the first bar that closes after the tick, and what those before say
	list := make([]marketdata.Tick, 0, len(raw))
	for i, t := range raw {
		if i == 0 || next < len(bars) && bars[next].CloseTime <= t.Time {
			for next < len(bars) && bars[next].CloseTime <= t.Time {
				next++
			}
			atr = prices.ATROfBars(bars[:next])
		}
		if i == 0 && next > 0 {
			f.Begin(t, bars[next-1].CloseTime, bars[next-1].Close, prices.BarLimit(prices.M1, record.Speed))
		}
		passed, _ := f.Take(t, atr)
		list = append(list, passed...)
	}
	return list, f
}

// catchUp notifies late alerts of what has happened up to now, and adds those that are left.
func (a *assetActor) catchUp(late []alerts.Entry) {
	from := int64(math.MaxInt64)
	for i := range late {
		from = min(from, late[i].Begins())
	}
	ticks := a.ticksSince(from)
	ticksFrom := a.alerts.LastTime() + 1
	if len(ticks) > 0 {
		ticksFrom = ticks[0].Time
	}
	a.alerts.CatchUp(late, a.history(from, ticksFrom), ticks)
}

// ticksSince returns the ticks after a time that were let through, and the one before
// them; fewer if they are not remembered for as long.
func (a *assetActor) ticksSince(from int64) []marketdata.Tick {
	ticks := a.passed
	if len(ticks) == 0 || ticks[0].Time > from {
		ticks, _ = a.replay(a.alerts.LastTime())
	}
	after, _ := slices.BinarySearchFunc(ticks, from+1, func(t marketdata.Tick, at int64) int { return cmp.Compare(t.Time, at) })
	return ticks[max(0, after-1):]
}

// history returns the bars that hold a time between two, ascending, the finest that
// there are; before them one that says what the price was. Where finer ones begin
// within a bar it comes before them: it says what was before, to who was there.
func (a *assetActor) history(from, to int64) []alerts.PastBar {
	var list []alerts.PastBar
	for frame := prices.D1; frame >= prices.M1; frame-- {
		ends := to // where the finer ones begin
		for finer := frame - 1; finer >= prices.M1; finer-- {
			if bars := a.frames[finer].bars; len(bars) > 0 {
				ends = min(ends, bars[0].OpenTime)
			}
		}
		if ends <= from {
			continue
		}
		bars := a.frames[frame].bars
		first, _ := slices.BinarySearchFunc(bars, from, func(b marketdata.Bar, t int64) int {
			if b.CloseTime <= t {
				return -1
			}
			return 1
		})
		if first > 0 {
			first-- // the price before
		}
		for ; first < len(bars) && bars[first].OpenTime < ends; first++ {
			list = append(list, alerts.PastBar{Bar: bars[first], Frame: frame, Finer: ends})
		}
	}
	return list
}

// lacks returns a timeframe that must be read before alerts can be told what has
// happened since they began; -1: none.
func (a *assetActor) lacks(list []alerts.Entry) int {
	for frame := prices.M1; frame <= prices.D1; frame++ {
		f := &a.frames[frame]
		if !f.loaded {
			return frame
		}
		if len(f.bars) > 0 && !slices.ContainsFunc(list, func(p alerts.Entry) bool { return p.Begins() < f.bars[0].OpenTime }) {
			return -1
		}
	}
	return -1
}
