package market

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// watchedPrices is a market at speed 60 with random prices, on the clock of a synctest bubble, and
// a record of these prices.
type watchedPrices struct {
	sys              *engine.System
	store            *fakeStore
	market           *Market
	rng              *rand.Rand
	price            float64
	good             []marketdata.Tick // without the bad ticks
	open             marketdata.AssetBar
	lastBad          bool // the last tick was bad
	badTicks, panics int
}

// readTicks records that the streams have been read to their ends, as the readers do.
func (m *Market) readTicks() {
	for range tickStreams {
		m.recent.caughtUp()
	}
}

func newWatchedPrices(seed uint64) *watchedPrices {
	w := &watchedPrices{sys: engine.NewSystem(engine.Options{}), store: &fakeStore{asset: cryptoX},
		rng: rand.New(rand.NewPCG(seed, 11)), price: 1000}
	w.market = New(w.sys, Options{Store: w.store, Now: time.Now, Sources: "stream"})
	w.market.readTicks()
	return w
}

func (w *watchedPrices) trade(price float64) {
	fields := map[string]string{"asset": "X", "price": strconv.FormatFloat(price, 'g', -1, 64)}
	w.market.ticks[marketdata.GivenTicks].deliver([]marketdata.Entry{
		{Position: signal.Position{MS: time.Now().UnixMilli()}, Fields: fields},
	})
}

// step advances time by 100 ms, usually with a trade. One tick in fifty is bad.
func (w *watchedPrices) step() {
	time.Sleep(100 * time.Millisecond)
	now := time.Now().UnixMilli()
	w.closeBar(now)
	switch n := w.rng.IntN(50); {
	case n == 0 && len(w.store.bars) > 2*prices.ATRLength && !w.lastBad: // the next one would confirm it
		w.badTicks++
		w.lastBad = true
		w.trade(w.price + []float64{-500, 500}[w.rng.IntN(2)])
	case n > 4:
		w.price += w.rng.NormFloat64()
		w.lastBad = false
		w.good = append(w.good, marketdata.Tick{Price: w.price, Time: now})
		if w.open.CloseTime == 0 {
			w.open = flatMinute(now-now%1000, w.price)
		}
		b := &w.open.Bar
		b.High, b.Low, b.Close = max(b.High, w.price), min(b.Low, w.price), w.price
		w.trade(w.price)
	}
	synctest.Wait()
}

// closeBar closes the bar of 1m that is over.
func (w *watchedPrices) closeBar(now int64) {
	if w.open.CloseTime == 0 || now < w.open.CloseTime {
		return
	}
	b := w.open
	w.open = marketdata.AssetBar{}
	w.store.mu.Lock()
	w.store.bars = append(w.store.bars, b)
	w.store.count++
	count := w.store.count
	w.store.mu.Unlock()
	w.market.bars.deliver(&marketdata.ClosedBar{Count: count, Bar: b})
}

func (w *watchedPrices) fail() {
	if all := *w.market.loader.watches.all.Load(); all["X"] != nil {
		w.panics++
		all["X"].ref.Tell(reload{frame: prices.Timeframes})
	}
}

// leave asks an alertOwner to stop.
type leave struct{}

// alertOwner is the actor of one alert, which it adds again when the alert is dropped.
type alertOwner struct {
	market *Market
	alert  alerts.Alert

	mu  *sync.Mutex
	end *[]any
}

func (a *alertOwner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, alerts.Dropped:
		alert, market := a.alert, a.market
		alert.Ref = c.Self()
		c.Go(func(ctx context.Context) any {
			for ctx.Err() == nil && market.Alerts.Alert(ctx, "x", []alerts.Alert{alert}) != nil {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
	case alerts.Reached, alerts.Expired:
		a.mu.Lock()
		defer a.mu.Unlock()
		*a.end = append(*a.end, m)
	case leave:
		c.Stop(c.Self())
	case engine.Stopping:
		a.market.Alerts.Unalert("X", c.Self())
	}
}

// plainEnd returns how an alert must have ended by now, by all prices, or nil.
func (w *watchedPrices) plainEnd(a alerts.Alert, now int64) any {
	var span alerts.Span
	var last float64
	for _, t := range w.good {
		switch {
		case t.Time <= a.Since:
			continue
		case t.Time > a.Expires:
			return alerts.Expired{At: a.Expires, Price: last, Span: span}
		}
		span, last = span.With(t.Price, t.Price), t.Price
		if t.Price <= a.Lower || t.Price >= a.Upper {
			return alerts.Reached{Tick: t, Span: span}
		}
	}
	if a.Expires+alerts.TickGrace <= now {
		return alerts.Expired{At: a.Expires, Price: last, Span: span}
	}
	return nil
}

// TestAlertsSurviveFailures has alerts that begin at any time, an asset's actor that panics
// repeatedly, owners that are replaced, and bad ticks.
func TestAlertsSurviveFailures(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(until2026)
			w := newWatchedPrices(seed)
			defer w.sys.Shutdown(context.Background())
			for range 600 {
				w.step()
			}
			var mu sync.Mutex
			var list []alerts.Alert
			ends := make([][]any, 300)
			var owners []engine.Ref
			own := func(i int) engine.Ref {
				return w.sys.Spawn(engine.Signal, strconv.Itoa(i), func() engine.Actor {
					return &alertOwner{market: w.market, alert: list[i], mu: &mu, end: &ends[i]}
				}, engine.Supervision{})
			}
			for n := range 2400 {
				w.step()
				if n%8 == 0 && len(list) < len(ends) {
					list = append(list, w.randomAlert())
					owners = append(owners, own(len(list)-1))
				}
				if n%97 == 0 {
					w.fail()
				}
				if n%31 == 0 && len(list) > 0 { // an owner is replaced, unless its alert has ended
					i := w.rng.IntN(len(list))
					synctest.Wait() // otherwise the end may be on its way to both
					mu.Lock()
					ended := len(ends[i]) > 0
					mu.Unlock()
					if !ended {
						owners[i].Tell(leave{})
						owners[i] = own(i)
					}
				}
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			w.checkEnds(t, seed, list, ends)
		})
	}
}

// randomAlert returns an alert around the price that began up to 40 s ago.
func (w *watchedPrices) randomAlert() alerts.Alert {
	now := time.Now().UnixMilli()
	return alerts.Alert{
		Lower: w.price - 2 - 30*w.rng.Float64(), Upper: w.price + 2 + 30*w.rng.Float64(),
		Since:   now - w.rng.Int64N(2)*w.rng.Int64N(40_000),
		Expires: now + w.rng.Int64N(90_000), Frame: signal.M1,
	}
}

// checkEnds compares the ends of alerts with those that all prices cause.
func (w *watchedPrices) checkEnds(t *testing.T, seed uint64, list []alerts.Alert, ends [][]any) {
	t.Helper()
	over := 0
	for i, a := range list {
		var want []any
		if end := w.plainEnd(a, time.Now().UnixMilli()); end != nil {
			want = []any{end}
			over++
		}
		if diff := cmp.Diff(want, ends[i]); diff != "" {
			t.Errorf("seed %d: alert %d, %+v (-want +got):\n%s", seed, i, a, diff)
		}
	}
	if over < 150 || w.panics < 20 || w.badTicks < 20 {
		t.Errorf("seed %d: only %d ended alerts, %d panics, %d bad ticks", seed, over, w.panics, w.badTicks)
	}
}

// collector is an actor that collects the notifications of its alerts.
type collector struct {
	mu  sync.Mutex
	got []any
}

func (h *collector) Receive(c engine.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := c.Message().(type) {
	case alerts.Reached, alerts.Expired, alerts.Dropped, alerts.LastPrice:
		h.got = append(h.got, m)
	}
}

func (h *collector) all() []any {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got
}

// barMarket is a market of an asset without ticks and with ten bars of 1m, at speed 60, on a clock
// that the test moves.
type barMarket struct {
	*Market
	*markettest.Clock
	sys   *engine.System
	store *fakeStore
}

// withBars runs test with a barMarket in a bubble.
func withBars(t *testing.T, test func(t *testing.T, m *barMarket)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &barMarket{Clock: markettest.NewClock(), sys: engine.NewSystem(engine.Options{}),
			store: &fakeStore{count: 10, asset: cryptoX}}
		defer m.sys.Shutdown(context.Background())
		for i := range int64(10) {
			m.store.bars = append(m.store.bars, flatMinute(m.Now().UnixMilli()+1000*(i-10), 100))
		}
		m.Market = New(m.sys, Options{Store: m.store, Now: m.Now, Sources: "stream"})
		m.readTicks()
		test(t, m)
	})
}

func (m *barMarket) collector() (*collector, engine.Ref) {
	h := &collector{}
	return h, m.sys.Spawn(engine.Signal, "collector", func() engine.Actor { return h }, engine.Supervision{})
}

// alertBetween90And110 adds an alert and waits until all its notifications so far have come.
func (m *barMarket) alertBetween90And110(t *testing.T, ref engine.Ref, since, expires int64) {
	t.Helper()
	alert := alerts.Alert{Ref: ref, Lower: 90, Upper: 110, Since: since, Expires: expires, Frame: signal.M1}
	if err := m.Alerts.Alert(t.Context(), "x", []alerts.Alert{alert}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// alerted returns the collector of an alert from 90 to 110.
func (m *barMarket) alerted(t *testing.T, since, expires int64) *collector {
	t.Helper()
	h, ref := m.collector()
	m.alertBetween90And110(t, ref, since, expires)
	return h
}

func (h *collector) check(t *testing.T, want ...any) {
	t.Helper()
	if diff := cmp.Diff(want, h.all()); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

func flatMinute(opens int64, price float64) marketdata.AssetBar {
	return marketdata.AssetBar{Asset: "X", Timeframe: signal.M1, Bar: markettest.FlatBar(opens, 1000, price)}
}

// An alert gets the last price once it has caught up by bars, unless it ended.
func TestLastPriceComesAfterCatchingUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		low  float64 // of a missed bar
		want func(b *marketdata.Bar) any
	}{
		"active": {95, func(*marketdata.Bar) any {
			return alerts.LastPrice{Price: 100, Span: alerts.Span{Low: 95, High: 100}, Frame: 1000, Left: .75}
		}},
		"ended": {80, func(b *marketdata.Bar) any { return reachedInPast(b) }},
	} {
		t.Run(name, func(t *testing.T) {
			withBars(t, func(t *testing.T, m *barMarket) {
				missed := &m.store.bars[5].Bar
				missed.Low = c.low
				b := *missed
				h, ref := m.collector()
				m.Alerts.RequestPrice("x", ref) // the asset has no actor yet
				if _, err := m.loader.load(t.Context(), "x", prices.M1); err != nil {
					t.Fatal(err)
				}
				m.store.onBars = func() { m.Alerts.RequestPrice("x", ref) } // while the alert waits for bars
				now := m.Now().UnixMilli()
				m.alertBetween90And110(t, ref, now-20_000, now+60_000)
				h.check(t, c.want(&b))
			})
		})
	}
}

// reachedInPast is the notification of an alert that catches up by a bar that fell to 80.
func reachedInPast(b *marketdata.Bar) alerts.Reached {
	tick := marketdata.Tick{Price: b.Close, Time: b.CloseTime}
	return alerts.Reached{Tick: tick, Bar: b, Past: true, Span: alerts.Span{Low: 80, High: 100}}
}

func TestAlertsOfARemovedAssetAreDropped(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		m.store.onBars = func() { // the asset is removed between the reads of 1m and of longer bars
			m.store.mu.Lock()
			m.store.asset.Symbol = "Y"
			m.store.mu.Unlock()
		}
		m.alerted(t, now-60_000, now+60_000).check(t, alerts.Dropped{})
		if err := m.Alerts.Alert(t.Context(), "x", nil); markettest.RunError(t, err).Retryable {
			t.Errorf("asked again: %v", err)
		}
	})
}

// When the process ends, a million alerts end with their assets: they are neither removed nor reported.
func TestAlertsEndWithTheProcess(t *testing.T) {
	for name, ends := range map[string]bool{"the process": true, "the market": false} {
		t.Run(name, func(t *testing.T) {
			withBars(t, func(t *testing.T, m *barMarket) {
				h, ref := m.collector()
				now := m.Now().UnixMilli()
				m.alertBetween90And110(t, ref, now, now+60_000)
				var want []any
				if ends {
					m.sys.ShutdownFollows()
					m.Alerts.Unalert("x", ref)
				} else {
					want = []any{alerts.Dropped{}}
				}
				if err := m.sys.End(t.Context(), m.loader.parent); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, h.all()); diff != "" {
					t.Errorf("notifications when %s ends (-want +got):\n%s", name, diff)
				}
			})
		})
	}
}

// The record of an asset may hold a price before the ticks that lead to it are read. They still count.
func TestTicksCountAfterANewerRecord(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		m.store.asset.Source = simulated.Name
		tick := func(price float64, at, missed int64) {
			tick := &marketdata.AssetTick{Asset: "X", Source: simulated.Name, Missed: missed,
				Tick: marketdata.Tick{Price: price, Time: at}}
			written := signal.Position{MS: m.Now().UnixMilli()}
			m.ticks[marketdata.OwnTicks].deliver([]marketdata.Entry{{Position: written, Tick: tick}})
			synctest.Wait()
		}
		begin := m.Now().UnixMilli()
		tick(100, begin, 0)
		h := m.alerted(t, begin, begin+600_000)
		m.Add(2 * time.Minute)
		now := m.Now().UnixMilli()
		m.store.mu.Lock()
		m.store.live = marketdata.Live{Asset: "X", Last: marketdata.Tick{Price: 100, Time: now}}
		m.store.mu.Unlock()
		tick(101, now-50_000, begin)
		tick(111, now-40_000, 0)
		tick(100, now, 0)
		reached := marketdata.Tick{Price: 111, Time: now - 40_000}
		h.check(t, alerts.Reached{Tick: reached, Span: alerts.Span{Low: 101, High: 111}})
	})
}

func TestAlertsCatchUpOnMissedBars(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		h := m.alerted(t, now, now+60_000)
		m.Add(2 * time.Second)
		dip, flat := flatMinute(now, 100), flatMinute(now+1000, 100)
		dip.Low = 80
		m.store.mu.Lock()
		m.store.bars, m.store.count = append(m.store.bars, dip, flat), 12
		m.store.mu.Unlock()
		m.loader.watches.tell(barsMissed{}) // for the first
		m.bars.deliver(&marketdata.ClosedBar{Count: 12, Bar: flat})
		h.check(t, reachedInPast(&dip.Bar))
	})
}

func TestAlertsExpireAfterAJumpOfTheClock(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		h := m.alerted(t, now, now+3_600_000)
		m.Add(2 * time.Hour)
		time.Sleep(maxExpiryWait + time.Second)
		h.check(t) // trades during the jump may still come
		m.Add(alerts.ExpiryDelay * time.Millisecond)
		time.Sleep(maxExpiryWait + time.Second)
		h.check(t, alerts.Expired{At: now + 3_600_000 + strategy.MinAge, Stale: true})
	})
}
