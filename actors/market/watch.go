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
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// watchAsset asks for the watch of an asset that has a record; it is made if need
// be.
type watchAsset struct {
	key    string
	record marketdata.Asset
	reply  chan<- *watch
}

// loadSeries asks for a timeframe to be read and kept up to date. The reply is nil
// once it is, else what went wrong.
type loadSeries struct {
	frame int
	reply chan<- error
}

// seriesLoaded reports how a reading of the records ended.
type seriesLoaded struct {
	frame  int
	record marketdata.Asset
	live   marketdata.Live
	bars   []marketdata.AssetBar
	count  int64
	err    error
}

// ticked reports that the asset traded. Asset is the name as it stood in the stream.
type ticked struct{ tick marketdata.AssetTick }

// barClosed reports that a bar was closed or replaced; without a CloseTime, that the
// whole series was written again.
type barClosed struct {
	frame int
	count int64
	bar   marketdata.Bar
}

// missed reports that closed bars may have been missed, or that the asset's record is
// another one.
type missed struct{}

// reload asks for another attempt to read a timeframe.
type reload struct{ frame int }

// watch is what an asset's actor shows to the rest of the node.
type watch struct {
	key string
	ref engine.Ref

	// Written by the actor, read by all.
	record atomic.Pointer[marketdata.Asset] // never nil
	last   atomic.Pointer[marketdata.Tick]
	series [prices.Timeframes]atomic.Pointer[series]

	used atomic.Bool // it was asked for since its use was noted last
}

// series are the bars of one timeframe as strategies may use them, or why not.
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
			return &assetActor{watch: w, store: s.market.o.Store, tapes: s.market.tapes, now: s.market.o.Now}
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
		// It failed too often, or the market ends. Who asks next starts another.
		s.market.setWatches(func(all map[string]*watch) {
			maps.DeleteFunc(all, func(_ string, w *watch) bool { return w.ref == m.Ref })
		})
	case engine.Restarting, engine.Stopping:
		s.market.setWatches(func(all map[string]*watch) { clear(all) })
	}
}

// setWatches replaces the map of watches by a changed copy.
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
	filter prices.Filter
	atr    float64
	frames [prices.Timeframes]frameState

	alerts  *alerts.Set             // nil until one is added
	notify  func(engine.Ref, any)   // how alerts are notified, in tests; nil: by messages
	passed  []marketdata.Tick       // the newest ticks, while there are alerts
	waiting []alerts.Entry          // for bars to be read
	asked   map[engine.Ref]struct{} // who asked for the price meanwhile
	timer   engine.Timer
	due     int64     // when timer fires, if the clock does not jump
	looked  time.Time // when it was set
}

// frameState is what an asset's actor knows of one timeframe.
type frameState struct {
	wanted  bool // it was asked for
	loaded  bool
	loading bool
	again   bool             // what is being read is out of date already
	bars    []marketdata.Bar // ascending; shared with readers up to its length
	count   int64            // of the closed bars that are in bars
	pending []barClosed      // came while it is being read
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
		for _, w := range m.alerts {
			a.waiting = append(a.waiting, alerts.NewEntry(w))
		}
		m.reply <- struct{}{}
		a.alertWaiting(c)
	case dropAlerts:
		a.drop(m.refs)
	case askNeeded:
		m.reply <- len(a.waiting) > 0 || a.alerts != nil && a.alerts.Next() != math.MaxInt64
	case askPrice:
		a.sendLastPrice(m.ref)
	case expireDue:
		a.onExpireDue(c)
	case ticksMissed:
		a.onTicksMissed(c)
	case engine.Stopping:
		a.tellDropped()
	case missed:
		a.onMissed(c)
	case reload:
		a.refresh(c, m.frame)
	}
}

// onStarted takes back what a former incarnation showed, since it is not kept up
// to date any more: who asks next has it read again. Nothing is read before
// somebody asks, since only then the reader of the streams knows this actor.
func (a *assetActor) onStarted() {
	for frame := range a.watch.series {
		a.watch.series[frame].Store(nil)
	}
}

// errFailed is the answer to those who waited for an actor that panicked.
var errFailed = errors.New("the asset's actor failed")

// onRestarting answers who waits: the next incarnation knows nothing of them.
func (a *assetActor) onRestarting() {
	for frame := range a.frames {
		for _, reply := range a.frames[frame].waiting {
			reply <- errFailed
		}
	}
	a.tellDropped()
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
	// Bars of 1m say what a bad tick is.
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
		f.again = true
	default:
		a.read(c, frame)
	}
}

// loadTimeout bounds a reading of the records.
const loadTimeout = 5 * time.Second

func (a *assetActor) read(c engine.Context, frame int) {
	f := &a.frames[frame]
	f.loading, f.again = true, false
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
	waiting := f.waiting
	f.waiting = nil
	if m.err != nil {
		f.pending = nil
		if signal.KindOf(m.err) == signal.KindNotFound {
			a.forget()
		} else {
			c.After(askAgainAfter, reload{m.frame})
		}
		for _, reply := range waiting {
			reply <- m.err
		}
		return
	}
	if before := a.watch.record.Load(); before.Source != m.record.Source || before.Speed != m.record.Speed {
		a.forgetPrices()
		for frame := range a.frames {
			a.frames[frame].loaded = false // its bars are of another source; it is read again
		}
		if a.alerts != nil {
			defer a.onTicksMissed(c)
		}
	}
	a.watch.record.Store(&m.record)
	a.filter.Rising = m.record.Source == simulated.Name
	if m.live.Last.Time > a.filter.Last.Time {
		a.showLast(m.live.Last)
		// One that is not old is in the stream as well. The ticks before it may be on their
		// way: they count.
		if a.alerts == nil && a.now().UnixMilli()-m.live.Last.Time > tapeKept {
			a.filter.Last, a.filter.Held = m.live.Last, marketdata.Tick{}
		}
	}
	f.loaded, f.count = true, m.count
	f.bars = make([]marketdata.Bar, 0, len(m.bars)+len(m.bars)/4)
	for i := range m.bars {
		f.bars = append(f.bars, m.bars[i].Bar)
	}
	pending := f.pending
	f.pending = nil
	for _, p := range pending {
		a.apply(p)
	}
	a.show(m.frame)
	for _, reply := range waiting {
		reply <- nil
	}
	if f.again {
		a.read(c, m.frame)
		return // what was read is not all that has happened
	}
	a.alertWaiting(c)
}

// forget drops all that is known of an asset whose record was removed. Who waits asks again, and is
// told so.
func (a *assetActor) forget() {
	for frame := range a.frames {
		a.frames[frame].loaded, a.frames[frame].bars = false, nil
		a.watch.series[frame].Store(nil)
	}
	a.forgetPrices()
	a.dropWaiting()
}

// forgetPrices drops what another source gave.
func (a *assetActor) forgetPrices() {
	a.filter, a.atr = prices.Filter{}, 0
	a.watch.last.Store(nil)
}

// onTick takes the tick of the source that gives the asset's prices: what others say of
// the asset is not its price.
func (a *assetActor) onTick(c engine.Context, m ticked) {
	if m.tick.Source != a.watch.record.Load().Source {
		return
	}
	if m.tick.Missed != 0 {
		// The records have had the bars of that time since before the tick was written.
		a.frames[prices.M1].loaded = false
		a.refresh(c, prices.M1)
		if a.alerts != nil {
			a.alerts.MissedSince(m.tick.Missed)
			a.onTicksMissed(c)
		}
	}
	if bars := a.frames[prices.M1].bars; a.filter.Last.Time == 0 {
		if i := prices.LastBefore(len(bars), m.tick.Time, func(i int) int64 { return bars[i].CloseTime }); i >= 0 {
			a.filter.Begin(m.tick.Tick, bars[i].CloseTime, bars[i].Close, prices.BarLimit(prices.M1, a.watch.record.Load().Speed))
		}
	}
	passed, _ := a.filter.Take(m.tick.Tick, a.atr)
	if len(passed) == 0 {
		return
	}
	a.showLast(a.filter.Last)
	if a.alerts != nil {
		a.take(c, passed)
	}
}

// showLast shows the newest price, unless a newer one is shown.
func (a *assetActor) showLast(t marketdata.Tick) {
	if shown := a.watch.last.Load(); shown == nil || shown.Time <= t.Time {
		a.watch.last.Store(&marketdata.Tick{Price: t.Price, Volume: t.Volume, Time: t.Time})
	}
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
		a.show(m.frame)
	}
	if a.alerts != nil {
		a.alerts.Bar(m.frame, m.bar)
		a.alerts.CloseBar(m.frame, m.bar)
		a.schedule(c)
	}
}

// apply works in a closed bar that is not in the bars yet. It returns false if it
// is.
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
		f.bars = append(f.bars, m.bar) // behind what readers see
	case f.bars[i].OpenTime == m.bar.OpenTime:
		f.bars = slices.Clone(f.bars)
		f.bars[i] = m.bar
	default:
		f.bars = slices.Insert(slices.Clone(f.bars), i, m.bar)
	}
	f.bars = f.bars[max(0, len(f.bars)-prices.RecordKept):]
	return true
}

// show publishes the bars of a timeframe.
func (a *assetActor) show(frame int) {
	bars := a.frames[frame].bars
	if frame == prices.M1 {
		a.atr = prices.ATROfBars(bars)
	}
	s := &series{}
	s.bars, s.err = usable(bars, a.watch.record.Load(), frame)
	a.watch.series[frame].Store(s)
}

// gapWindow is of how many bars gaps are judged: what a strategy asks for.
const gapWindow = 1000

// usable returns the bars of a timeframe of the asset with record r with short gaps
// filled, or DATA_UNAVAILABLE if there are too many or long ones in the newest thousand.
// What lies before the first older gap is left out. Closed sessions are no gaps; where
// they are not known the bars stay as they are.
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
