package market

import (
	"fmt"
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

// walkedMarket are prices of an asset as ticks and as bars of 1m and 5m, on the wall
// clock at speed 60.
type walkedMarket struct {
	ticks []marketdata.Tick
	bars  [2][]marketdata.Bar
}

// walkMarket returns a driftless walk of so many seconds, with ten ticks each.
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
				w.bars[frame] = append(bars, marketdata.Bar{OpenTime: opens, CloseTime: opens + length, Open: t.Price, High: t.Price, Low: t.Price, Close: t.Price})
				continue
			}
			b := &bars[len(bars)-1]
			b.High, b.Low, b.Close = max(b.High, t.Price), min(b.Low, t.Price), t.Price
		}
	}
	return w
}

// actorAt returns an asset's actor that has seen all up to a time, with the ticks of so
// many last milliseconds still remembered and so many bars of 1m kept.
func (w *walkedMarket) actorAt(at, remembered int64, minutes int) *assetActor {
	record := marketdata.Asset{Symbol: "X", Source: source.Stream, Class: assets.Crypto, Speed: 60, AlwaysOpen: true}
	a := &assetActor{watch: &watch{key: "X"}, tapes: &tapes{}, now: markettest.NewClock().Now}
	a.watch.record.Store(&record)
	for _, t := range w.ticks {
		if t.Time <= at && t.Time > at-remembered {
			a.tapes.note(tapeKey{"X", source.Stream}, t, t.Time, false)
		}
		if t.Time <= at {
			a.filter.Last = t
		}
	}
	for frame := range w.bars {
		for _, b := range w.bars[frame] {
			if b.CloseTime <= at {
				a.frames[frame].bars = append(a.frames[frame].bars, b)
			}
		}
		a.frames[frame].loaded = true
	}
	m := &a.frames[prices.M1].bars
	*m = (*m)[max(0, len(*m)-minutes):]
	return a
}

func TestTapesOfAssetsThatTradeNoMoreAreForgotten(t *testing.T) {
	t.Parallel()
	var s tapes
	gone, here := tapeKey{"GONE", source.Stream}, tapeKey{"HERE", source.Stream}
	s.note(gone, marketdata.Tick{Price: 1, Time: 9_000_000}, 1_000_000, false) // its time says nothing of it
	for at := int64(1_000_000); at < 1_000_000+3*tapeKept; at += 60_000 {
		s.note(here, marketdata.Tick{Price: 1, Time: at}, at, false)
		if _, ok := s.newest(gone); !ok && at <= 1_000_000+tapeKept {
			t.Fatalf("forgotten after %d ms", at-1_000_000)
		}
	}
	if n := len(s.of[here].ticks) - s.of[here].first; len(s.of) != 1 || n != tapeKept/60_000+1 {
		t.Errorf("%d tapes, %d ticks of the one that is left", len(s.of), n)
	}
}

// someAlerts returns alerts around the prices of w, each from a time on.
func (w *walkedMarket) someAlerts(who []engine.Ref, seed uint64) []alerts.Alert {
	rng := rand.New(rand.NewPCG(seed, 3))
	var list []alerts.Alert
	for _, ref := range who {
		t := w.ticks[rng.IntN(len(w.ticks)-100)]
		list = append(list, alerts.Alert{Ref: ref, Lower: t.Price - 5 - 40*rng.Float64(), Upper: t.Price + 5 + 40*rng.Float64(),
			Since: t.Time + rng.Int64N(100), Expires: t.Time + 5_000 + rng.Int64N(400_000), Frame: signal.M1})
	}
	return list
}

func placesOf(list []alerts.Alert) []alerts.Entry {
	var places []alerts.Entry
	for _, a := range list {
		places = append(places, alerts.NewEntry(a))
	}
	return places
}

// uninterrupted returns what alerts are told by who has watched all the time.
func (w *walkedMarket) uninterrupted(list []alerts.Alert, tell func(engine.Ref, any)) *alerts.Set {
	s := alerts.NewSet(assets.Crypto, 60, sessions.Always, tell)
	left := append([]alerts.Alert(nil), list...)
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

// endOfAlert is what is compared of the end of an alert.
type endOfAlert struct {
	Lower, Upper, Expired bool
	At                    int64
	Price                 float64
}

// endsOf returns how alerts ended.
func endsOf(list []alerts.Alert, heard messages) map[engine.Ref]endOfAlert {
	ends := map[engine.Ref]endOfAlert{}
	for _, a := range list {
		for _, m := range heard[a.Ref] {
			switch m := m.(type) {
			case alerts.Reached:
				low, high := m.Tick.Price, m.Tick.Price
				if m.Bar != nil {
					low, high = m.Bar.Low, m.Bar.High
				}
				ends[a.Ref] = endOfAlert{Lower: low <= a.Lower, Upper: high >= a.Upper, At: m.Tick.Time, Price: m.Tick.Price}
			case alerts.Expired:
				ends[a.Ref] = endOfAlert{Expired: true, At: m.At, Price: m.Price}
			}
		}
	}
	return ends
}

var sameRef = cmp.Comparer(func(a, b engine.Ref) bool { return a == b })

func TestWhoComesLateIsToldTheSameByTicks(t *testing.T) {
	t.Parallel()
	who := newRefs(t, 200)
	for seed := range uint64(5) {
		w := walkMarket(seed, 600)
		list := w.someAlerts(who, seed)
		heard := messages{}
		s := w.uninterrupted(list, heard.tell)
		all := endsOf(list, heard)
		if len(all) < 100 || len(s.Refs()) < 5 {
			t.Fatalf("seed %d: %d ended, %d are left: choose other levels", seed, len(all), len(s.Refs()))
		}
		for _, at := range []int64{1_030_000, 1_300_000, 1_599_000} {
			heard := messages{}
			a := w.actorAt(at, 1<<40, 1<<20)
			a.notify = heard.tell
			a.alert(nil)
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
			a.alert(placesOf(begun))
			for _, tick := range w.ticks {
				if tick.Time > at {
					a.alerts.Tick(tick)
				}
			}
			if diff := cmp.Diff(want, endsOf(begun, heard), sameRef); diff != "" {
				t.Errorf("seed %d, taken over at %d (-want +got):\n%s", seed, at, diff)
			}
		}
	}
}

func TestWhoComesLateIsToldTheSameByBars(t *testing.T) {
	t.Parallel()
	who := newRefs(t, 200)
	both := 0
	for seed := range uint64(5) {
		w := walkMarket(seed, 1200)
		list := w.someAlerts(who, seed)
		heard := messages{}
		w.uninterrupted(list, heard.tell)
		want := endsOf(list, heard)
		heard = messages{}
		// The ticks of the last 100 s are left, and bars of 1m of the last 600 s.
		a := w.actorAt(w.ticks[len(w.ticks)-1].Time, 100_000, 600)
		a.notify = heard.tell
		a.alert(nil)
		a.alert(placesOf(list))
		got := endsOf(list, heard)
		for _, x := range list {
			g, ok := got[x.Ref]
			f := want[x.Ref]
			switch {
			case g.Lower && g.Upper:
				both++ // nobody knows
			case f == (endOfAlert{}):
				if ok {
					t.Errorf("seed %d: %+v ended as %+v, and should not have", seed, x, g)
				}
			case f.At-x.Since < 5_000 || x.Expires-f.At < 5_000 && !f.Expired || f.Expired && g.At-f.At > -5_000:
				// In the bar of its beginning or of its expiry, of which bars say nothing.
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

// TestBarsOfDifferentLengthsMakeUpTogether: 5m bars of all the time, and from within one
// of them on 1m bars. Who was there before that one is told by it, who came within it by
// the finer ones.
func TestBarsOfDifferentLengthsMakeUpTogether(t *testing.T) {
	t.Parallel()
	a := &assetActor{watch: &watch{key: "X"}, tapes: &tapes{}, now: markettest.NewClock().Now}
	a.watch.record.Store(&marketdata.Asset{Symbol: "X", Source: source.Stream, Class: assets.Crypto, Speed: 60, AlwaysOpen: true})
	flat := func(opens, length int64, closes float64) marketdata.Bar {
		return marketdata.Bar{OpenTime: opens, CloseTime: opens + length, Open: 100, High: max(100, closes), Low: min(100, closes), Close: closes}
	}
	for opens := int64(980_000); opens < 1_020_000; opens += 5000 {
		a.frames[prices.M5].bars = append(a.frames[prices.M5].bars, flat(opens, 5000, 100))
	}
	for opens := int64(1_003_000); opens < 1_020_000; opens += 1000 {
		a.frames[prices.M1].bars = append(a.frames[prices.M1].bars, flat(opens, 1000, 100))
	}
	dip := &a.frames[prices.M1].bars[1] // from 1_004_000 on
	dip.Low, a.frames[prices.M5].bars[4].Low = 80, 80
	a.frames[prices.M1].bars[0].Close, a.frames[prices.M1].bars[0].High = 101, 101
	for frame := range a.frames {
		a.frames[frame].loaded = true
	}
	who := newRefs(t, 7)
	cases := []struct {
		since, expires int64
		want           any
	}{
		{999_000, 1_030_000, alerts.Reached{Tick: marketdata.Tick{Price: 100, Time: 1_005_000}, Bar: &a.frames[prices.M5].bars[4], Past: true, Span: alerts.Span{Low: 80, High: 100}}},
		{1_001_000, 1_030_000, alerts.Reached{Tick: marketdata.Tick{Price: 100, Time: 1_005_000}, Bar: dip, Past: true, Span: alerts.Span{Low: 80, High: 101}}},
		{1_001_500, 1_002_500, alerts.Expired{At: 1_002_500, Past: true}},
		{1_003_500, 1_030_000, alerts.Reached{Tick: marketdata.Tick{Price: 100, Time: 1_005_000}, Bar: dip, Past: true, Span: alerts.Span{Low: 80, High: 100}}},
		{1_003_500, 1_004_500, alerts.Expired{At: 1_004_500, Price: 101, Past: true}},
		{1_004_001, 1_004_500, alerts.Expired{At: 1_004_500, Past: true}}, // of which no bar says anything
		{1_005_000, 1_012_500, alerts.Expired{At: 1_012_500, Price: 100, Past: true, Span: alerts.Span{Low: 100, High: 100}}},
	}
	var all []alerts.Entry
	for i, c := range cases {
		all = append(all, alerts.NewEntry(alerts.Alert{Ref: who[i], Lower: 90, Upper: 110, Since: c.since, Expires: c.expires, Frame: signal.M1}))
	}
	demand := func(list []alerts.Entry, i int) {
		t.Helper()
		heard := messages{}
		a.alerts = nil
		a.notify = heard.tell
		a.alert(nil)
		a.alert(list)
		if diff := cmp.Diff([]any{cases[i].want}, heard[who[i]]); diff != "" {
			t.Errorf("from %d to %d, one of %d (-want +got):\n%s", cases[i].since, cases[i].expires, len(list), diff)
		}
	}
	for i := range cases {
		demand(slices.Clone(all[i:i+1]), i)
		demand(slices.Clone(all), i)
	}
}

// standIn is an actor that only stands for somebody.
type standIn struct{}

func (standIn) Receive(engine.Context) {}

// newRefs returns n different Refs.
func newRefs(tb testing.TB, n int) []engine.Ref {
	tb.Helper()
	sys := engine.NewSystem(engine.Options{})
	tb.Cleanup(func() { sys.Shutdown(tb.Context()) })
	list := make([]engine.Ref, n)
	for i := range list {
		list[i] = sys.Spawn(engine.Other, fmt.Sprint(i), func() engine.Actor { return standIn{} }, engine.Supervision{})
	}
	return list
}

// messages collects what alerts tell, by Ref.
type messages map[engine.Ref][]any

func (t messages) tell(ref engine.Ref, m any) { t[ref] = append(t[ref], m) }
