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

// TestSpeedOfAnAssetThatIsNotKept: its schedules go on by the time of its source.
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
		speed, err := m.Speed(t.Context(), c.asset)
		if c.want != 0 && (speed != c.want || err != nil) || c.want == 0 && signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("%s: %s: %d, %v", c.sources, c.asset, speed, err)
		}
	}
}

// TestWhatIsNeededIsNoted: what was asked for since, and what has open signals.
func TestWhatIsNeededIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := markettest.NewClock().Now()
		store := &fakeStore{asset: marketdata.Asset{Symbol: "DOGE", Class: assets.Crypto, Source: "binance", Speed: 1, AlwaysOpen: true},
			bars: hours(12, now.UnixMilli(), 1)}
		sys := engine.NewSystem(engine.Options{})
		defer sys.Shutdown(context.Background())
		m := New(sys, Options{Store: store, Sources: "binance", Now: func() time.Time { return now }})
		m.readTicks()
		needed := func(want ...string) {
			t.Helper()
			if got := m.needed(t.Context()); !slices.Equal(got, want) {
				t.Errorf("needed are %v, want %v", got, want)
			}
		}
		needed()
		_, _ = m.Series(t.Context(), "doge/usd", signal.H1)
		needed("DOGE")
		needed()
		ears := sys.Spawn(engine.Asset, "ears", func() engine.Actor { return deafEars{} }, engine.Supervision{})
		alert := alerts.Alert{Ref: ears, Lower: 1e-6, Upper: 1e9, Since: now.UnixMilli(), Expires: now.Add(24 * time.Hour).UnixMilli(), Frame: signal.H1}
		if err := m.Alert(t.Context(), "DOGE", []alerts.Alert{alert}); err != nil {
			t.Fatal(err)
		}
		m.needed(t.Context())
		needed("DOGE")
		m.Unalert("DOGE", ears)
		needed()
	})
}

// deafEars do nothing.
type deafEars struct{}

func (deafEars) Receive(engine.Context) {}
