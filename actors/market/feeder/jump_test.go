package feeder

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// A tick that is held before a gap is too old to be confirmed after it.
func TestJumpBeforeAGapIsNotConfirmedAfterIt(t *testing.T) {
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
		lead := newStreamLeadership(t, store, c)
		a := lead.add(marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1})
		a.given, a.kept = true, true
		giveMinutes(a, minute)
		k := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
		lead.feeds = &feeds{kept: map[string]*keptAsset{assets.Fold("DOGE"): {AssetFeed: k}}}
		deliver := func(missed, at int64, prices ...float64) {
			t.Helper()
			d := &source.Delivery{Feed: k, Missed: missed}
			for i, price := range prices {
				d.Ticks = append(d.Ticks, marketdata.Tick{Time: at + int64(i), Price: price})
			}
			if err := lead.workDelivery(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		deliver(0, minute+1, 100, 150)
		var missed int64
		if x.gap {
			missed = minute + 1
			deliver(missed, 0) // without ticks
		}
		deliver(0, minute+30_000, x.prices...)
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
