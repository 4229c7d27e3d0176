package market

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// acceptedKept is how long, in milliseconds, an asset's actor keeps the ticks that its filter
	// accepted, for alerts that are added a little after they began.
	acceptedKept = 120_000
	// maxExpiryWait bounds the wait for the next expiry: the clock may jump, and timers do not follow.
	maxExpiryWait = 10 * time.Second
)

// assetAlerts holds the alerts of an asset in its actor. Those that began before they are added first catch up on
// the prices since.
type assetAlerts struct {
	prices *assetPrices
	now    func() time.Time
	notify func(engine.Ref, any) // sends a message to the Ref of an alert

	set           *alerts.Set             // nil until one is added
	accepted      []marketdata.Tick       // the newest ticks, while there are alerts
	pending       []alerts.Entry          // alerts that wait for bars to be read
	priceRequests map[engine.Ref]struct{} // requests for the last price that wait with them
	timer         engine.Timer
	due           int64     // when timer fires, if the clock does not jump
	scheduled     time.Time // when timer was started
}

// any reports whether there are alerts.
func (a *assetAlerts) any() bool {
	return len(a.pending) > 0 || a.set != nil && a.set.Next() != math.MaxInt64
}

func (a *assetAlerts) addPending(list []alerts.Alert) {
	for _, alert := range list {
		p := alerts.NewEntry(alert)
		if p.Exit == 0 || !a.exit(&p) {
			a.pending = append(a.pending, p)
		}
	}
}

// exit makes p, which has an exit, replace the alert of its Ref. It reports whether p need not be added.
func (a *assetAlerts) exit(p *alerts.Entry) bool {
	a.pending = slices.DeleteFunc(a.pending, func(former alerts.Entry) bool {
		if former.Ref == p.Ref {
			p.Replace(&former)
		}
		return former.Ref == p.Ref
	})
	return a.set != nil && a.set.Exit(p)
}

// missingFrame returns the finest timeframe that must be read before the pending alerts can catch up, or -1.
func (a *assetAlerts) missingFrame() int {
	for frame := prices.M1; frame <= prices.D1; frame++ {
		f := &a.prices.frames[frame]
		if !f.loaded {
			return frame
		}
		beginsBefore := func(p alerts.Entry) bool { return p.Begins() < f.bars[0].OpenTime }
		if len(f.bars) > 0 && !slices.ContainsFunc(a.pending, beginsBefore) {
			return -1
		}
	}
	return -1
}

// takePending adds the pending alerts, for which all bars are read.
func (a *assetAlerts) takePending(c engine.Context) {
	list, requests := a.pending, a.priceRequests
	a.pending, a.priceRequests = nil, nil
	a.add(list)
	for ref := range requests {
		a.set.NotifyPrice(ref)
	}
	a.schedule(c)
}

// sendPrice sends the last price to the Ref of an alert, once all alerts are added.
func (a *assetAlerts) sendPrice(ref engine.Ref) {
	switch {
	case len(a.pending) > 0:
		if a.priceRequests == nil {
			a.priceRequests = make(map[engine.Ref]struct{})
		}
		a.priceRequests[ref] = struct{}{}
	case a.set != nil:
		a.set.NotifyPrice(ref)
	}
}

func (a *assetAlerts) drop(refs []engine.Ref) {
	dropped := make(map[engine.Ref]struct{}, len(refs))
	for _, ref := range refs {
		dropped[ref] = struct{}{}
	}
	a.pending = slices.DeleteFunc(a.pending, func(p alerts.Entry) bool {
		_, ok := dropped[p.Ref]
		return ok
	})
	if a.set != nil {
		a.set.Drop(dropped)
	}
}

// dropPending drops the pending alerts and notifies their Refs.
func (a *assetAlerts) dropPending() {
	for i := range a.pending {
		a.pending[i].Ref.Tell(alerts.Dropped{})
	}
	a.pending, a.priceRequests = nil, nil
}

// notifyDropped notifies the Refs of all alerts that this actor drops them.
func (a *assetAlerts) notifyDropped() {
	a.dropPending()
	if a.set != nil {
		for _, ref := range a.set.Refs() {
			ref.Tell(alerts.Dropped{})
		}
	}
}

// release makes all alerts pending again, so that they catch up by bars. It returns false without alerts.
func (a *assetAlerts) release() bool {
	if a.set == nil {
		return false
	}
	a.pending = append(a.pending, a.set.Release()...)
	a.set, a.accepted = nil, nil
	return true
}

// add adds alerts. Those that began before the newest price first catch up by bars and ticks.
func (a *assetAlerts) add(list []alerts.Entry) {
	if a.set == nil {
		a.begin()
	}
	if late := a.set.Add(list); len(late) > 0 {
		a.catchUp(late)
	}
}

// begin creates the set of alerts, at the newest price.
func (a *assetAlerts) begin() {
	p := a.prices
	record := p.watch.record.Load()
	a.set = alerts.NewSet(record.Class, record.Speed, tradedIn(record), a.notify)
	a.set.DelayExpiry(a.now().UnixMilli())
	if last := p.watch.last.Load(); last == nil || last.Time == 0 {
		a.set.WithoutTrades()
	}
	var f prices.Filter
	a.accepted, f = p.replay(math.MaxInt64)
	if max(f.Last.Time, f.Held.Time) >= p.filter.Last.Time {
		p.filter = f // so that ticks in the mailbox do not count twice
	}
	minutes := p.frames[prices.M1].bars
	if n := len(a.accepted); n > 0 {
		a.set.Tick(a.accepted[n-1])
	} else if n := len(minutes); n > 0 {
		a.set.Bar(prices.M1, minutes[n-1])
	}
}

// catchUp replays the prices since late alerts began and adds those that are still active.
func (a *assetAlerts) catchUp(late []alerts.Entry) {
	from := int64(math.MaxInt64)
	for i := range late {
		from = min(from, late[i].Begins())
	}
	ticks := a.ticksSince(from)
	firstAt := a.set.LastTime() + 1
	if len(ticks) > 0 {
		firstAt = ticks[0].Time
	}
	a.set.CatchUp(late, a.prices.barsIn(from, firstAt), ticks)
}

// ticksSince returns the accepted ticks after a time and the one before them, as far as they are kept.
func (a *assetAlerts) ticksSince(from int64) []marketdata.Tick {
	ticks := a.accepted
	if len(ticks) == 0 || ticks[0].Time > from {
		ticks, _ = a.prices.replay(a.set.LastTime())
	}
	return ticks[max(0, firstTick(ticks, from+1)-1):]
}

// firstTick returns the index of the first of ascending ticks at or after a time.
func firstTick(ticks []marketdata.Tick, at int64) int {
	return sort.Search(len(ticks), func(i int) bool { return ticks[i].Time >= at })
}

// ticks passes accepted ticks to the alerts and keeps them for a while.
func (a *assetAlerts) ticks(c engine.Context, accepted []marketdata.Tick) {
	for _, t := range accepted {
		a.set.Tick(t)
		a.accepted = append(a.accepted, t)
	}
	newest := a.accepted[len(a.accepted)-1].Time
	if newest-a.accepted[0].Time > 2*acceptedKept {
		a.accepted = slices.Clone(a.accepted[firstTick(a.accepted, newest-acceptedKept):])
	}
	a.schedule(c)
}

func (a *assetAlerts) closeBar(c engine.Context, frame int, b marketdata.Bar) {
	a.set.Bar(frame, b)
	a.set.CloseBar(frame, b)
	a.schedule(c)
}

// schedule starts the timer for the next alert to expire.
func (a *assetAlerts) schedule(c engine.Context) {
	next := a.set.Next()
	if next == math.MaxInt64 || a.due != 0 && a.due <= next {
		return
	}
	a.timer.Stop()
	a.due, a.scheduled = next, a.now()
	wait := time.Duration(next-a.scheduled.UnixMilli()) * time.Millisecond
	a.timer = c.After(min(wait, maxExpiryWait), expireDue{})
}

// expire ends the alerts that expired. If the clock has jumped they first get time for the
// prices in between to arrive.
func (a *assetAlerts) expire(c engine.Context) {
	a.due = 0
	if a.set == nil {
		return
	}
	now := a.now()
	if now.Sub(a.scheduled) > 2*maxExpiryWait {
		a.set.DelayExpiry(now.UnixMilli())
	}
	a.set.Expire(now.UnixMilli())
	a.schedule(c)
}
