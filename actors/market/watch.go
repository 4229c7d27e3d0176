package market

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// watchAsset asks for the watch of an asset that has a record, which is created if necessary.
type watchAsset struct {
	key    string
	record marketdata.Asset
	reply  chan<- *watch
}

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

// barClosed reports that a bar was closed or replaced, or, without a CloseTime, that the whole
// series was written again.
type barClosed struct {
	frame int
	count int64
	bar   marketdata.Bar
}

// barsMissed reports that closed bars may have been missed, or that the asset's record changed.
type barsMissed struct{}

type reload struct{ frame int }

// watch is what an asset's actor publishes on this node.
type watch struct {
	key string
	ref engine.Ref

	// Written by the actor, read by all.
	record atomic.Pointer[marketdata.Asset] // never nil
	last   atomic.Pointer[marketdata.Tick]
	series [prices.Timeframes]atomic.Pointer[series]

	used atomic.Bool // it was asked for since its use was last recorded
}

// series holds the bars of one timeframe as strategies may use them, or the reason they may not.
type series struct {
	bars []marketdata.Bar
	err  error
}

// supervisor is the parent of the asset actors.
type supervisor struct{ market *Market }

func (s *supervisor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case watchAsset:
		if w := (*s.market.watches.Load())[m.key]; w != nil {
			m.reply <- w
			return
		}
		w := &watch{key: m.key}
		w.record.Store(&m.record)
		w.ref = c.Spawn(engine.Asset, m.key, func() engine.Actor {
			return &assetActor{watch: w, store: s.market.o.Store, tapes: s.market.tapes, now: s.market.o.Now,
				ending: s.market.system.Ending, notify: engine.Ref.Tell}
		}, engine.Supervision{})
		tapes := s.market.tapes
		tapes.mu.Lock()
		s.market.setWatches(func(all map[string]*watch) { all[m.key] = w })
		if last, ok := tapes.newest(tapeKey{m.key, m.record.Source}); ok {
			w.ref.Tell(ticked{marketdata.AssetTick{Asset: m.key, Source: m.record.Source, Tick: last}})
		}
		tapes.mu.Unlock()
		m.reply <- w
	case engine.Terminated:
		// It failed too often, or the market ends. The next question starts another.
		s.market.setWatches(func(all map[string]*watch) {
			maps.DeleteFunc(all, func(_ string, w *watch) bool { return w.ref == m.Ref })
		})
	case engine.Restarting, engine.Stopping:
		s.market.setWatches(func(all map[string]*watch) { clear(all) })
	}
}

func (m *Market) setWatches(change func(map[string]*watch)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(*m.watches.Load())
	if all == nil {
		all = make(map[string]*watch)
	}
	change(all)
	m.watches.Store(&all)
}

// assetActor keeps the prices of one asset.
type assetActor struct {
	watch  *watch
	store  Store
	tapes  *tapes
	now    func() time.Time
	ending func() bool // the process ends, and with it those that wait for alerts
	filter prices.Filter
	atr    float64
	frames [prices.Timeframes]frameState

	alerts        *alerts.Set             // nil until one is added
	notify        func(engine.Ref, any)   // sends a message to the Ref of an alert
	accepted      []marketdata.Tick       // the newest ticks, while there are alerts
	pending       []alerts.Entry          // alerts that wait for bars to be read
	priceRequests map[engine.Ref]struct{} // requests for the last price that wait with them
	timer         engine.Timer
	due           int64     // when timer fires, if the clock does not jump
	scheduled     time.Time // when timer was started
}

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
		for _, alert := range m.alerts {
			a.pending = append(a.pending, alerts.NewEntry(alert))
		}
		m.reply <- struct{}{}
		a.addPending(c)
	case dropAlerts:
		a.drop(m.refs)
	case askNeeded:
		m.reply <- len(a.pending) > 0 || a.alerts != nil && a.alerts.Next() != math.MaxInt64
	case askPrice:
		a.sendPrice(m.ref)
	case expireDue:
		a.onExpireDue(c)
	case ticksMissed:
		a.onTicksMissed(c)
	case engine.Stopping:
		if !a.ending() {
			a.notifyDropped()
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
	for frame := range a.watch.series {
		a.watch.series[frame].Store(nil)
	}
}

// errFailed is the reply to questions that waited when the actor panicked.
var errFailed = errors.New("the asset's actor failed")

// onRestarting answers waiting questions, which the next incarnation does not have.
func (a *assetActor) onRestarting() {
	for frame := range a.frames {
		a.frames[frame].answer(errFailed)
	}
	a.notifyDropped()
}

func (f *frameState) answer(err error) {
	for _, reply := range f.waiting {
		reply <- err
	}
	f.waiting = nil
}

func (a *assetActor) onLoad(c engine.Context, m loadSeries) {
	f := &a.frames[m.frame]
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
	if minutes := &a.frames[prices.M1]; !minutes.wanted {
		minutes.wanted = true
		a.read(c, prices.M1)
	}
}

// refresh reads a timeframe again, if it was asked for.
func (a *assetActor) refresh(c engine.Context, frame int) {
	f := &a.frames[frame]
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
	f := &a.frames[frame]
	f.loading, f.stale = true, false
	store, key := a.store, a.watch.key
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
	f := &a.frames[m.frame]
	f.loading = false
	if m.err != nil {
		f.pending = nil
		if signal.KindOf(m.err) == signal.KindNotFound {
			a.forget()
		} else {
			c.After(retryAfter, reload{m.frame})
		}
		f.answer(m.err)
		return
	}
	if before := a.watch.record.Load(); before.Source != m.record.Source || before.Speed != m.record.Speed {
		a.forgetPrices()
		for frame := range a.frames {
			a.frames[frame].loaded = false // its bars are of another source and are read again
		}
		if a.alerts != nil {
			defer a.onTicksMissed(c)
		}
	}
	a.watch.record.Store(&m.record)
	a.filter.Rising = m.record.Source == simulated.Name
	if m.live.Last.Time > a.filter.Last.Time {
		a.publishLast(m.live.Last)
		// A recent tick is in the stream as well, and so are the ticks before it, which count too.
		if a.alerts == nil && a.now().UnixMilli()-m.live.Last.Time > tapeKept {
			a.filter.Last, a.filter.Held = m.live.Last, marketdata.Tick{}
		}
	}
	f.loaded, f.count = true, m.count
	f.bars = make([]marketdata.Bar, 0, len(m.bars)+len(m.bars)/4)
	for i := range m.bars {
		f.bars = append(f.bars, m.bars[i].Bar)
	}
	for _, p := range f.pending {
		a.apply(p)
	}
	f.pending = nil
	a.publish(m.frame)
	f.answer(nil)
	if f.stale {
		a.read(c, m.frame) // alerts wait for the newer bars
		return
	}
	a.addPending(c)
}

// forget drops everything about an asset whose record was removed. Pending alerts are dropped, too.
func (a *assetActor) forget() {
	for frame := range a.frames {
		a.frames[frame].loaded, a.frames[frame].bars = false, nil
		a.watch.series[frame].Store(nil)
	}
	a.forgetPrices()
	a.dropPending()
}

func (a *assetActor) forgetPrices() {
	a.filter, a.atr = prices.Filter{}, 0
	a.watch.last.Store(nil)
}

func (a *assetActor) onClosed(c engine.Context, m barClosed) {
	f := &a.frames[m.frame]
	if m.bar.CloseTime == 0 {
		a.refresh(c, m.frame)
		return
	}
	if f.loading {
		f.pending = append(f.pending, m)
	}
	if f.loaded && a.apply(m) {
		a.publish(m.frame)
	}
	if a.alerts != nil {
		a.alerts.Bar(m.frame, m.bar)
		a.alerts.CloseBar(m.frame, m.bar)
		a.schedule(c)
	}
}

// apply adds a closed bar to the bars, and reports whether it was not among them yet.
func (a *assetActor) apply(m barClosed) bool {
	f := &a.frames[m.frame]
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

func (a *assetActor) publish(frame int) {
	bars := a.frames[frame].bars
	if frame == prices.M1 {
		a.atr = prices.ATROfBars(bars)
	}
	s := &series{}
	s.bars, s.err = usable(bars, a.watch.record.Load(), frame)
	a.watch.series[frame].Store(s)
}

// gapWindow is the number of newest bars that are checked for gaps, as many as a strategy uses.
const gapWindow = 1000

// usable returns the bars of a timeframe of the asset with record r with short gaps filled, or
// DATA_UNAVAILABLE if the newest gapWindow bars have too many or too long gaps. It leaves out the
// bars before the last gap of those before the window. A closed session is not a gap. If the
// sessions are not known the bars are returned unchanged.
func usable(bars []marketdata.Bar, r *marketdata.Asset, frame int) ([]marketdata.Bar, error) {
	next := func(b marketdata.Bar) int64 { return b.CloseTime }
	switch {
	case r.AlwaysOpen:
	case tradedIn(r) == sessions.Always:
		return bars, nil
	default:
		next = tradedIn(r).Following(frame, bars)
	}
	gap := -1 // the first bar after the newest gap
	for i := len(bars) - 1; i > 0 && gap < 0; i-- {
		if bars[i].OpenTime > next(bars[i-1]) {
			gap = i
		}
	}
	if gap < 0 {
		return bars, nil
	}
	begin := max(0, len(bars)-gapWindow)
	if gap <= begin {
		return bars[gap:], nil
	}
	filled, err := strategy.FillGaps(bars[begin:], next)
	if err != nil {
		return nil, err
	}
	older := begin
	for older > 0 && bars[older].OpenTime <= next(bars[older-1]) {
		older--
	}
	return append(slices.Clone(bars[older:begin]), filled...), nil
}

// tradedIn returns the session of the asset with record r. Assets whose prices come from outside
// have an unknown session and count as always open.
func tradedIn(r *marketdata.Asset) sessions.Session {
	if source.IsVenue(r.Source) {
		return sessions.Of(r.Class)
	}
	return sessions.Always
}
