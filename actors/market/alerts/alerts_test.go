package alerts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// deaf is an actor that only stands for somebody.
type deaf struct{}

func (deaf) Receive(engine.Context) {}

// refs returns n different Refs.
func refs(tb testing.TB, n int) []engine.Ref {
	tb.Helper()
	sys := engine.NewSystem(engine.Options{})
	tb.Cleanup(func() { sys.Shutdown(tb.Context()) })
	list := make([]engine.Ref, n)
	for i := range list {
		list[i] = sys.Spawn(engine.Other, fmt.Sprint(i), func() engine.Actor { return deaf{} }, engine.Supervision{})
	}
	return list
}

// told collects what alerts tell, by Ref.
type told map[engine.Ref][]any

func (t told) tell(ref engine.Ref, m any) { t[ref] = append(t[ref], m) }

func TestAlertsTellWhoIsConcernedAndNobodyElse(t *testing.T) {
	t.Parallel()
	who := refs(t, 1)[0]
	alert := Alert{Ref: who, Lower: 90, Upper: 110, Since: 1000, Expires: 100_000, Frame: signal.M1}
	tick := func(at int64, price float64) func(*Set) {
		return func(s *Set) { s.Tick(marketdata.Tick{Price: price, Time: at}) }
	}
	bar := func(opens int64, o, h, l, c float64) func(*Set) {
		return func(s *Set) {
			b := marketdata.Bar{OpenTime: opens, CloseTime: opens + 1000, Open: o, High: h, Low: l, Close: c}
			s.Bar(prices.M1, b)
			s.CloseBar(prices.M1, b)
		}
	}
	from := func(at int64) func(*Set) { // the alert begins then
		return func(s *Set) {
			later := alert
			later.Since = at
			s.index.add(NewEntry(later))
		}
	}
	expire := func(at int64) func(*Set) { return func(s *Set) { s.Expire(at) } }
	reached := func(at int64, price, low, high float64) any {
		return Reached{Tick: marketdata.Tick{Price: price, Time: at}, Span: Span{low, high}}
	}
	for _, c := range []struct {
		name  string
		steps []func(*Set)
		want  []any
	}{
		{"between the levels", []func(*Set){tick(2000, 90.01), tick(3000, 109.99)}, nil},
		{"at the lower one", []func(*Set){tick(2000, 90)}, []any{reached(2000, 90, 90, 90)}},
		{"beyond the upper one", []func(*Set){tick(1500, 95), tick(2000, 111)}, []any{reached(2000, 111, 95, 111)}},
		{"once only", []func(*Set){tick(2000, 90), tick(3000, 80)}, []any{reached(2000, 90, 90, 90)}},
		{"a price of the very beginning", []func(*Set){tick(1000, 80), tick(1001, 100)}, nil},
		{"an older price, which then counts no more", []func(*Set){tick(900, 80), tick(1200, 89)}, []any{reached(1200, 89, 89, 89)}},
		{"expired, by the next price", []func(*Set){tick(99_000, 100), tick(100_001, 80)}, []any{Expired{At: 100_000, Price: 100, Span: Span{100, 100}}}},
		{"a price at the very end goes first", []func(*Set){tick(99_000, 100), tick(100_000, 90)}, []any{reached(100_000, 90, 90, 100)}},
		{"expired, by the clock", []func(*Set){tick(99_000, 100), expire(101_999), expire(102_000)}, []any{Expired{At: 100_000, Price: 100, Span: Span{100, 100}}}},
		{"not before the clock says so", []func(*Set){tick(99_000, 100), expire(101_999)}, nil},
		{"a stale price waits, the next one ends it", []func(*Set){tick(80_000, 100), expire(103_000), tick(110_000, 101)}, []any{Expired{At: 110_000, Price: 101, Span: Span{100, 101}}}},
		{"a stale price waits, and the levels hold", []func(*Set){tick(80_000, 100), expire(103_000), tick(110_000, 89)}, []any{reached(110_000, 89, 89, 100)}},
		{"a stale price, and none comes", []func(*Set){tick(80_000, 100), expire(103_000), expire(112_000)}, []any{Expired{At: 110_000, Price: 100, Stale: true, Span: Span{100, 100}}}},
		{"a stale price, and the next one is too late", []func(*Set){tick(80_000, 100), tick(110_001, 80)}, []any{Expired{At: 110_000, Price: 100, Stale: true, Span: Span{100, 100}}}},
		{"no price since the beginning", []func(*Set){tick(95_000, 100), from(96_000), expire(103_000)}, []any{Expired{At: 100_000}}},
		{"a bar of the beginning, after the expiry", []func(*Set){from(99_900), expire(103_000), func(s *Set) {
			s.Bar(prices.M1, marketdata.Bar{OpenTime: 99_000, CloseTime: 108_000, Open: 100, High: 120, Low: 80, Close: 101})
		}}, []any{Expired{At: 108_000, Price: 101, Span: Span{101, 101}}}},
		{"a bar that is told again", []func(*Set){bar(1000, 100, 105, 95, 101), bar(1000, 100, 105, 95, 102)}, []any{BarClosed{At: 2000, Price: 101, Span: Span{95, 105}, Frame: 1000}}},
		{"a bar that is told late", []func(*Set){tick(5000, 100), bar(2500, 100, 101, 99, 100), tick(5100, 101), bar(4500, 100, 101, 99, 100)},
			[]any{BarClosed{At: 5500, Price: 101, Span: Span{100, 101}, Frame: 1000}}},
		{"a bar that closes at the expiry", []func(*Set){tick(99_500, 100), bar(99_000, 100, 101, 99, 100), expire(102_000)}, []any{Expired{At: 100_000, Price: 100, Span: Span{100, 100}}}},
		{"no price was ever known", []func(*Set){expire(103_000), expire(112_000)}, []any{Expired{At: 110_000, Stale: true}}},
		{"the bar of the beginning does not count", []func(*Set){bar(500, 100, 120, 80, 100)}, []any{BarClosed{At: 1500, Price: 100, Frame: 1000}}},
		{"a bar that touches", []func(*Set){bar(1000, 100, 105, 89, 100)},
			[]any{Reached{Tick: marketdata.Tick{Price: 100, Time: 2000}, Bar: &marketdata.Bar{OpenTime: 1000, CloseTime: 2000, Open: 100, High: 105, Low: 89, Close: 100}, Span: Span{89, 105}}}},
		{"a bar that touches nothing is its close", []func(*Set){bar(1000, 100, 105, 95, 101)}, []any{BarClosed{At: 2000, Price: 101, Span: Span{95, 105}, Frame: 1000}}},
		{"bars of an asset with trades", []func(*Set){tick(2000, 100), bar(2000, 100, 120, 80, 100)}, []any{BarClosed{At: 3000, Price: 100, Span: Span{100, 100}, Frame: 1000}}},
		{"a bar that ends after the expiry", []func(*Set){bar(98_900, 100, 101, 99, 100), bar(99_900, 100, 120, 80, 100)},
			[]any{BarClosed{At: 99_900, Price: 100, Span: Span{99, 101}, Frame: 1000}, Expired{At: 100_000, Price: 100, Span: Span{99, 101}}}},
		{"a bar that ends with the expiry goes first", []func(*Set){bar(99_000, 100, 111, 99, 100)},
			[]any{Reached{Tick: marketdata.Tick{Price: 100, Time: 100_000}, Bar: &marketdata.Bar{OpenTime: 99_000, CloseTime: 100_000, Open: 100, High: 111, Low: 99, Close: 100}, Span: Span{99, 111}}}},
	} {
		heard := told{}
		s := NewSet(assets.Crypto, 60, sessions.Always, heard.tell)
		s.index.add(NewEntry(alert))
		for _, step := range c.steps {
			step(s)
		}
		if diff := cmp.Diff(c.want, heard[who]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestTheClockAloneEndsNothingThatNobodyWatched: after a halt what was traded meanwhile
// is on its way, and comes before an end for want of prices.
func TestTheClockAloneEndsNothingThatNobodyWatched(t *testing.T) {
	t.Parallel()
	who := refs(t, 1)[0]
	begin := func() (*Set, told) {
		heard := told{}
		s := NewSet(assets.Crypto, 60, sessions.Always, heard.tell)
		s.Tick(marketdata.Tick{Price: 100, Time: 2000})
		s.index.add(NewEntry(Alert{Ref: who, Lower: 90, Upper: 110, Since: 1000, Expires: 50_000, Frame: signal.M1}))
		s.settleUntil = 200_000 // halted from 2,000 to 190,000
		s.Expire(190_000)
		if len(heard[who]) != 0 || s.Next() != 200_000 {
			t.Errorf("told %+v, next at %d", heard[who], s.Next())
		}
		return s, heard
	}
	s, heard := begin()
	s.Expire(200_000)
	if diff := cmp.Diff([]any{Expired{At: 60_000, Price: 100, Stale: true}}, heard[who], cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Span" }, cmp.Ignore())); diff != "" {
		t.Errorf("without prices (-want +got):\n%s", diff)
	}
	s, heard = begin()
	s.takeBar(prices.M1, marketdata.Bar{OpenTime: 3000, CloseTime: 4000, Open: 100, High: 111, Low: 99, Close: 110})
	if _, ok := heard[who][0].(Reached); !ok {
		t.Errorf("by bars: %+v", heard[who])
	}
}

// TestAlertsAreThoseOfAPlainList compares the heaps with a list that is searched for
// every price.
// The age of a price, and the wait for one, count while the asset is traded.
func TestAlertsExpireBySessions(t *testing.T) {
	t.Parallel()
	who := refs(t, 1)[0]
	at := func(text string) int64 { return markettest.Instant(t, text).UnixMilli() }
	bar := func(s *Set, closes string, price float64) {
		open := at(closes) - 60_000
		s.Bar(prices.M1, marketdata.Bar{OpenTime: open, CloseTime: open + 60_000, Open: price, High: price, Low: price, Close: price})
	}
	since, seen := at("2026-11-20T15:00:00Z"), Span{100, 100} // a Friday, 10:00 in New York
	for name, c := range map[string]struct {
		expires string
		frame   signal.Timeframe
		happens func(s *Set)
		want    any
	}{
		"the close of Friday is fresh on Monday": {"2026-11-23T14:31:00Z", signal.H1, func(s *Set) {
			bar(s, "2026-11-20T21:00:00Z", 100)
			bar(s, "2026-11-23T14:40:00Z", 101)
		}, Expired{At: at("2026-11-23T14:31:00Z"), Price: 100, Span: seen}},
		"nothing comes at the weekend": {"2026-11-20T20:50:00Z", signal.H1, func(s *Set) {
			bar(s, "2026-11-20T19:00:00Z", 100)
			s.Expire(at("2026-11-23T14:30:00Z"))
			bar(s, "2026-11-23T14:31:00Z", 101)
		}, Expired{At: at("2026-11-23T14:31:00Z"), Price: 101, Span: Span{100, 101}}},
		"nothing comes on Monday either": {"2026-11-20T20:50:00Z", signal.H1, func(s *Set) {
			bar(s, "2026-11-20T19:00:00Z", 100)
			s.Expire(at("2026-11-23T17:19:00Z"))
			if s.Next() > at("2026-11-23T17:30:00Z") || s.Next() < at("2026-11-23T17:20:00Z") {
				t.Errorf("it is looked at again at %s", prices.Time(s.Next()))
			}
			s.Expire(at("2026-11-23T17:30:00Z"))
		}, Expired{At: at("2026-11-23T17:20:00Z"), Price: 100, Stale: true, Span: seen}},
		"three days are three sessions": {"2026-11-20T20:00:00Z", signal.D1, func(s *Set) {
			bar(s, "2026-11-20T19:00:00Z", 100)
			s.Expire(at("2026-11-25T19:59:00Z"))
			s.Expire(at("2026-11-25T20:10:00Z"))
		}, Expired{At: at("2026-11-25T20:00:00Z"), Price: 100, Stale: true, Span: seen}},
	} {
		heard := told{}
		s := NewSet(assets.Stock, 1, sessions.Exchange, heard.tell)
		s.index.add(NewEntry(Alert{Ref: who, Lower: 90, Upper: 110, Since: since, Expires: at(c.expires), Frame: c.frame}))
		c.happens(s)
		if d := cmp.Diff(told{who: {c.want}}, heard, cmp.AllowUnexported(engine.Ref{})); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestAlertsAreThoseOfAPlainList(t *testing.T) {
	t.Parallel()
	who := refs(t, 200)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		heard := told{}
		s := NewSet(assets.Crypto, 60, sessions.Always, heard.tell)
		list := map[engine.Ref]Alert{}
		price, at := 100.0, int64(10_000)
		for range 3000 {
			at += 1 + rng.Int64N(50)
			switch rng.IntN(4) {
			case 0:
				a := Alert{Ref: who[rng.IntN(len(who))], Lower: price - rng.Float64()*3, Upper: price + rng.Float64()*3,
					Since: at - 25 + rng.Int64N(50), Expires: at + rng.Int64N(5000)}
				list[a.Ref] = a
				s.index.add(NewEntry(a))
			case 1:
				gone := map[engine.Ref]struct{}{}
				for range 1 + rng.IntN(2)*rng.IntN(len(who)) { // one, or many
					ref := who[rng.IntN(len(who))]
					delete(list, ref)
					gone[ref] = struct{}{}
				}
				s.Drop(gone)
			default:
				price += rng.NormFloat64() / 2
				want := told{}
				for ref, a := range list {
					if a.Expires < at {
						last := s.last.Price
						if s.last.Time <= a.Since {
							last = 0 // none since it began
						}
						want[ref] = []any{Expired{At: a.Expires, Price: last}}
					} else if a.Since < at && (price <= a.Lower || price >= a.Upper) {
						want[ref] = []any{Reached{Tick: marketdata.Tick{Price: price, Time: at}}}
					} else {
						continue
					}
					delete(list, ref)
				}
				clear(heard)
				s.Tick(marketdata.Tick{Price: price, Time: at})
				for _, messages := range heard {
					for i, m := range messages {
						switch m := m.(type) {
						case Reached:
							m.Span = Span{}
							messages[i] = m
						case Expired:
							m.Span = Span{}
							messages[i] = m
						}
					}
				}
				// The first prices come when none is known: those wait.
				if s.last.Time != 0 && len(s.overdue) == 0 && !cmp.Equal(want, heard, cmp.Comparer(func(a, b engine.Ref) bool { return a == b })) {
					t.Fatalf("seed %d at %d: told %v, want %v", seed, at, heard, want)
				}
			}
			if s.index.len() != len(list) {
				t.Fatalf("seed %d: %d alerts, want %d", seed, s.index.len(), len(list))
			}
			checkHeaps(t, &s.index)
		}
	}
}

// checkHeaps fails the test if an entry is not where it should be.
func checkHeaps(t *testing.T, b *alertIndex) {
	t.Helper()
	for order, h := range b.heaps {
		if len(h) != b.len() {
			t.Fatalf("heap %d has %d entries of %d", order, len(h), b.len())
		}
		for i, e := range h {
			if i > 0 && h[(i-1)/2].key > e.key || int(b.entries[e.place].at[order]) != i {
				t.Fatalf("heap %d is not in order at %d", order, i)
			}
		}
	}
}

func TestExtremesAreThoseOfAllPricesSince(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	var x extremes
	var all []moment
	price := 100.0
	for i := range 5000 {
		price += rng.NormFloat64()
		at := int64(i * 10)
		all = append(all, moment{at, price})
		x.note(at, price, price)
		since := rng.Int64N(at + 20)
		low, high, ok := x.since(since)
		first := slices.IndexFunc(all, func(m moment) bool { return m.at > since })
		if ok != (first >= 0) {
			t.Fatalf("since %d: %v", since, ok)
		}
		if !ok {
			continue
		}
		wantLow, wantHigh := math.Inf(1), math.Inf(-1)
		for _, m := range all[first:] {
			wantLow, wantHigh = min(wantLow, m.price), max(wantHigh, m.price)
		}
		if low != wantLow || high != wantHigh {
			t.Fatalf("since %d: %v to %v, want %v to %v", since, low, high, wantLow, wantHigh)
		}
	}
	if len(x.highs) > 1000 {
		t.Errorf("%d moments are kept", len(x.highs))
	}
}

func BenchmarkTickThatTouchesNothing(b *testing.B) {
	who := refs(b, 1000)
	s := NewSet(assets.Crypto, 60, sessions.Always, func(engine.Ref, any) { b.Fatal("somebody was told") })
	for i, ref := range who {
		s.index.add(NewEntry(Alert{Ref: ref, Lower: 90 - float64(i%10), Upper: 110 + float64(i%10), Expires: math.MaxInt64}))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	prices := make([]float64, 4096)
	for i := range prices {
		prices[i] = 95 + 10*rng.Float64()
	}
	b.ResetTimer()
	for i := range b.N {
		s.Tick(marketdata.Tick{Price: prices[i%len(prices)], Time: int64(i)})
	}
}
