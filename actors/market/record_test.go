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

func TestPastIsNotStale(t *testing.T) {
	t.Parallel()
	clock := markettest.NewClock()
	old := clock.Now().UnixMilli() - 300*3_600_000
	record := marketdata.Asset{Symbol: "X", Source: "stream", TickSize: .01, Speed: 1}
	m := newFake(t, &fakeStore{asset: record, bars: hours(400, old, 1)}, clock)
	if _, err := m.Series(t.Context(), "x", signal.H1); markettest.RunError(t, err).Code != signal.StaleData {
		t.Errorf("of a run: %v, want stale data", err)
	}
	s, err := m.History(t.Context(), "x", signal.H1)
	if err != nil || len(s.Bars) != 400 || s.Asset.Symbol != "X" || s.Asset.TickSize != .01 || s.Source != "stream" ||
		s.Compression != 1 || s.Last != (marketdata.Tick{Price: 2, Time: old}) || s.Ticks {
		t.Errorf("past: %+v, %v", s.Last, err)
	}
	for name, c := range map[string]struct {
		asset string
		tf    signal.Timeframe
		code  signal.ErrorCode
	}{
		"no bars":       {"X", signal.D1, signal.InsufficientHistory},
		"no such asset": {"Y", signal.H1, signal.DataUnavailable},
		"no timeframe":  {"X", "2h", signal.Internal},
	} {
		if _, err := m.History(t.Context(), c.asset, c.tf); markettest.RunError(t, err).Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func TestHistoryFillsGaps(t *testing.T) {
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

func TestSpeedAndExpiryFollowTheSource(t *testing.T) {
	t.Parallel()
	store := &fakeStore{asset: marketdata.Asset{Symbol: "BTC", Source: simulated.Name, Speed: 60}}
	m := newFake(t, store, markettest.NewClock())
	if speed, err := m.Assets.Speed(t.Context(), "btc-usd"); speed != 60 || err != nil {
		t.Errorf("speed %d, %v", speed, err)
	}
	if _, err := m.Assets.Speed(t.Context(), "NOSUCH"); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("speed of an unknown asset: %v", err)
	}
	friday := markettest.Instant(t, "2026-11-20T20:30:00Z") // half an hour before the exchange closes
	for _, c := range []struct {
		source, class string
		speed         int64
		want          string
		thin          bool
	}{
		{simulated.Name, assets.Stock, 60, "2026-11-20T22:30:00Z", false},
		{simulated.Name, assets.Stock, 61, "2026-11-20T22:30:00Z", true},
		{"alpaca", assets.Stock, 1, "2026-11-23T16:00:00Z", false},
		{"binance", assets.Crypto, 1, "2026-11-20T22:30:00Z", false},
	} {
		record := marketdata.Asset{Source: c.source, Class: c.class, Speed: c.speed}
		got, thinned := ExpiryOf(&record, friday, 2*time.Hour, signal.H1), Thinned(&record)
		if !got.Equal(markettest.Instant(t, c.want)) || thinned != c.thin {
			t.Errorf("%s at speed %d: end %v, want %s; thinned %v", c.source, c.speed, got, c.want, thinned)
		}
	}
}
