package market

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestFilterKeepsBadTicksOut(t *testing.T) {
	t.Parallel()
	tick := func(at int64, price float64) marketdata.Tick { return marketdata.Tick{Time: at, Price: price} }
	for _, c := range []struct {
		name    string
		rising  bool
		atr     float64
		ticks   []marketdata.Tick
		want    []marketdata.Tick
		skipped []reason
	}{
		{"passes what moves a little", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 110), tick(3, 100)},
			[]marketdata.Tick{tick(1, 100), tick(2, 110), tick(3, 100)}, nil},
		{"drops what is older than the newest", false, 1, []marketdata.Tick{tick(5, 100), tick(4, 101), tick(5, 102)},
			[]marketdata.Tick{tick(5, 100), tick(5, 102)}, []reason{skipOld}},
		{"drops repetitions where times rise", true, 1, []marketdata.Tick{tick(5, 100), tick(5, 100), tick(6, 101)},
			[]marketdata.Tick{tick(5, 100), tick(6, 101)}, []reason{skipOld}},
		{"drops a jump that the next tick does not confirm", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 111), tick(3, 101)},
			[]marketdata.Tick{tick(1, 100), tick(3, 101)}, []reason{skipJump}},
		{"passes a jump with the tick that confirms it", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 84.9)},
			[]marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 84.9)}, nil},
		{"holds the next jump where the first is not confirmed", false, 1,
			[]marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 200), tick(4, 201)},
			[]marketdata.Tick{tick(1, 100), tick(3, 200), tick(4, 201)}, []reason{skipJump}},
		{"does not confirm from more than half the distance", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 85.1), tick(4, 99)},
			[]marketdata.Tick{tick(1, 100), tick(4, 99)}, []reason{skipJump, skipJump}},
		{"drops what is older than a held one", false, 1, []marketdata.Tick{tick(1, 100), tick(5, 80), tick(4, 80), tick(6, 80)},
			[]marketdata.Tick{tick(1, 100), tick(5, 80), tick(6, 80)}, []reason{skipOld}},
		{"passes much while the range is not known", false, 0, []marketdata.Tick{tick(1, 100), tick(2, 390), tick(3, 100)},
			[]marketdata.Tick{tick(1, 100), tick(2, 390), tick(3, 100)}, nil},
		{"drops what cannot be the same thing then", false, 0, []marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, .01), tick(4, 101)},
			[]marketdata.Tick{tick(1, 100), tick(4, 101)}, []reason{skipJump, skipJump}},
		{"passes it with the tick that confirms it", false, math.NaN(), []marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, 999_999)},
			[]marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, 999_999)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := filter{rising: c.rising}
			var got []marketdata.Tick
			var skipped []reason
			for _, x := range c.ticks {
				passed, r := f.take(x, c.atr)
				got = append(got, passed...)
				if r != "" {
					skipped = append(skipped, r)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("ticks (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.skipped, skipped); d != "" {
				t.Errorf("skipped (-want +got):\n%s", d)
			}
		})
	}
}

// TestAJumpFromBeforeAGapIsNotConfirmedAfterIt: the tick that is held came long before the
// next one, and says nothing of it.
func TestAJumpFromBeforeAGapIsNotConfirmedAfterIt(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		gap    bool
		prices []float64 // of the ticks that follow a held one at 150
		want   []float64
	}{
		{"no gap", false, []float64{151, 101}, []float64{100, 150, 151}}, // 101 is a jump again
		{"the price is back", true, []float64{151, 101}, []float64{100, 101}},
		{"the price has moved", true, []float64{151, 152}, []float64{100, 151, 152}},
	} {
		c, minute := minuteClock()
		store := &stepStore{}
		term := streamTerm(t, store, c)
		a := term.add(marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1})
		a.given, a.kept = true, true
		for i := range int64(20) {
			open := minute - (20-i)*60_000
			a.builder.give(marketdata.AssetBar{Asset: "DOGE", Timeframe: signal.M1, Given: true, Bar: marketdata.Bar{OpenTime: open,
				CloseTime: open + 60_000, Open: 100, High: 101, Low: 99, Close: 100}})
		}
		k := &keeper{symbol: "DOGE"}
		term.desk = &desk{keepers: map[string]*keeper{assetKey("DOGE"): k}}
		deliver := func(missed int64, ticks ...marketdata.Tick) {
			t.Helper()
			if err := term.workDelivery(t.Context(), &delivery{keeper: k, missed: missed, ticks: ticks}); err != nil {
				t.Fatal(err)
			}
		}
		deliver(0, marketdata.Tick{Time: minute + 1, Price: 100}, marketdata.Tick{Time: minute + 2, Price: 150})
		var missed int64
		if x.gap {
			missed = minute + 1
			deliver(missed) // comes without ticks
		}
		deliver(0, marketdata.Tick{Time: minute + 30_000, Price: x.prices[0]}, marketdata.Tick{Time: minute + 30_001, Price: x.prices[1]})
		var got []float64
		for _, tick := range store.ticks {
			got = append(got, tick.Price)
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s: prices (-want +got):\n%s", x.name, d)
		}
		if len(store.ticks) > 1 && store.ticks[1].Missed != missed {
			t.Errorf("%s: ticks are missing since %d, want %d", x.name, store.ticks[1].Missed, missed)
		}
	}
}

// The series and its ATR(14) at the last bar are those of domain.md, section 2.
func TestATRAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	got := atr14(60, func(i int) (high, low, closing float64) {
		x := float64(i)
		c := 100 + 10*math.Sin(x/5) + 3*math.Cos(x/2) + .1*x
		return c + 1 + .5*math.Sin(x), c - 1 - .5*math.Cos(x), c
	})
	if math.Abs(got-2.696084388) > 1e-9 {
		t.Errorf("ATR is %.9f", got)
	}
	if got := atr14(14, func(int) (high, low, closing float64) { return 2, 1, 1 }); got != 0 {
		t.Errorf("ATR of 14 bars is %v", got)
	}
}
