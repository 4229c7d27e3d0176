package market

import (
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// ticked reports a tick. Its Asset is the name as written in the stream.
type ticked struct{ tick marketdata.AssetTick }

// expireDue reports to an asset's actor that an alert may have expired.
type expireDue struct{}

// acceptedKept is how long, in milliseconds, an asset's actor keeps the ticks that its filter
// accepted, for alerts that are added a little after they began.
const acceptedKept = 120_000

// maxExpiryWait bounds the wait for the next expiry: the clock may jump, and timers do not follow.
const maxExpiryWait = 10 * time.Second

// onTick processes a tick of the asset's source and ignores those of other sources.
func (a *assetActor) onTick(c engine.Context, m ticked) {
	record := a.watch.record.Load()
	if m.tick.Source != record.Source {
		return
	}
	if m.tick.Missed != 0 {
		// The records got the bars of the missed time before the tick was written.
		a.frames[prices.M1].loaded = false
		a.refresh(c, prices.M1)
		if a.alerts != nil {
			a.alerts.MissedSince(m.tick.Missed)
			a.onTicksMissed(c)
		}
	}
	bars := a.frames[prices.M1].bars
	a.filter.Begin(m.tick.Tick, record.Speed, len(bars), func(i int) marketdata.Bar { return bars[i] })
	accepted, _ := a.filter.Take(m.tick.Tick, a.atr)
	if len(accepted) == 0 {
		return
	}
	a.publishLast(a.filter.Last)
	if a.alerts != nil {
		a.take(c, accepted)
	}
}

// publishLast publishes the newest price, unless a newer one is published.
func (a *assetActor) publishLast(t marketdata.Tick) {
	if last := a.watch.last.Load(); last == nil || last.Time <= t.Time {
		a.watch.last.Store(&marketdata.Tick{Price: t.Price, Volume: t.Volume, Time: t.Time})
	}
}

// take passes accepted ticks to the alerts and keeps them for a while.
func (a *assetActor) take(c engine.Context, accepted []marketdata.Tick) {
	for _, t := range accepted {
		a.alerts.Tick(t)
		a.accepted = append(a.accepted, t)
	}
	newest := a.accepted[len(a.accepted)-1].Time
	if newest-a.accepted[0].Time > 2*acceptedKept {
		a.accepted = slices.Clone(a.accepted[firstTick(a.accepted, newest-acceptedKept):])
	}
	a.schedule(c)
}

// schedule starts the timer for the next alert to expire.
func (a *assetActor) schedule(c engine.Context) {
	next := a.alerts.Next()
	if next == math.MaxInt64 || a.due != 0 && a.due <= next {
		return
	}
	a.timer.Stop()
	a.due, a.scheduled = next, a.now()
	wait := time.Duration(next-a.scheduled.UnixMilli()) * time.Millisecond
	a.timer = c.After(min(wait, maxExpiryWait), expireDue{})
}

// onExpireDue ends the alerts that expired. If the clock has jumped they first get time for the
// prices in between to arrive.
func (a *assetActor) onExpireDue(c engine.Context) {
	a.due = 0
	if a.alerts == nil {
		return
	}
	now := a.now()
	if now.Sub(a.scheduled) > 2*maxExpiryWait {
		a.alerts.DelayExpiry(now.UnixMilli())
	}
	a.alerts.Expire(now.UnixMilli())
	a.schedule(c)
}
