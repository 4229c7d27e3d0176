package market

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// walkedMarket holds prices of an asset at speed 60 as ticks and as bars of 1m and 5m.
type walkedMarket struct {
	ticks []marketdata.Tick
	bars  [2][]marketdata.Bar
}

// walkMarket returns a driftless random walk with ten ticks a second.
func walkMarket(seed uint64, seconds int) *walkedMarket {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := &walkedMarket{}
	price := 1000.0
	for second := range int64(seconds) {
		for i := range int64(10) {
			price += rng.NormFloat64()
			w.ticks = append(w.ticks, marketdata.Tick{Price: price, Time: 1_000_000 + second*1000 + i*100 + 50})
		}
	}
	for frame, length := range []int64{1000, 5000} {
		for _, t := range w.ticks {
			opens := t.Time - t.Time%length
			bars := w.bars[frame]
			if n := len(bars); n == 0 || bars[n-1].OpenTime != opens {
				w.bars[frame] = append(bars, markettest.FlatBar(opens, length, t.Price))
				continue
			}
			b := &bars[len(bars)-1]
			b.High, b.Low, b.Close = max(b.High, t.Price), min(b.Low, t.Price), t.Price
		}
	}
	return w
}

// cryptoX is the record of an asset X at speed 60.
var cryptoX = marketdata.Asset{Symbol: "X", Source: source.Stream, Class: assets.Crypto, Speed: 60, AlwaysOpen: true}

// newActor returns an actor of cryptoX outside of any actor system.
func newActor() *assetActor {
	record := cryptoX
	w := &watch{key: "X"}
	w.record.Store(&record)
	return newAssetActor(w, &Options{Now: markettest.NewClock().Now}, &recentTicks{}, nil)
}

// actorAt returns an asset's actor that has seen all prices up to a time, with the ticks of the
// last ticksMS milliseconds kept and so many bars of 1m.
func (w *walkedMarket) actorAt(at, ticksMS int64, minutes int) *assetActor {
	a := newActor()
	for _, t := range w.ticks {
		if t.Time <= at && t.Time > at-ticksMS {
			a.prices.recent.note(tickKey{"X", source.Stream}, t, t.Time, false)
		}
		if t.Time <= at {
			a.prices.filter.Last = t
		}
	}
	for frame := range w.bars {
		for _, b := range w.bars[frame] {
			if b.CloseTime <= at {
				a.prices.frames[frame].bars = append(a.prices.frames[frame].bars, b)
			}
		}
		a.prices.frames[frame].loaded = true
	}
	m := &a.prices.frames[prices.M1].bars
	*m = (*m)[max(0, len(*m)-minutes):]
	return a
}

// someAlerts returns alerts around the prices of w that begin at random times.
func (w *walkedMarket) someAlerts(refs []engine.Ref, seed uint64) []alerts.Alert {
	rng := rand.New(rand.NewPCG(seed, 3))
	var list []alerts.Alert
	for _, ref := range refs {
		t := w.ticks[rng.IntN(len(w.ticks)-100)]
		list = append(list, alerts.Alert{
			Ref: ref, Lower: t.Price - 5 - 40*rng.Float64(), Upper: t.Price + 5 + 40*rng.Float64(),
			Since: t.Time + rng.Int64N(100), Expires: t.Time + 5_000 + rng.Int64N(400_000), Frame: signal.M1,
		})
	}
	return list
}

func entriesOf(list []alerts.Alert) []alerts.Entry {
	var entries []alerts.Entry
	for _, a := range list {
		entries = append(entries, alerts.NewEntry(a))
	}
	return entries
}

// uninterrupted notifies alerts as a set that sees all prices in time.
func (w *walkedMarket) uninterrupted(list []alerts.Alert, notify func(engine.Ref, any)) *alerts.Set {
	s := alerts.NewSet(assets.Crypto, 60, sessions.Always, notify)
	left := slices.Clone(list)
	for _, t := range w.ticks {
		for i := 0; i < len(left); {
			if left[i].Since < t.Time {
				s.Add([]alerts.Entry{alerts.NewEntry(left[i])})
				left[i] = left[len(left)-1]
				left = left[:len(left)-1]
				continue
			}
			i++
		}
		s.Tick(t)
	}
	return s
}

// endOfAlert is the end of an alert as far as it is compared.
type endOfAlert struct {
	Lower, Upper, Expired bool
	At                    int64
	Price                 float64
}

func endsOf(list []alerts.Alert, got markettest.Messages) map[engine.Ref]endOfAlert {
	ends := map[engine.Ref]endOfAlert{}
	for _, a := range list {
		for _, m := range got[a.Ref] {
			switch m := m.(type) {
			case alerts.Reached:
				low, high := m.Tick.Price, m.Tick.Price
				if m.Bar != nil {
					low, high = m.Bar.Low, m.Bar.High
				}
				end := endOfAlert{Lower: low <= a.Lower, Upper: high >= a.Upper, At: m.Tick.Time, Price: m.Tick.Price}
				ends[a.Ref] = end
			case alerts.Expired:
				ends[a.Ref] = endOfAlert{Expired: true, At: m.At, Price: m.Price}
			}
		}
	}
	return ends
}

var sameRef = cmp.Comparer(func(a, b engine.Ref) bool { return a == b })

func TestLateAlertsEndEquallyByTicks(t *testing.T) {
	t.Parallel()
	refs := markettest.Refs(t, 200)
	for seed := range uint64(5) {
		w := walkMarket(seed, 600)
		list := w.someAlerts(refs, seed)
		got := markettest.Messages{}
		s := w.uninterrupted(list, got.Notify)
		all := endsOf(list, got)
		if len(all) < 100 || len(s.Refs()) < 5 {
			t.Fatalf("seed %d: %d ended, %d are left: choose other levels", seed, len(all), len(s.Refs()))
		}
		for _, at := range []int64{1_030_000, 1_300_000, 1_599_000} {
			got := markettest.Messages{}
			a := w.actorAt(at, 1<<40, 1<<20)
			a.alerts.notify = got.Notify
			a.alerts.add(nil)
			var begun []alerts.Alert
			want := map[engine.Ref]endOfAlert{}
			for _, x := range list {
				if x.Since <= at {
					begun = append(begun, x)
					if end, ok := all[x.Ref]; ok {
						want[x.Ref] = end
					}
				}
			}
			a.alerts.add(entriesOf(begun))
			for _, tick := range w.ticks {
				if tick.Time > at {
					a.alerts.set.Tick(tick)
				}
			}
			if diff := cmp.Diff(want, endsOf(begun, got), sameRef); diff != "" {
				t.Errorf("seed %d, taken over at %d (-want +got):\n%s", seed, at, diff)
			}
		}
	}
}

// Ticks that wait in the mailbox while alerts catch up are kept already. Only the newest counts again: two
// ticks may have the same time.
func TestTicksInTheMailboxDoNotCountTwice(t *testing.T) {
	t.Parallel()
	w := walkMarket(1, 60)
	newest := len(w.ticks) - 1
	a := w.actorAt(w.ticks[newest].Time, 1<<40, 1<<20)
	a.prices.filter = prices.Filter{} // it has not received any of them
	a.alerts.add(nil)
	for _, tick := range w.ticks[:newest] {
		a.onTick(nil, ticked{marketdata.AssetTick{Asset: "X", Source: source.Stream, Tick: tick}})
	}
	if !slices.Equal(w.ticks, a.alerts.accepted) {
		t.Errorf("%d ticks count, want the %d that are kept", len(a.alerts.accepted), len(w.ticks))
	}
}

func TestLateAlertsEndEquallyByBars(t *testing.T) {
	t.Parallel()
	refs := markettest.Refs(t, 200)
	both := 0
	for seed := range uint64(5) {
		w := walkMarket(seed, 1200)
		list := w.someAlerts(refs, seed)
		got := markettest.Messages{}
		w.uninterrupted(list, got.Notify)
		want := endsOf(list, got)
		got = markettest.Messages{}
		// The ticks of the last 100 s are left, and bars of 1m of the last 600 s.
		a := w.actorAt(w.ticks[len(w.ticks)-1].Time, 100_000, 600)
		a.alerts.notify = got.Notify
		a.alerts.add(nil)
		a.alerts.add(entriesOf(list))
		ends := endsOf(list, got)
		for _, x := range list {
			g, ok := ends[x.Ref]
			f := want[x.Ref]
			switch {
			case g.Lower && g.Upper:
				both++ // the order is unknown
			case f == (endOfAlert{}):
				if ok {
					t.Errorf("seed %d: %+v ended as %+v, and should not have", seed, x, g)
				}
			case f.At-x.Since < 5_000 || x.Expires-f.At < 5_000 && !f.Expired || f.Expired && g.At-f.At > -5_000:
				// It ends in the bar of its beginning or of its expiry, which does not count.
			case f.Lower != g.Lower || f.Upper != g.Upper || f.Expired != g.Expired:
				t.Errorf("seed %d: %+v ended as %+v, want %+v", seed, x, g, f)
			case !f.Expired && (g.At < f.At || g.At-f.At > 5_000):
				t.Errorf("seed %d: %+v ended at %d, want %d", seed, x, g.At, f.At)
			}
		}
	}
	if both > 20 {
		t.Errorf("%d bars hold both levels: choose other levels", both)
	}
}

// TestAlertsCatchUpByBarsOfDifferentLengths has 5m bars, and 1m bars that begin within one of them.
// The 5m bar counts for alerts that began before it, and the 1m bars for those that began within it.
func TestAlertsCatchUpByBarsOfDifferentLengths(t *testing.T) {
	t.Parallel()
	a := newActor()
	for opens := int64(980_000); opens < 1_020_000; opens += 5000 {
		a.prices.frames[prices.M5].bars = append(a.prices.frames[prices.M5].bars, markettest.FlatBar(opens, 5000, 100))
	}
	for opens := int64(1_003_000); opens < 1_020_000; opens += 1000 {
		a.prices.frames[prices.M1].bars = append(a.prices.frames[prices.M1].bars, markettest.FlatBar(opens, 1000, 100))
	}
	dip, dip5 := &a.prices.frames[prices.M1].bars[1], &a.prices.frames[prices.M5].bars[4]
	dip.Low, dip5.Low = 80, 80
	a.prices.frames[prices.M1].bars[0].Close, a.prices.frames[prices.M1].bars[0].High = 101, 101
	for frame := range a.prices.frames {
		a.prices.frames[frame].loaded = true
	}
	refs := markettest.Refs(t, 7)
	reached := func(bar *marketdata.Bar, high float64) any {
		tick := marketdata.Tick{Price: 100, Time: 1_005_000}
		return alerts.Reached{Tick: tick, Bar: bar, Past: true, Span: alerts.Span{Low: 80, High: high}}
	}
	flat := alerts.Span{Low: 100, High: 100}
	cases := []struct {
		since, expires int64
		want           any
	}{
		{999_000, 1_030_000, reached(dip5, 100)},
		{1_001_000, 1_030_000, reached(dip, 101)},
		{1_001_500, 1_002_500, alerts.Expired{At: 1_002_500, Past: true}},
		// Without trades the bar in which an alert begins counts.
		{1_003_500, 1_030_000, reached(dip, 101)},
		{1_003_500, 1_004_500, alerts.Expired{At: 1_004_500, Price: 101, Past: true,
			Span: alerts.Span{Low: 100, High: 101}}},
		{1_004_001, 1_004_500, alerts.Expired{At: 1_004_500, Past: true}}, // within one bar
		{1_005_000, 1_012_500, alerts.Expired{At: 1_012_500, Price: 100, Past: true, Span: flat}},
	}
	var all []alerts.Entry
	for i, c := range cases {
		alert := alerts.Alert{Ref: refs[i], Lower: 90, Upper: 110, Since: c.since, Expires: c.expires, Frame: signal.M1}
		all = append(all, alerts.NewEntry(alert))
	}
	demand := func(list []alerts.Entry, i int) {
		t.Helper()
		got := markettest.Messages{}
		a.alerts.set = nil
		a.alerts.notify = got.Notify
		a.alerts.add(nil)
		a.alerts.add(list)
		if diff := cmp.Diff([]any{cases[i].want}, got[refs[i]]); diff != "" {
			t.Errorf("from %d to %d, one of %d (-want +got):\n%s", cases[i].since, cases[i].expires, len(list), diff)
		}
	}
	for i := range cases {
		demand(slices.Clone(all[i:i+1]), i)
		demand(slices.Clone(all), i)
	}
}
