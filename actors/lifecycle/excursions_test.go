package lifecycle

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// The prices since the last bar count also if the signal expires.
func TestExcursionsIncludeThePricesBeforeTheExpiry(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.send(t, "BTC", alerts.BarClosed{Price: 100, Span: alerts.Span{Low: 98, High: 104}, Left: 1})
		m := expiredAfter(24*time.Minute, 101)
		m.Span = alerts.Span{Low: 93, High: 109}
		h.send(t, "BTC", m)
		if s := h.stored()[len(h.stored())-1].Signal; s.Closing == nil || s.MFE != .9 || s.MAE != -.7 {
			t.Errorf("closing %v, MFE %v, MAE %v, want .9 and -.7", s.Closing, s.MFE, s.MAE)
		}
	})
}

// Excursions are stored with the closing only, so a new owner needs all prices since the creation.
func TestANewOwnerCatchesUpFromTheCreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.UpdatedAt, s.Sequence = s.CreatedAt.Add(10*time.Minute), 3
		h := newHarness(t, s)
		h.mu.Lock()
		defer h.mu.Unlock()
		if list := h.alerts["BTC"]; len(list) != 1 || list[0].Since != s.CreatedAt.UnixMilli() {
			t.Errorf("alerts %+v, want one since %d", list, s.CreatedAt.UnixMilli())
		}
	})
}

// A forecast that goes to an extreme and comes back leaves the confidence where it was.
func TestAnExtremeForecastIsNotClamped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, forecasts := gasSignal(), &fakeForecasts{weight: 1.5}
		s.Weather.Likelihood = .2
		h := newHarnessWith(t, Options{Forecasts: forecasts}, s)
		var got *signal.Signal
		for _, likelihood := range []float64{.95, .2} {
			forecasts.set(likelihood)
			h.bar(t, 100)
			got, _ = h.last()
		}
		if got == nil || got.Weather.Likelihood != .2 || math.Abs(got.FirstConfidence-.45) > 1e-12 {
			t.Errorf("stored is %+v, want a first confidence of .45", got)
		}
		h.end()
	})
}
