package market

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestBarsByTimes(t *testing.T) {
	t.Parallel()
	m, store := namesOf(t, "simulated", nil)
	const hour = 3_600_000
	for i := range int64(4) {
		bar := marketdata.Bar{OpenTime: i * hour}
		store.bars = append(store.bars, marketdata.AssetBar{Timeframe: signal.H1, Bar: bar})
	}
	store.bars = append(store.bars, marketdata.AssetBar{Timeframe: signal.M5})
	at := func(hours float64) time.Time { return time.UnixMilli(int64(hours * hour)) }
	for name, c := range map[string]struct {
		asset    string
		from, to time.Time
		want     []int64
	}{
		"all":           {"X", time.Time{}, time.Time{}, []int64{0, 1, 2, 3}},
		"other case":    {"x", at(2.5), time.Time{}, []int64{3}},
		"at the bounds": {"X", at(1), at(2), []int64{1, 2}},
		"until":         {"X", time.Time{}, at(.5), []int64{0}},
		"none":          {"X", at(9), time.Time{}, nil},
		"never asked":   {"btcusdt", time.Time{}, time.Time{}, nil},
	} {
		bars, err := m.Assets.Bars(t.Context(), c.asset, signal.H1, c.from, c.to)
		var got []int64
		for _, b := range bars {
			got = append(got, b.OpenTime/hour)
		}
		if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
	_, err := m.Assets.Bars(t.Context(), "BTCC", signal.H1, time.Time{}, time.Time{})
	if signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("an unknown asset: %v", err)
	}
	store.err = signal.Unavailable(context.DeadlineExceeded)
	if _, err := m.Assets.Bars(t.Context(), "BTC", signal.H1, time.Time{}, time.Time{}); signal.KindOf(err) !=
		signal.KindUnavailable {
		t.Errorf("without the store: %v", err)
	}
}
