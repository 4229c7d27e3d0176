package alerts

import (
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

// ignoreSpan leaves spans out of a comparison.
var ignoreSpan = cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Span" }, cmp.Ignore())

type steps []func(*Set)

func tick(at int64, price float64) func(*Set) {
	return func(s *Set) { s.Tick(marketdata.Tick{Price: price, Time: at}) }
}

func barOf(opens int64, high, low, closing float64) marketdata.Bar {
	return marketdata.Bar{OpenTime: opens, CloseTime: opens + 1000, Open: 100, High: high, Low: low, Close: closing}
}

func bar(opens int64, high, low, closing float64) func(*Set) {
	return func(s *Set) {
		b := barOf(opens, high, low, closing)
		s.Bar(prices.M1, b)
		s.CloseBar(prices.M1, b)
	}
}

func expire(at int64) func(*Set) { return func(s *Set) { s.Expire(at) } }

// from makes the only alert begin at a time.
func from(at int64) func(*Set) {
	return func(s *Set) {
		later := s.index.entries[0]
		later.Since = at
		s.index.add(later)
	}
}

func reached(at int64, price, low, high float64) any {
	return Reached{Tick: marketdata.Tick{Price: price, Time: at}, Span: Span{low, high}}
}

func reachedBy(b marketdata.Bar) any {
	return Reached{Tick: marketdata.Tick{Price: b.Close, Time: b.CloseTime}, Bar: &b, Span: Span{b.Low, b.High}}
}

func expired(at int64, price, low, high float64) any {
	return Expired{At: at, Price: price, Span: Span{low, high}}
}

func closed(at int64, price, low, high float64) any {
	left := float64(100_000-at) / 99_000 // of the alert of checkNotifications
	return BarClosed{At: at, Price: price, Span: Span{low, high}, Frame: 1000, Left: left}
}

// notifyCase is what an alert from 90 to 110, from 1,000 to 100,000 ms, is notified of after steps.
type notifyCase struct {
	name  string
	steps steps
	want  []any
}

func checkNotifications(t *testing.T, cases []notifyCase) {
	t.Helper()
	ref := markettest.Refs(t, 1)[0]
	alert := Alert{Ref: ref, Lower: 90, Upper: 110, Since: 1000, Expires: 100_000, Frame: signal.M1}
	for _, c := range cases {
		got := markettest.Messages{}
		s := NewSet(assets.Crypto, 60, sessions.Always, got.Notify)
		s.index.add(NewEntry(alert))
		for _, step := range c.steps {
			step(s)
		}
		if diff := cmp.Diff(c.want, got[ref]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestNotificationsByTicks(t *testing.T) {
	t.Parallel()
	stale := Expired{At: 110_000, Price: 100, Stale: true, Span: Span{100, 100}}
	checkNotifications(t, []notifyCase{
		{"between the levels", steps{tick(2000, 90.01), tick(3000, 109.99)}, nil},
		{"at the lower one", steps{tick(2000, 90)}, []any{reached(2000, 90, 90, 90)}},
		{"beyond the upper one", steps{tick(1500, 95), tick(2000, 111)}, []any{reached(2000, 111, 95, 111)}},
		{"once only", steps{tick(2000, 90), tick(3000, 80)}, []any{reached(2000, 90, 90, 90)}},
		{"a price of the very beginning", steps{tick(1000, 80), tick(1001, 100)}, nil},
		{"an older price, which does not count later", steps{tick(900, 80), tick(1200, 89)},
			[]any{reached(1200, 89, 89, 89)}},
		{"expired, by the next price", steps{tick(99_000, 100), tick(100_001, 80)},
			[]any{expired(100_000, 100, 100, 100)}},
		{"a price at the very end counts first", steps{tick(99_000, 100), tick(100_000, 90)},
			[]any{reached(100_000, 90, 90, 100)}},
		{"expired, by the clock", steps{tick(99_000, 100), expire(101_999), expire(102_000)},
			[]any{expired(100_000, 100, 100, 100)}},
		{"not before the clock does", steps{tick(99_000, 100), expire(101_999)}, nil},
		{"a stale price waits, and the next one ends it", steps{tick(80_000, 100), expire(103_000), tick(110_000, 101)},
			[]any{expired(110_000, 101, 100, 101)}},
		{"a stale price waits, and the levels hold", steps{tick(80_000, 100), expire(103_000), tick(110_000, 89)},
			[]any{reached(110_000, 89, 89, 100)}},
		{"a stale price, and no other", steps{tick(80_000, 100), expire(103_000), expire(112_000)}, []any{stale}},
		{"a stale price, and the next one is too late", steps{tick(80_000, 100), tick(110_001, 80)}, []any{stale}},
		{"no price since the beginning", steps{tick(95_000, 100), from(96_000), expire(103_000)},
			[]any{expired(100_000, 0, 0, 0)}},
		{"never a price", steps{expire(103_000), expire(112_000)}, []any{Expired{At: 110_000, Stale: true}}},
	})
}

func TestNotificationsByBars(t *testing.T) {
	t.Parallel()
	checkNotifications(t, []notifyCase{
		{"a bar of the beginning, after the expiry", steps{from(99_900), expire(103_000), func(s *Set) {
			b := barOf(99_000, 120, 80, 101)
			b.CloseTime = 108_000
			s.Bar(prices.M1, b)
		}}, []any{expired(108_000, 101, 101, 101)}},
		{"a bar that comes again", steps{bar(1000, 105, 95, 101), bar(1000, 105, 95, 102)},
			[]any{closed(2000, 101, 95, 105)}},
		{"a late bar", steps{tick(5000, 100), bar(2500, 101, 99, 100), tick(5100, 101), bar(4500, 101, 99, 100)},
			[]any{closed(5500, 101, 100, 101)}},
		{"a bar that closes at the expiry", steps{tick(99_500, 100), bar(99_000, 101, 99, 100), expire(102_000)},
			[]any{expired(100_000, 100, 100, 100)}},
		{"the bar of the beginning does not count", steps{bar(500, 120, 80, 100)}, []any{closed(1500, 100, 0, 0)}},
		{"a bar that touches", steps{bar(1000, 105, 89, 100)}, []any{reachedBy(barOf(1000, 105, 89, 100))}},
		{"a bar that touches nothing is its close", steps{bar(1000, 105, 95, 101)}, []any{closed(2000, 101, 95, 105)}},
		{"bars of an asset with trades", steps{tick(2000, 100), bar(2000, 120, 80, 100)},
			[]any{closed(3000, 100, 100, 100)}},
		{"a bar that ends after the expiry", steps{bar(98_900, 101, 99, 100), bar(99_900, 120, 80, 100)},
			[]any{closed(99_900, 100, 99, 101), expired(100_000, 100, 99, 101)}},
		{"a bar that ends with the expiry counts first", steps{bar(99_000, 111, 99, 100)},
			[]any{reachedBy(barOf(99_000, 111, 99, 100))}},
	})
}

// After a halt the trades of that time may still arrive, and count before an alert expires without a price.
func TestAlertsDoNotExpireByTheClockAfterAHalt(t *testing.T) {
	t.Parallel()
	ref := markettest.Refs(t, 1)[0]
	begin := func() (*Set, markettest.Messages) {
		got := markettest.Messages{}
		s := NewSet(assets.Crypto, 60, sessions.Always, got.Notify)
		s.Tick(marketdata.Tick{Price: 100, Time: 2000})
		s.index.add(NewEntry(Alert{Ref: ref, Lower: 90, Upper: 110, Since: 1000, Expires: 50_000, Frame: signal.M1}))
		s.delayedUntil = 200_000 // halted from 2,000 to 190,000
		s.Expire(190_000)
		if len(got[ref]) != 0 || s.Next() != 200_000 {
			t.Errorf("notified of %+v, next at %d", got[ref], s.Next())
		}
		return s, got
	}
	s, got := begin()
	s.Expire(200_000)
	if diff := cmp.Diff([]any{Expired{At: 60_000, Price: 100, Stale: true}}, got[ref], ignoreSpan); diff != "" {
		t.Errorf("without prices (-want +got):\n%s", diff)
	}
	s, got = begin()
	s.takeBar(prices.M1, marketdata.Bar{OpenTime: 3000, CloseTime: 4000, Open: 100, High: 111, Low: 99, Close: 110})
	if _, ok := got[ref][0].(Reached); !ok {
		t.Errorf("by bars: %+v", got[ref])
	}
}

// The age of a price, and the wait for one, count only while the asset is traded.
func TestAlertsExpireBySessions(t *testing.T) {
	t.Parallel()
	ref := markettest.Refs(t, 1)[0]
	at := func(text string) int64 { return markettest.Instant(t, text).UnixMilli() }
	bar := func(s *Set, closes string, price float64) {
		s.Bar(prices.M1, markettest.FlatBar(at(closes)-60_000, 60_000, price))
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
				t.Errorf("the next check is at %s", prices.Time(s.Next()))
			}
			s.Expire(at("2026-11-23T17:30:00Z"))
		}, Expired{At: at("2026-11-23T17:20:00Z"), Price: 100, Stale: true, Span: seen}},
		"three days are three sessions": {"2026-11-20T20:00:00Z", signal.D1, func(s *Set) {
			bar(s, "2026-11-20T19:00:00Z", 100)
			s.Expire(at("2026-11-25T19:59:00Z"))
			s.Expire(at("2026-11-25T20:10:00Z"))
		}, Expired{At: at("2026-11-25T20:00:00Z"), Price: 100, Stale: true, Span: seen}},
	} {
		got := markettest.Messages{}
		s := NewSet(assets.Stock, 1, sessions.Exchange, got.Notify)
		alert := Alert{Ref: ref, Lower: 90, Upper: 110, Since: since, Expires: at(c.expires), Frame: c.frame}
		s.index.add(NewEntry(alert))
		c.happens(s)
		if d := cmp.Diff(markettest.Messages{ref: {c.want}}, got, cmp.AllowUnexported(engine.Ref{})); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

// endsAt removes the alerts that t ends from a plain list and returns their notifications. last is
// the price before t.
func endsAt(list map[engine.Ref]Alert, last, t marketdata.Tick) markettest.Messages {
	ends := markettest.Messages{}
	for ref, a := range list {
		switch {
		case a.Expires < t.Time && last.Time <= a.Since:
			ends.Notify(ref, Expired{At: a.Expires}) // without a price since it began
		case a.Expires < t.Time:
			ends.Notify(ref, Expired{At: a.Expires, Price: last.Price})
		case a.Since < t.Time && (t.Price <= a.Lower || t.Price >= a.Upper):
			ends.Notify(ref, Reached{Tick: t})
		default:
			continue
		}
		delete(list, ref)
	}
	return ends
}

// TestSetEndsTheAlertsOfAPlainList compares the heaps with a list that is searched for every price.
func TestSetEndsTheAlertsOfAPlainList(t *testing.T) {
	t.Parallel()
	refs := markettest.Refs(t, 200)
	sameRef := cmp.Comparer(func(a, b engine.Ref) bool { return a == b })
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		got := markettest.Messages{}
		s := NewSet(assets.Crypto, 60, sessions.Always, got.Notify)
		list := map[engine.Ref]Alert{}
		price, at := 100.0, int64(10_000)
		for range 3000 {
			at += 1 + rng.Int64N(50)
			switch rng.IntN(4) {
			case 0:
				a := Alert{Ref: refs[rng.IntN(len(refs))],
					Lower: price - rng.Float64()*3, Upper: price + rng.Float64()*3,
					Since: at - 25 + rng.Int64N(50), Expires: at + rng.Int64N(5000)}
				list[a.Ref] = a
				s.index.add(NewEntry(a))
			case 1:
				dropped := map[engine.Ref]struct{}{}
				for range 1 + rng.IntN(2)*rng.IntN(len(refs)) { // one, or many
					ref := refs[rng.IntN(len(refs))]
					delete(list, ref)
					dropped[ref] = struct{}{}
				}
				s.Drop(dropped)
			default:
				price += rng.NormFloat64() / 2
				tick := marketdata.Tick{Price: price, Time: at}
				want := endsAt(list, s.last, tick)
				clear(got)
				s.Tick(tick)
				// Alerts that end before any price is known wait for one.
				if s.last.Time != 0 && len(s.overdue) == 0 && !cmp.Equal(want, got, sameRef, ignoreSpan) {
					t.Fatalf("seed %d at %d: notified of %v, want %v", seed, at, got, want)
				}
			}
			if s.index.len() != len(list) {
				t.Fatalf("seed %d: %d alerts, want %d", seed, s.index.len(), len(list))
			}
			checkHeaps(t, &s.index)
		}
	}
}

// checkHeaps fails the test if an entry is out of place.
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

func TestExtremesMatchAllPricesSince(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	var x extremes
	var all []moment
	price := 100.0
	for i := range 5000 {
		price += rng.NormFloat64()
		at := int64(i * 10)
		all = append(all, moment{at, price})
		x.add(at, price, price)
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
	s := NewSet(assets.Crypto, 60, sessions.Always, func(engine.Ref, any) { b.Fatal("an alert is notified") })
	for i, ref := range markettest.Refs(b, 1000) {
		margin := 10 + float64(i%10)
		s.index.add(NewEntry(Alert{Ref: ref, Lower: 100 - margin, Upper: 100 + margin, Expires: math.MaxInt64}))
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
