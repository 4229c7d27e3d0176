package lifecycle

import (
	"cmp"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeForecasts has the same likelihood for all questions.
type fakeForecasts struct {
	weight     float64       // τ; 0: .25, as after a fit
	likelihood atomic.Uint64 // bits
	asked      atomic.Int32
}

func (f *fakeForecasts) set(v float64) { f.likelihood.Store(math.Float64bits(v)) }

func (f *fakeForecasts) Turned(name string, d signal.Direction, o *signal.Outlook) (float64, float64, bool) {
	f.asked.Add(1)
	v := math.Float64frombits(f.likelihood.Load())
	known := name == "energy_demand" && d == signal.Long && o.Commodity == "natural_gas" && o.Region == "us"
	return v, cmp.Or(f.weight, .25), v > 0 && known
}

// gasSignal returns an open signal of the weather agent.
func gasSignal() signal.Signal {
	s := openSignal("1")
	s.Agent, s.Strategy, s.Asset, s.Timeframe = "weather", "energy_demand", "natural_gas", signal.D1
	s.ExpiresAt = s.CreatedAt.Add(10 * dayBar)
	s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .8}
	return s
}

// turn publishes a new forecast for gasSignal.
func (h *harness) turn(f *fakeForecasts, likelihood float64) {
	f.set(likelihood)
	h.node.ForecastArrived("energy_demand", "natural_gas", "us")
	synctest.Wait()
}

// bar sleeps until shortly after the close of the day's bar, and reports the close.
func (h *harness) bar(t *testing.T, price float64) {
	t.Helper()
	now := time.Now()
	closes := now.Truncate(dayBar).Add(dayBar)
	time.Sleep(closes.Sub(now) + time.Second)
	span := alerts.Span{Low: price, High: price}
	closed := alerts.BarClosed{At: closes.UnixMilli(), Price: price, Span: span, Frame: dayBar.Milliseconds(), Left: 1}
	h.send(t, "natural_gas", closed)
}

// last returns the last stored state of the signal, and the number of changes.
func (h *harness) last() (*signal.Signal, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changes) == 0 {
		return nil, 0
	}
	return h.changes[len(h.changes)-1].Signal, len(h.changes)
}

// At an unchanged price the confidence follows the likelihood of the newest forecast, also
// under a new owner.
func TestForecastsMoveTheConfidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gasSignal()
		forecasts := &fakeForecasts{}
		h := newHarnessWith(t, Options{Forecasts: forecasts}, s)
		if forecasts.asked.Load() == 0 {
			t.Error("the forecast is not requested at the start")
		}
		h.bar(t, 100) // no forecast is known
		forecasts.set(.75)
		h.bar(t, 100) // moves by too little to be published
		if _, n := h.last(); n != 0 {
			t.Fatalf("%d updates", n)
		}
		forecasts.set(.2)
		h.bar(t, 100)
		want := .45 + .25*(.2-.8)
		got, n := h.last()
		if n != 1 {
			t.Fatalf("%d updates after the forecast has turned", n)
		}
		wantOutlook := signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .2}
		rescored := strategy.Rescore(want, *s.Levels, s.Timeframe, s.Risk, 1, 100)
		if math.Abs(got.FirstConfidence-want) > 1e-12 || got.Confidence != rescored || *got.Weather != wantOutlook {
			t.Errorf("stored is %+v with %+v, want a first confidence of %v", got, got.Weather, want)
		}
		stored := *got
		h.end()

		// Another process takes over the stored signal when the forecast turns back.
		again := newHarnessWith(t, Options{Forecasts: forecasts}, stored)
		defer again.end()
		again.bar(t, 100)
		if _, n := again.last(); n != 0 {
			t.Errorf("%d updates after a restart without a change", n)
		}
		forecasts.set(.8)
		again.bar(t, 100)
		if got, n := again.last(); n != 1 || math.Abs(got.FirstConfidence-.45) > 1e-12 {
			t.Errorf("after the forecast has turned back: %d updates, %+v", n, got)
		}
	})
}

// With a τ that is assumed, a forecast that turns moves the confidence by too little to be
// published, and is in the next update that the price brings.
func TestAnAssumedForecastIsNotPublishedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, forecasts := gasSignal(), &fakeForecasts{weight: .02}
		h := newHarnessWith(t, Options{Forecasts: forecasts}, s)
		defer h.end()
		h.bar(t, 100)
		time.Sleep(dayBar / 4)
		h.price = 100
		h.turn(forecasts, .1)
		if got, n := h.last(); n != 0 {
			t.Fatalf("at the same price there are %d updates, %+v", n, got)
		}
		h.bar(t, 103)
		first := .45 + .02*(.1-.8)
		if got, n := h.last(); n != 1 || math.Abs(got.FirstConfidence-first) > 1e-12 || got.Weather.Likelihood != .1 ||
			got.Confidence != strategy.Rescore(first, *s.Levels, s.Timeframe, s.Risk, 1, 103) {
			t.Errorf("at another price there are %d updates, %+v", n, got)
		}
	})
}

// A forecast takes effect when it arrives, at the current price and once in a bar: a later
// one waits for the next bar, even after a restart.
func TestAForecastTakesEffectWhenItArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, forecasts := gasSignal(), &fakeForecasts{}
		h := newHarnessWith(t, Options{Forecasts: forecasts}, s)
		check := func(name string, updates int) *signal.Signal {
			t.Helper()
			got, n := h.last()
			if n != updates {
				t.Fatalf("%s: %d updates, want %d", name, n, updates)
			}
			return got
		}
		h.bar(t, 100)
		time.Sleep(dayBar / 4)
		h.price = 103
		h.turn(forecasts, .2)
		got := check("the forecast has turned", 1)
		if got.Confidence != strategy.Rescore(.45+.25*(.2-.8), *s.Levels, s.Timeframe, s.Risk, 1, 103) || got.MFE != .3 {
			t.Errorf("confidence %v, MFE %v", got.Confidence, got.MFE)
		}
		time.Sleep(dayBar / 4)
		h.turn(forecasts, .9)
		stored := *check("it turns again in the same bar", 1)
		h.end()
		h = newHarnessWith(t, Options{Forecasts: forecasts}, stored)
		h.price = 103
		h.turn(forecasts, .9)
		check("and after a restart", 0)
		h.bar(t, 103)
		check("at the close of that bar", 0)
		time.Sleep(dayBar / 4)
		h.turn(forecasts, .9)
		if got := check("in the next bar", 1); math.Abs(got.FirstConfidence-(.45+.25*(.9-.8))) > 1e-12 {
			t.Errorf("first confidence %v", got.FirstConfidence)
		}
		h.bar(t, 103)
		h.bar(t, 95) // an update at a close does not count for the bar that begins there
		check("at a close", 2)
		time.Sleep(dayBar / 4)
		h.turn(forecasts, .1)
		check("in the bar after that close", 3)
	})
}

// A forecast re-scores no signals of other questions, and not one that is about to close.
func TestForecastsRescoreOnlyTheirSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		h := newHarnessWith(t, Options{Forecasts: forecasts}, gasSignal())
		priceCalls := h.priceCalls
		h.node.ForecastArrived("commodity_impact", "natural_gas", "us")
		h.node.ForecastArrived("energy_demand", "oil", "us")
		h.node.ForecastArrived("energy_demand", "natural_gas", "eu")
		synctest.Wait()
		if h.priceCalls != priceCalls {
			t.Errorf("%d calls of RequestPrice by forecasts of other questions", h.priceCalls-priceCalls)
		}
		h.price = 100
		h.set(func() { h.block = make(chan struct{}) })
		h.send(t, "natural_gas", alerts.Reached{Tick: tickAt(time.Minute, 116)})
		h.turn(forecasts, .2)
		close(h.block)
		synctest.Wait()
		h.wantEvents(t, signal.SignalClosed)
		priceCalls = h.priceCalls
		if h.turn(forecasts, .9); h.priceCalls != priceCalls {
			t.Error("a closed signal is re-scored")
		}
	})
}

// If a forecast arrives before the alert is added, the price is requested after that.
func TestAForecastMayArriveBeforeTheAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		h := unstartedHarness(t, gasSignal())
		h.asked, h.price = make(chan struct{}), 100
		h.start(Options{Forecasts: forecasts})
		forecasts.set(.2)
		close(h.asked)
		synctest.Wait()
		h.wantEvents(t, signal.SignalUpdated)
	})
}

// The price that is requested at every start does not re-score without a new forecast.
func TestPriceWithoutANewForecastDoesNotRescore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		forecasts.set(.8)
		h := unstartedHarness(t, gasSignal())
		h.price = 110
		h.start(Options{Forecasts: forecasts})
		if _, n := h.last(); n != 0 || h.priceCalls == 0 {
			t.Errorf("%d updates, %d calls of RequestPrice", n, h.priceCalls)
		}
	})
}

// The signals of other agents are re-scored by price alone.
func TestOtherSignalsHaveNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		forecasts.set(.1)
		h := newHarnessWith(t, Options{Forecasts: forecasts}, openSignal("1"))
		h.send(t, "BTC", alerts.BarClosed{Price: 110, Span: alerts.Span{Low: 100, High: 110}, Left: 1})
		if got, n := h.last(); n != 1 || got.Weather != nil || got.FirstConfidence != .45 {
			t.Errorf("%d changes, %+v", n, got)
		}
		if n := int(forecasts.asked.Load()) + h.priceCalls; n != 0 {
			t.Errorf("%d forecasts and prices are requested", n)
		}
	})
}
