package market

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// loadSeries asks an asset's actor to read a timeframe and keep it up to date. The reply is nil
// once it is read, or an error.
type loadSeries struct {
	frame int
	reply chan<- error
}

// seriesLoaded reports the result of reading the records.
type seriesLoaded struct {
	frame  int
	record marketdata.Asset
	live   marketdata.Live
	bars   []marketdata.AssetBar
	count  int64
	err    error
}

// ticked reports a tick. Its Asset is the name as written in the stream.
type ticked struct{ tick marketdata.AssetTick }

// barClosed reports that a bar was closed or replaced, or, without a CloseTime, that the whole
// series was written again.
type barClosed struct {
	frame int
	count int64
	bar   marketdata.Bar
}

// barsMissed reports that closed bars may have been missed, or that the asset's record changed.
type barsMissed struct{}

// ticksMissed reports that ticks after the last one were missed.
type ticksMissed struct{}

// expireDue reports that an alert may have expired.
type expireDue struct{}

type reload struct{ frame int }

// assetActor keeps the prices and the alerts of one asset.
type assetActor struct {
	store  Store
	now    func() time.Time
	ending func() bool // the process ends, and with it those that wait for alerts
	prices assetPrices
	alerts assetAlerts
}

func newAssetActor(w *watch, o *Options, recent *recentTicks, ending func() bool) *assetActor {
	a := &assetActor{store: o.Store, now: o.Now, ending: ending, prices: assetPrices{watch: w, recent: recent}}
	a.alerts = assetAlerts{prices: &a.prices, now: o.Now, notify: engine.Ref.Tell}
	return a
}

func (a *assetActor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		a.onStarted()
	case engine.Restarting:
		a.onRestarting()
	case loadSeries:
		a.onLoad(c, m)
	case seriesLoaded:
		a.onLoaded(c, m)
	case ticked:
		a.onTick(c, m)
	case barClosed:
		a.onClosed(c, m)
	case setAlerts:
		a.alerts.addPending(m.alerts)
		m.reply <- struct{}{}
		a.addAlerts(c)
	case dropAlerts:
		a.alerts.drop(m.refs)
	case askNeeded:
		m.reply <- a.alerts.any()
	case askPrice:
		a.alerts.sendPrice(m.ref)
	case expireDue:
		a.alerts.expire(c)
	case ticksMissed:
		a.onTicksMissed(c)
	case engine.Stopping:
		if !a.ending() {
			a.alerts.notifyDropped()
		}
	case barsMissed:
		a.onBarsMissed(c)
	case reload:
		a.refresh(c, m.frame)
	}
}

// onStarted clears the series of an earlier incarnation, which are no longer up to date. The next
// question reads them again: only then does the reader of the streams know this actor.
func (a *assetActor) onStarted() {
	for frame := range a.prices.watch.series {
		a.prices.watch.series[frame].Store(nil)
	}
}

// errFailed is the reply to questions that waited when the actor panicked.
var errFailed = errors.New("the asset's actor failed")

// onRestarting answers waiting questions, which the next incarnation does not have.
func (a *assetActor) onRestarting() {
	for frame := range a.prices.frames {
		a.prices.frames[frame].answer(errFailed)
	}
	a.alerts.notifyDropped()
}

func (a *assetActor) onLoad(c engine.Context, m loadSeries) {
	f := &a.prices.frames[m.frame]
	if f.loaded {
		m.reply <- nil
		return
	}
	f.wanted = true
	f.waiting = append(f.waiting, m.reply)
	if !f.loading {
		a.read(c, m.frame)
	}
	// The filter of ticks needs bars of 1m.
	if minutes := &a.prices.frames[prices.M1]; !minutes.wanted {
		minutes.wanted = true
		a.read(c, prices.M1)
	}
}

// refresh reads a timeframe again, if it was asked for.
func (a *assetActor) refresh(c engine.Context, frame int) {
	f := &a.prices.frames[frame]
	switch {
	case !f.wanted:
	case f.loading:
		f.stale = true
	default:
		a.read(c, frame)
	}
}

// loadTimeout bounds a read of the records.
const loadTimeout = 5 * time.Second

func (a *assetActor) read(c engine.Context, frame int) {
	f := &a.prices.frames[frame]
	f.loading, f.stale = true, false
	store, key := a.store, a.prices.watch.key
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		m := seriesLoaded{frame: frame}
		if m.record, m.live, m.err = store.Asset(ctx, key); m.err == nil {
			m.bars, m.count, m.err = store.Bars(ctx, m.record.Symbol, signal.Timeframes[frame])
		}
		return m
	})
}

func (a *assetActor) onLoaded(c engine.Context, m seriesLoaded) {
	f := &a.prices.frames[m.frame]
	f.loading = false
	if m.err != nil {
		f.pending = nil
		if signal.KindOf(m.err) == signal.KindNotFound {
			a.prices.forget()
			a.alerts.dropPending()
		} else {
			c.After(retryAfter, reload{m.frame})
		}
		f.answer(m.err)
		return
	}
	if a.prices.setRecord(&m.record) && a.alerts.set != nil {
		defer a.onTicksMissed(c)
	}
	// A recent tick is in the stream as well, and so are the ticks before it, which count too.
	old := a.alerts.set == nil && a.now().UnixMilli()-m.live.Last.Time > recentKept
	a.prices.setLast(m.live.Last, old)
	f.set(m.bars, m.count)
	a.prices.publish(m.frame)
	f.answer(nil)
	if f.stale {
		a.read(c, m.frame) // alerts wait for the newer bars
		return
	}
	a.addAlerts(c)
}

// addAlerts adds the pending alerts, unless bars must be read first.
func (a *assetActor) addAlerts(c engine.Context) {
	if len(a.alerts.pending) == 0 {
		return
	}
	if frame := a.alerts.missingFrame(); frame >= 0 {
		if f := &a.prices.frames[frame]; !f.loading {
			f.wanted = true
			a.read(c, frame)
		}
		return
	}
	a.alerts.takePending(c)
}

// onTick processes a tick of the asset's source and ignores those of other sources.
func (a *assetActor) onTick(c engine.Context, m ticked) {
	if m.tick.Source != a.prices.watch.record.Load().Source {
		return
	}
	if m.tick.Missed != 0 {
		// The records got the bars of the missed time before the tick was written.
		a.prices.frames[prices.M1].loaded = false
		a.refresh(c, prices.M1)
		if a.alerts.set != nil {
			a.alerts.set.MissedSince(m.tick.Missed)
			a.onTicksMissed(c)
		}
	}
	if accepted := a.prices.tick(m.tick.Tick); len(accepted) > 0 && a.alerts.set != nil {
		a.alerts.ticks(c, accepted)
	}
}

func (a *assetActor) onClosed(c engine.Context, m barClosed) {
	f := &a.prices.frames[m.frame]
	if m.bar.CloseTime == 0 {
		a.refresh(c, m.frame)
		return
	}
	if f.loading {
		f.pending = append(f.pending, m)
	}
	if f.loaded && f.apply(m) {
		a.prices.publish(m.frame)
	}
	if a.alerts.set != nil {
		a.alerts.closeBar(c, m.frame, m.bar)
	}
}

// onBarsMissed reads all bars again. If the asset has no ticks its alerts catch up by the bars.
func (a *assetActor) onBarsMissed(c engine.Context) {
	for frame := range a.prices.frames {
		a.refresh(c, frame)
	}
	if a.alerts.set == nil || a.alerts.set.ByTicks() {
		return
	}
	a.prices.unload()
	a.onTicksMissed(c)
}

// onTicksMissed adds all alerts again, so that they catch up by bars.
func (a *assetActor) onTicksMissed(c engine.Context) {
	if a.alerts.release() {
		a.addAlerts(c)
	}
}
