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
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// watchedPrices is a market whose prices a test makes, on the clock of a bubble at speed
// 60, and all that it was told of it.
type watchedPrices struct {
	t                *testing.T
	sys              *engine.System
	store            *fakeStore
	market           *Market
	rng              *rand.Rand
	price            float64
	good             []marketdata.Tick // those that are no mistakes
	open             marketdata.AssetBar
	mistaken         bool // the last trade was a mistake
	mistakes, panics int
}

// readTicks is what the readers note once the streams are read up to their ends.
func (m *Market) readTicks() {
	for range tickStreams {
		m.tapes.caughtUp()
	}
}

func newWatchedPrices(t *testing.T, seed uint64) *watchedPrices {
	w := &watchedPrices{t: t, sys: engine.NewSystem(engine.Options{}), rng: rand.New(rand.NewPCG(seed, 11)), price: 1000,
		store: &fakeStore{asset: marketdata.Asset{Symbol: "X", Source: source.Stream, Class: assets.Crypto, Speed: 60, AlwaysOpen: true}}}
	w.market = New(w.sys, Options{Store: w.store, Now: time.Now, Sources: "stream"})
	w.market.readTicks()
	return w
}

// say writes a trade to the stream.
func (w *watchedPrices) say(price float64) {
	now := time.Now().UnixMilli()
	w.market.tellTicks(marketdata.GivenTicks, []marketdata.Entry{{Position: signal.Position{MS: now},
		Fields: map[string]string{"asset": "X", "price": strconv.FormatFloat(price, 'g', -1, 64)}}})
}

// step lets 100 ms pass, and mostly the asset trade. One trade in fifty is a mistake.
func (w *watchedPrices) step() {
	time.Sleep(100 * time.Millisecond)
	now := time.Now().UnixMilli()
	w.closeBar(now)
	switch n := w.rng.IntN(50); {
	case n == 0 && len(w.store.bars) > 2*prices.AtrLength && !w.mistaken: // the next one would confirm it
		w.mistakes++
		w.mistaken = true
		w.say(w.price + []float64{-500, 500}[w.rng.IntN(2)])
	case n > 4:
		w.price += w.rng.NormFloat64()
		w.mistaken = false
		w.good = append(w.good, marketdata.Tick{Price: w.price, Time: now})
		if w.open.CloseTime == 0 {
			opens := now - now%1000
			w.open = marketdata.AssetBar{Asset: "X", Timeframe: signal.M1, Bar: marketdata.Bar{OpenTime: opens, CloseTime: opens + 1000,
				Open: w.price, High: w.price, Low: w.price}}
		}
		b := &w.open.Bar
		b.High, b.Low, b.Close = max(b.High, w.price), min(b.Low, w.price), w.price
		w.say(w.price)
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
	w.market.tellClosed(&marketdata.ClosedBar{Count: count, Bar: b})
}

// fail has the asset's actor panic.
func (w *watchedPrices) fail() {
	if all := *w.market.watches.Load(); all["X"] != nil {
		w.panics++
		all["X"].ref.Tell(reload{frame: prices.Timeframes})
	}
}

// leave tells an asker to end.
type leave struct{}

// asker is the actor of one alert: it asks again when it is told to.
type asker struct {
	market *Market
	alert  alerts.Alert

	mu  *sync.Mutex
	end *[]any
}

func (a *asker) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, alerts.Dropped:
		alert, market := a.alert, a.market
		alert.Ref = c.Self()
		c.Go(func(ctx context.Context) any {
			for ctx.Err() == nil && market.Alert(ctx, "x", []alerts.Alert{alert}) != nil {
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
		a.market.Unalert("X", c.Self())
	}
}

// plainEnd returns what an alert must be told by now, by a look at all prices.
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

// TestAlertsEndAsPricesSayWhateverFails: alerts of any beginning, an asset's actor that
// fails again and again, owners that are replaced, and mistakes among the prices.
func TestAlertsEndAsPricesSayWhateverFails(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			w := newWatchedPrices(t, seed)
			defer w.sys.Shutdown(context.Background())
			for range 600 {
				w.step()
			}
			var mu sync.Mutex
			var list []alerts.Alert
			ends := make([][]any, 300)
			var owner []engine.Ref
			watch := func(i int) engine.Ref {
				return w.sys.Spawn(engine.Signal, strconv.Itoa(i), func() engine.Actor {
					return &asker{market: w.market, alert: list[i], mu: &mu, end: &ends[i]}
				}, engine.Supervision{})
			}
			for n := range 2400 {
				w.step()
				now := time.Now().UnixMilli()
				if n%8 == 0 && len(list) < len(ends) {
					list = append(list, alerts.Alert{Lower: w.price - 2 - 30*w.rng.Float64(), Upper: w.price + 2 + 30*w.rng.Float64(),
						Since: now - w.rng.Int64N(2)*w.rng.Int64N(40_000), Expires: now + w.rng.Int64N(90_000), Frame: signal.M1})
					owner = append(owner, watch(len(list)-1))
				}
				if n%97 == 0 {
					w.fail()
				}
				if n%31 == 0 && len(list) > 0 { // an owner is replaced, unless it has heard the end
					i := w.rng.IntN(len(list))
					synctest.Wait() // else the end may be on its way to both
					mu.Lock()
					over := len(ends[i]) > 0
					mu.Unlock()
					if !over {
						owner[i].Tell(leave{})
						owner[i] = watch(i)
					}
				}
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			over := 0
			for i, a := range list {
				want := w.plainEnd(a, time.Now().UnixMilli())
				if want == nil {
					if len(ends[i]) != 0 {
						t.Errorf("seed %d: alert %d has ended: %+v", seed, i, ends[i])
					}
					continue
				}
				over++
				if diff := cmp.Diff([]any{want}, ends[i]); diff != "" {
					t.Errorf("seed %d: alert %d, %+v (-want +got):\n%s", seed, i, a, diff)
				}
			}
			if over < 150 || w.panics < 20 || w.mistakes < 20 {
				t.Errorf("seed %d: %d alerts are over, %d panics, %d mistakes: it tests little", seed, over, w.panics, w.mistakes)
			}
		})
	}
}

// hearer collects what its alerts tell.
type hearer struct {
	mu   sync.Mutex
	told []any
}

func (h *hearer) Receive(c engine.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := c.Message().(type) {
	case alerts.Reached, alerts.Expired, alerts.Dropped, alerts.LastPrice:
		h.told = append(h.told, m)
	}
}

func (h *hearer) all() []any {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// barMarket is a market of an asset without ticks, ten bars of 1m old, at speed 60, on a
// clock that is set by hand.
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
		m := &barMarket{Clock: markettest.NewClock(), sys: engine.NewSystem(engine.Options{}), store: &fakeStore{count: 10,
			asset: marketdata.Asset{Symbol: "X", Source: source.Stream, Class: assets.Crypto, Speed: 60, AlwaysOpen: true}}}
		defer m.sys.Shutdown(context.Background())
		for i := range int64(10) {
			m.store.bars = append(m.store.bars, flatMinute(m.Now().UnixMilli()+1000*(i-10)))
		}
		m.Market = New(m.sys, Options{Store: m.store, Now: m.Now, Sources: "stream"})
		m.readTicks()
		test(t, m)
	})
}

// hearer spawns a hearer.
func (m *barMarket) hearer() (*hearer, engine.Ref) {
	h := &hearer{}
	return h, m.sys.Spawn(engine.Signal, "hearer", func() engine.Actor { return h }, engine.Supervision{})
}

// hear returns a hearer of an alert for the asset X from 90 to 110.
func (m *barMarket) hear(t *testing.T, since, expires int64) *hearer {
	t.Helper()
	h, ref := m.hearer()
	if err := m.Alert(t.Context(), "x", []alerts.Alert{{Ref: ref, Lower: 90, Upper: 110, Since: since, Expires: expires, Frame: signal.M1}}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return h
}

func flatMinute(opens int64) marketdata.AssetBar {
	return marketdata.AssetBar{Asset: "X", Timeframe: signal.M1,
		Bar: marketdata.Bar{OpenTime: opens, CloseTime: opens + 1000, Open: 100, High: 100, Low: 100, Close: 100}}
}

// TestQuotesComeBehindWhatHappenedBefore: the price is told to who has an alert, once the
// bars are read that say what it has missed, and not if that was its end.
func TestQuotesComeBehindWhatHappenedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		low  float64 // of a bar that it has missed
		want func(opens int64, b *marketdata.Bar) []any
	}{
		"open": {95, func(int64, *marketdata.Bar) []any {
			return []any{alerts.LastPrice{Price: 100, Span: alerts.Span{Low: 95, High: 100}, Frame: 1000}}
		}},
		"over": {80, func(opens int64, b *marketdata.Bar) []any {
			return []any{alerts.Reached{Tick: marketdata.Tick{Price: 100, Time: opens + 1000}, Bar: b, Past: true, Span: alerts.Span{Low: 80, High: 100}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withBars(t, func(t *testing.T, m *barMarket) {
				missed := &m.store.bars[5].Bar
				missed.Low = c.low
				opens, b := missed.OpenTime, *missed
				h, ref := m.hearer()
				m.SendLastPrice("x", ref) // nobody has asked for the asset yet
				if _, err := m.load(t.Context(), "x", prices.M1); err != nil {
					t.Fatal(err)
				}
				m.store.onBars = func() { m.SendLastPrice("x", ref) } // while the alert waits for bars of longer timeframes
				now := m.Now().UnixMilli()
				if err := m.Alert(t.Context(), "x", []alerts.Alert{{Ref: ref, Lower: 90, Upper: 110, Since: now - 20_000, Expires: now + 60_000, Frame: signal.M1}}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want(opens, &b), h.all()); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAlertsOfAnAssetThatIsGoneAreMadeAgain(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		m.store.onBars = func() { // it goes when its 1m bars have been read, and longer ones have not
			m.store.mu.Lock()
			m.store.asset.Symbol = "Y"
			m.store.mu.Unlock()
		}
		h := m.hear(t, now-60_000, now+60_000)
		if diff := cmp.Diff([]any{alerts.Dropped{}}, h.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if err := m.Alert(t.Context(), "x", nil); runErrorOf(t, err).Retryable {
			t.Errorf("asked again: %v", err)
		}
	})
}

// The record of an asset may know a price before the ticks that lead to it are read: they
// count all the same.
func TestTicksOnTheirWayCountBehindANewerRecord(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		m.store.asset.Source = simulated.Name
		say := func(price string, at, missed int64) {
			fields := map[string]string{"asset": "X", "price": price, "time": strconv.FormatInt(at, 10), "source": simulated.Name}
			if missed != 0 {
				fields["missed"] = strconv.FormatInt(missed, 10)
			}
			m.tellTicks(marketdata.OwnTicks, []marketdata.Entry{{Position: signal.Position{MS: m.Now().UnixMilli()}, Fields: fields}})
			synctest.Wait()
		}
		begin := m.Now().UnixMilli()
		say("100", begin, 0)
		h := m.hear(t, begin, begin+600_000)
		m.Add(2 * time.Minute)
		now := m.Now().UnixMilli()
		m.store.mu.Lock()
		m.store.live = marketdata.Live{Asset: "X", Last: marketdata.Tick{Price: 100, Time: now}}
		m.store.mu.Unlock()
		say("101", now-50_000, begin)
		say("111", now-40_000, 0)
		say("100", now, 0)
		want := []any{alerts.Reached{Tick: marketdata.Tick{Price: 111, Time: now - 40_000}, Span: alerts.Span{Low: 101, High: 111}}}
		if diff := cmp.Diff(want, h.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestBarsThatWereMissedAreMadeUpFor(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		h := m.hear(t, now, now+60_000)
		m.Add(2 * time.Second)
		dip, flat := flatMinute(now), flatMinute(now+1000)
		dip.Low = 80
		m.store.mu.Lock()
		m.store.bars, m.store.count = append(m.store.bars, dip, flat), 12
		m.store.mu.Unlock()
		m.tellAll(missed{}) // of the first
		m.tellClosed(&marketdata.ClosedBar{Count: 12, Bar: flat})
		b := dip.Bar
		want := []any{alerts.Reached{Tick: marketdata.Tick{Price: 100, Time: now + 1000}, Bar: &b, Past: true, Span: alerts.Span{Low: 80, High: 100}}}
		if diff := cmp.Diff(want, h.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestAClockThatJumpsEndsWhatIsOver(t *testing.T) {
	withBars(t, func(t *testing.T, m *barMarket) {
		now := m.Now().UnixMilli()
		h := m.hear(t, now, now+3_600_000)
		m.Add(2 * time.Hour)
		time.Sleep(clockEvery + time.Second)
		if told := h.all(); len(told) != 0 { // what was traded meanwhile may be on its way
			t.Errorf("told %+v at once", told)
		}
		m.Add(alerts.UnwatchedFor * time.Millisecond)
		time.Sleep(clockEvery + time.Second)
		want := []any{alerts.Expired{At: now + 3_600_000 + strategy.MinAge, Stale: true}}
		if diff := cmp.Diff(want, h.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
