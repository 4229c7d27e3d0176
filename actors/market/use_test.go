package market

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// The schedules of an asset that is not kept continue in the time of its source.
func TestSpeedOfAnAssetThatIsNotKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources, asset string
		want           int64 // 0: not known
	}{
		{"binance,simulated", "DOGE", 1}, {"binance,simulated", "btc/usd", 1}, {"binance,simulated", "EURUSD", 0},
		{"simulated,binance", "BTC", 0}, {"simulated,binance", "DOGE", 1}, {"simulated", "BTC", 0},
		{"binance,simulated", "ETH", 0}, // which binance does not list
	} {
		m, _ := namesOf(t, c.sources, someListings)
		speed, err := m.Assets.Speed(t.Context(), c.asset)
		if c.want != 0 && (speed != c.want || err != nil) || c.want == 0 && signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("%s: %s: %d, %v", c.sources, c.asset, speed, err)
		}
	}
}

// Assets are needed if they were asked for since the last call, or have alerts.
func TestNeededAssets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := markettest.NewClock().Now()
		record := marketdata.Asset{Symbol: "DOGE", Class: assets.Crypto, Source: "binance", Speed: 1, AlwaysOpen: true}
		store := &fakeStore{asset: record, bars: hours(12, now.UnixMilli(), 1)}
		sys := engine.NewSystem(engine.Options{})
		defer sys.Shutdown(context.Background())
		m := New(sys, Options{Store: store, Sources: "binance", Now: func() time.Time { return now }})
		m.readTicks()
		needed := func(want ...string) {
			t.Helper()
			if got := m.use.needed(t.Context()); !slices.Equal(got, want) {
				t.Errorf("needed are %v, want %v", got, want)
			}
		}
		needed()
		_, _ = m.Series(t.Context(), "doge/usd", signal.H1)
		needed("DOGE")
		needed()
		ref := markettest.Refs(t, 1)[0]
		alert := alerts.Alert{Ref: ref, Lower: 1e-6, Upper: 1e9, Frame: signal.H1,
			Since: now.UnixMilli(), Expires: now.Add(24 * time.Hour).UnixMilli()}
		if err := m.Alerts.Alert(t.Context(), "DOGE", []alerts.Alert{alert}); err != nil {
			t.Fatal(err)
		}
		m.use.needed(t.Context())
		needed("DOGE")
		m.Alerts.Unalert("DOGE", ref)
		needed()
	})
}
