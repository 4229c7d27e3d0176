package market

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestThePastIsNotStale(t *testing.T) {
	t.Parallel()
	clock := markettest.NewClock()
	old := clock.Now().UnixMilli() - 300*3_600_000
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Source: "stream", TickSize: .01, Speed: 1}, bars: hours(400, old, 1)}
	m := newFake(t, store, clock)
	if _, err := m.Series(t.Context(), "x", signal.H1); runErrorOf(t, err).Code != signal.StaleData {
		t.Errorf("of a run: %v, want stale data", err)
	}
	s, err := m.Past(t.Context(), "x", signal.H1)
	if err != nil || len(s.Bars) != 400 || s.Asset.Symbol != "X" || s.Asset.TickSize != .01 || s.Source != "stream" || s.Compression != 1 ||
		s.Last != (marketdata.Tick{Price: 2, Time: old}) || s.Ticks {
		t.Errorf("past: %+v, %v", s.Last, err)
	}
	for name, c := range map[string]struct {
		asset string
		tf    signal.Timeframe
		code  signal.ErrorCode
	}{"no bars": {"X", signal.D1, signal.InsufficientHistory}, "no such asset": {"Y", signal.H1, signal.DataUnavailable}, "no timeframe": {"X", "2h", signal.Internal}} {
		if _, err := m.Past(t.Context(), c.asset, c.tf); runErrorOf(t, err).Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func TestHistoryIsWhatReadersAreGiven(t *testing.T) {
	t.Parallel()
	stored := hours(400, 1_700_000_000_000/3_600_000*3_600_000, 1)
	missing := slices.Delete(slices.Clone(stored), 300, 302)
	always, sometimes := &marketdata.Asset{AlwaysOpen: true}, &marketdata.Asset{Source: source.Stream}
	filled, err := History(missing, always, signal.H1)
	if err != nil || len(filled) != 400 || !filled[300].Flat || filled[302] != stored[302].Bar {
		t.Errorf("%d bars with two filled, %v", len(filled), err)
	}
	if asIs, err := History(missing, sometimes, signal.H1); err != nil || len(asIs) != 398 {
		t.Errorf("with sessions: %d bars, %v", len(asIs), err)
	}
	_, err = History(slices.Delete(slices.Clone(stored), 300, 310), always, signal.H1)
	if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.DataUnavailable {
		t.Errorf("ten missing: %v", err)
	}
}

func TestTimeGoesByTheSourceOfAnAsset(t *testing.T) {
	t.Parallel()
	store := &fakeStore{asset: marketdata.Asset{Symbol: "BTC", Source: simulated.Name, Speed: 60}}
	m := newFake(t, store, markettest.NewClock())
	if speed, err := m.Speed(t.Context(), "btc-usd"); speed != 60 || err != nil {
		t.Errorf("speed %d, %v", speed, err)
	}
	if _, err := m.Speed(t.Context(), "NOSUCH"); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("the speed of nothing: %v", err)
	}
	friday := markettest.Instant(t, "2026-11-20T20:30:00Z") // half an hour before the exchange closes
	for name, c := range map[string]struct {
		record marketdata.Asset
		want   string
		thin   bool
	}{
		"simulated": {marketdata.Asset{Source: simulated.Name, Class: assets.Stock, Speed: 60}, "2026-11-20T22:30:00Z", false},
		"fast":      {marketdata.Asset{Source: simulated.Name, Class: assets.Stock, Speed: 61}, "2026-11-20T22:30:00Z", true},
		"exchange":  {marketdata.Asset{Source: "alpaca", Class: assets.Stock, Speed: 1}, "2026-11-23T16:00:00Z", false},
		"crypto":    {marketdata.Asset{Source: "binance", Class: assets.Crypto, Speed: 1}, "2026-11-20T22:30:00Z", false},
	} {
		if got := ExpiryOf(&c.record, friday, 2*time.Hour, signal.H1); !got.Equal(markettest.Instant(t, c.want)) || Thinned(&c.record) != c.thin {
			t.Errorf("%s: two hours end at %v, want %s; thinned %v", name, got, c.want, Thinned(&c.record))
		}
	}
}
