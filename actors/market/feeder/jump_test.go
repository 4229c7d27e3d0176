package feeder

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

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
		k := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
		term.feeds = &feeds{keepers: map[string]*kept{assets.Fold("DOGE"): {AssetFeed: k}}}
		deliver := func(missed int64, ticks ...marketdata.Tick) {
			t.Helper()
			if err := term.workDelivery(t.Context(), &source.Delivery{Feed: k, Missed: missed, Ticks: ticks}); err != nil {
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
