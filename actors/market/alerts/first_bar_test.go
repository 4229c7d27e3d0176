package alerts

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const hour = 3_600_000

// hours returns n bars of 1h of a random walk.
func hours(seed uint64, n int) []marketdata.Bar {
	r := rand.New(rand.NewPCG(seed, 1))
	bars := make([]marketdata.Bar, n)
	price := 100.0
	for i := range bars {
		b := marketdata.Bar{Open: price, High: price, Low: price, Volume: 1}
		b.OpenTime = 1_763_996_400_000 + int64(i)*hour
		b.CloseTime = b.OpenTime + hour
		for range 6 {
			price *= math.Exp(.002 * r.NormFloat64())
			b.High, b.Low = max(b.High, price), min(b.Low, price)
		}
		b.Close = price
		bars[i] = b
	}
	return bars
}

// ends returns how alerts ended, by the rules for signals.
func ends(t *testing.T, got markettest.Messages, refs []engine.Ref, trades []backtest.Trade) []strategy.Exit {
	t.Helper()
	exits := make([]strategy.Exit, len(trades))
	for i := range trades {
		for _, message := range got[refs[i]] {
			switch m := message.(type) {
			case Reached:
				exit, ok := strategy.ExitOnBar(trades[i].Direction, trades[i].Levels, *m.Bar)
				if !ok {
					t.Errorf("trade %d: notified of %+v, which reaches no level", i, m)
				}
				exits[i] = exit
			case Expired:
				exits[i] = strategy.ExitOnExpiry(m.Price)
			}
		}
	}
	return exits
}

// tradesOf returns the signals of a backtest and how they ended, some of them in the bar that
// begins with them.
func tradesOf(t *testing.T, bars []marketdata.Bar) ([]backtest.Trade, []strategy.Exit) {
	t.Helper()
	result, err := backtest.Run(t.Context(), bars, backtest.Options{
		Origin:    strategy.Origin{Asset: "WALK", Source: "test", Compression: 1},
		Strategy:  strategy.Momentum,
		Timeframe: signal.H1,
		Risk:      signal.LowRisk,
		Overlap:   true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var exits []strategy.Exit
	first := 0 // how many end in the bar that begins with them
	for _, x := range result.Trades {
		if exits = append(exits, x.Exit); x.ExitBar == x.Bar+1 {
			first++
		}
	}
	if len(exits) < 300 || first < 10 {
		t.Fatalf("%d trades, %d of them end in their first bar", len(exits), first)
	}
	return result.Trades, exits
}

// TestClosingsByBarsAreThoseOfTheBacktest follows the signals of a backtest that were created
// a little after the close of their bar. On a source of bars only they end as in the backtest,
// also if they catch up after a restart. Where trades are known, the bar in which a signal
// begins does not count.
func TestClosingsByBarsAreThoseOfTheBacktest(t *testing.T) {
	t.Parallel()
	const late = 400 // milliseconds
	bars := hours(3, 700)
	trades, want := tradesOf(t, bars)
	refs := markettest.Refs(t, len(trades))
	entry := func(i int) Entry {
		x := &trades[i]
		since := x.CreatedAt + late
		return NewEntry(Alert{Ref: refs[i], Lower: min(x.Levels.Stop, x.Levels.Target),
			Upper: max(x.Levels.Stop, x.Levels.Target), Since: since,
			Expires: since + int64(strategy.Horizon(signal.H1, signal.LowRisk))*hour, Frame: signal.H1})
	}
	live := func(prepare func(*Set)) []strategy.Exit {
		got := markettest.Messages{}
		s := NewSet(assets.Crypto, 1, sessions.Always, got.Notify)
		prepare(s)
		next := 0
		for i, b := range bars {
			s.Bar(prices.H1, b)
			s.CloseBar(prices.H1, b)
			for ; next < len(trades) && trades[next].Bar == i; next++ {
				if late := s.Add([]Entry{entry(next)}); len(late) > 0 {
					t.Fatalf("trade %d is late", next)
				}
			}
		}
		return ends(t, got, refs, trades)
	}
	if diff := cmp.Diff(want, live((*Set).WithoutTrades)); diff != "" {
		t.Errorf("closings (-backtest +live):\n%s", diff)
	}
	differ := 0
	for i, exit := range live(func(*Set) {}) {
		if exit != want[i] {
			differ++
		}
	}
	if differ == 0 {
		t.Error("where trades are known, the bar in which a signal begins counts")
	}

	got := markettest.Messages{}
	restarted := NewSet(assets.Crypto, 1, sessions.Always, got.Notify)
	restarted.WithoutTrades()
	restarted.Bar(prices.H1, bars[len(bars)-1])
	var all []Entry
	var past []PastBar
	for i := range trades {
		all = append(all, entry(i))
	}
	for _, b := range bars {
		past = append(past, PastBar{Bar: b, Frame: prices.H1, Finer: math.MaxInt64})
	}
	restarted.CatchUp(restarted.Add(all), past, nil)
	if diff := cmp.Diff(want, ends(t, got, refs, trades)); diff != "" {
		t.Errorf("closings after a restart (-backtest +live):\n%s", diff)
	}
}

// TestTheFirstBarOfALongerTimeframeDoesNotCount checks that a bar that begins before the price
// with which an alert begins does not end it, and that the excursion has the first bar.
func TestTheFirstBarOfALongerTimeframeDoesNotCount(t *testing.T) {
	t.Parallel()
	bars := hours(4, 3)
	ref := markettest.Refs(t, 1)[0]
	for _, c := range []struct {
		frame signal.Timeframe
		ends  bool
	}{{signal.M1, false}, {signal.H1, true}, {signal.D1, true}} {
		got := markettest.Messages{}
		s := NewSet(assets.Crypto, 1, sessions.Always, got.Notify)
		s.WithoutTrades()
		s.Bar(prices.H1, bars[0])
		s.Add([]Entry{NewEntry(Alert{Ref: ref, Lower: bars[1].Low, Upper: 1e9, Since: bars[1].OpenTime + 400,
			Expires: bars[1].OpenTime + 10*hour, Frame: c.frame})})
		s.Bar(prices.H1, bars[1])
		if ended := len(got[ref]) > 0; ended != c.ends {
			t.Errorf("a bar of 1h for an alert of %s: ended %v", c.frame, ended)
		} else if ended && got[ref][0].(Reached).Span != (Span{bars[1].Low, bars[1].High}) {
			t.Errorf("an alert of %s ended with %+v", c.frame, got[ref][0])
		}
	}
}
