package lifecycle

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeForecasts has one likelihood for everything.
type fakeForecasts struct {
	likelihood atomic.Uint64 // bits
	asked      atomic.Int32
}

func (f *fakeForecasts) set(v float64) { f.likelihood.Store(math.Float64bits(v)) }

func (f *fakeForecasts) Turned(name string, d signal.Direction, o *signal.Outlook) (float64, float64, bool) {
	f.asked.Add(1)
	v := math.Float64frombits(f.likelihood.Load())
	return v, .25, v > 0 && name == "energy_demand" && d == signal.Long && o.Commodity == "natural_gas" && o.Region == "us"
}

// TestForecastsThatTurnMoveTheConfidence: with the price where it was, the confidence
// follows the likelihood of the newest forecast, whatever was stored before; and another
// owner goes on from there.
func TestForecastsThatTurnMoveTheConfidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.Agent, s.Strategy, s.Asset = "weather", "energy_demand", "natural_gas"
		s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .8}
		forecasts := &fakeForecasts{}
		w := newWorldWith(t, Options{Speed: 60, Forecasts: forecasts}, s)
		if forecasts.asked.Load() == 0 {
			t.Error("the forecast is not asked for at the start")
		}
		bar := func() { w.tell(t, "natural_gas", market.Closed{Price: 100, Span: market.Span{Low: 100, High: 100}}) }
		last := func() *signal.Signal {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.changes[len(w.changes)-1].Signal
		}
		bar() // no forecast is known
		forecasts.set(.75)
		bar() // by less than what is worth telling
		if n := len(w.types()); n != 0 {
			t.Fatalf("%d updates", n)
		}
		forecasts.set(.2)
		bar()
		if n := len(w.types()); n != 1 {
			t.Fatalf("%d updates after the forecast has turned", n)
		}
		want := .45 + .25*(.2-.8)
		if got := last(); math.Abs(got.FirstConfidence-want) > 1e-12 || got.Confidence != strategy.Rescore(want, *s.Levels, 100) || got.Weather.Likelihood != .2 ||
			got.Weather.Region != "us" || got.Weather.Commodity != "natural_gas" {
			t.Errorf("stored is %+v with %+v, want a first confidence of %v", got, got.Weather, want)
		}
		stored := *last()
		w.end()

		// Another process takes over what is stored, when the forecast turns back.
		again := newWorldWith(t, Options{Speed: 60, Forecasts: forecasts}, stored)
		defer again.end()
		again.tell(t, "natural_gas", market.Closed{Price: 100, Span: market.Span{Low: 100, High: 100}})
		if n := len(again.types()); n != 0 {
			t.Errorf("%d updates after a restart, though nothing has changed", n)
		}
		forecasts.set(.8)
		again.tell(t, "natural_gas", market.Closed{Price: 100, Span: market.Span{Low: 100, High: 100}})
		if len(again.changes) != 1 || math.Abs(again.changes[0].Signal.FirstConfidence-.45) > 1e-12 {
			t.Errorf("after the forecast has turned back: %+v", again.changes)
		}
	})
}

// TestOtherSignalsHaveNoForecast: those of other agents are re-scored by price alone.
func TestOtherSignalsHaveNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		forecasts.set(.1)
		w := newWorldWith(t, Options{Speed: 60, Forecasts: forecasts}, openSignal("1"))
		defer w.end()
		w.tell(t, "BTC", market.Closed{Price: 110, Span: market.Span{Low: 100, High: 110}})
		if len(w.changes) != 1 || w.changes[0].Signal.Weather != nil || w.changes[0].Signal.FirstConfidence != .45 || forecasts.asked.Load() != 0 {
			t.Errorf("changes are %+v", w.changes)
		}
	})
}
