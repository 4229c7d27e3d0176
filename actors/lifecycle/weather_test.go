package lifecycle

import (
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
	likelihood atomic.Uint64 // bits
	asked      atomic.Int32
}

func (f *fakeForecasts) set(v float64) { f.likelihood.Store(math.Float64bits(v)) }

func (f *fakeForecasts) Turned(name string, d signal.Direction, o *signal.Outlook) (float64, float64, bool) {
	f.asked.Add(1)
	v := math.Float64frombits(f.likelihood.Load())
	return v, .25, v > 0 && name == "energy_demand" && d == signal.Long && o.Commodity == "natural_gas" && o.Region == "us"
}

// gasSignal is openSignal of the weather agent.
func gasSignal() signal.Signal {
	s := openSignal("1")
	s.Agent, s.Strategy, s.Asset, s.Timeframe, s.ExpiresAt = "weather", "energy_demand", "natural_gas", signal.D1, s.CreatedAt.Add(10*dayBar)
	s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .8}
	return s
}

// turn publishes a new forecast for gasSignal.
func (w *world) turn(f *fakeForecasts, likelihood float64) {
	f.set(likelihood)
	w.node.ForecastArrived("energy_demand", "natural_gas", "us")
	synctest.Wait()
}

// bar sleeps until shortly after the close of the day's bar, and reports the close.
func (w *world) bar(t *testing.T, price float64) {
	t.Helper()
	now := time.Now()
	closes := now.Truncate(dayBar).Add(dayBar)
	time.Sleep(closes.Sub(now) + time.Second)
	w.send(t, "natural_gas", alerts.BarClosed{At: closes.UnixMilli(), Price: price, Span: alerts.Span{Low: price, High: price}, Frame: dayBar.Milliseconds()})
}

// last returns the last stored state of the signal, and the number of changes.
func (w *world) last() (*signal.Signal, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changes) == 0 {
		return nil, 0
	}
	return w.changes[len(w.changes)-1].Signal, len(w.changes)
}

// TestForecastsThatTurnMoveTheConfidence: at an unchanged price the confidence follows
// the likelihood of the newest forecast, also under a new owner.
func TestForecastsThatTurnMoveTheConfidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gasSignal()
		forecasts := &fakeForecasts{}
		w := newWorldWith(t, Options{Forecasts: forecasts}, s)
		if forecasts.asked.Load() == 0 {
			t.Error("the forecast is not asked for at the start")
		}
		w.bar(t, 100) // no forecast is known
		forecasts.set(.75)
		w.bar(t, 100) // moves by too little to be published
		if _, n := w.last(); n != 0 {
			t.Fatalf("%d updates", n)
		}
		forecasts.set(.2)
		w.bar(t, 100)
		want := .45 + .25*(.2-.8)
		got, n := w.last()
		if n != 1 {
			t.Fatalf("%d updates after the forecast has turned", n)
		}
		if math.Abs(got.FirstConfidence-want) > 1e-12 || got.Confidence != strategy.Rescore(want, *s.Levels, 100) || got.Weather.Likelihood != .2 ||
			got.Weather.Region != "us" || got.Weather.Commodity != "natural_gas" {
			t.Errorf("stored is %+v with %+v, want a first confidence of %v", got, got.Weather, want)
		}
		stored := *got
		w.end()

		// Another process takes over the stored signal when the forecast turns back.
		again := newWorldWith(t, Options{Forecasts: forecasts}, stored)
		defer again.end()
		again.bar(t, 100)
		if _, n := again.last(); n != 0 {
			t.Errorf("%d updates after a restart, though nothing has changed", n)
		}
		forecasts.set(.8)
		again.bar(t, 100)
		if got, n := again.last(); n != 1 || math.Abs(got.FirstConfidence-.45) > 1e-12 {
			t.Errorf("after the forecast has turned back: %d updates, %+v", n, got)
		}
	})
}

// TestAForecastTakesEffectWhenItArrives, at the current price and once in a bar: a later
// one waits for the next bar, even after a restart.
func TestAForecastTakesEffectWhenItArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, forecasts := gasSignal(), &fakeForecasts{}
		w := newWorldWith(t, Options{Forecasts: forecasts}, s)
		demand := func(what string, updates int) *signal.Signal {
			t.Helper()
			got, n := w.last()
			if n != updates {
				t.Fatalf("%s: %d updates, want %d", what, n, updates)
			}
			return got
		}
		w.bar(t, 100)
		time.Sleep(dayBar / 4)
		w.price = 103
		w.turn(forecasts, .2)
		if got := demand("the forecast has turned", 1); got.Confidence != strategy.Rescore(.45+.25*(.2-.8), *s.Levels, 103) || got.MFE != .3 {
			t.Errorf("confidence %v, MFE %v", got.Confidence, got.MFE)
		}
		time.Sleep(dayBar / 4)
		w.turn(forecasts, .9)
		demand("it turns again in the same bar", 1)
		stored := *demand("", 1)
		w.end()
		w = newWorldWith(t, Options{Forecasts: forecasts}, stored)
		w.price = 103
		w.turn(forecasts, .9)
		demand("and after a restart", 0)
		w.bar(t, 103)
		demand("at the close of that bar", 0)
		time.Sleep(dayBar / 4)
		w.turn(forecasts, .9)
		if got := demand("in the next bar", 1); math.Abs(got.FirstConfidence-(.45+.25*(.9-.8))) > 1e-12 {
			t.Errorf("first confidence %v", got.FirstConfidence)
		}
		w.bar(t, 103)
		w.bar(t, 95) // an update at a close does not count for the bar that begins there
		demand("at a close", 2)
		time.Sleep(dayBar / 4)
		w.turn(forecasts, .1)
		demand("in the bar behind that close", 3)
		w.end()
	})
}

// TestForecastsRescoreOnlyTheirSignals: not those of other questions, and not one that is
// about to close.
func TestForecastsRescoreOnlyTheirSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		w := newWorldWith(t, Options{Forecasts: forecasts}, gasSignal())
		defer w.end()
		priceCalls := w.priceCalls
		for _, q := range [][3]string{{"commodity_impact", "natural_gas", "us"}, {"energy_demand", "oil", "us"}, {"energy_demand", "natural_gas", "eu"}} {
			w.node.ForecastArrived(q[0], q[1], q[2])
		}
		synctest.Wait()
		if w.priceCalls != priceCalls {
			t.Errorf("the price is asked for %d times by forecasts of other questions", w.priceCalls-priceCalls)
		}
		w.price = 100
		w.mu.Lock()
		w.block = make(chan struct{})
		w.mu.Unlock()
		w.send(t, "natural_gas", alerts.Reached{Tick: tickAt(time.Minute, 116)})
		w.turn(forecasts, .2)
		close(w.block)
		synctest.Wait()
		w.wantEvents(t, []signal.EventType{signal.SignalClosed})
		priceCalls = w.priceCalls
		if w.turn(forecasts, .9); w.priceCalls != priceCalls {
			t.Error("a closed signal is re-scored")
		}
	})
}

// TestAForecastMayArriveBeforeTheAlert: the price is requested once the alert is added.
func TestAForecastMayArriveBeforeTheAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		w := unstartedWorld(gasSignal())
		w.asked, w.price = make(chan struct{}), 100
		w.start(Options{Forecasts: forecasts})
		defer w.end()
		forecasts.set(.2)
		close(w.asked)
		synctest.Wait()
		w.wantEvents(t, []signal.EventType{signal.SignalUpdated})
	})
}

// TestPriceWithoutANewForecastDoesNotRescore: the price is requested at every start.
func TestPriceWithoutANewForecastDoesNotRescore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		forecasts.set(.8)
		w := unstartedWorld(gasSignal())
		w.price = 110
		w.start(Options{Forecasts: forecasts})
		defer w.end()
		if _, n := w.last(); n != 0 || w.priceCalls == 0 {
			t.Errorf("%d updates, %d questions", n, w.priceCalls)
		}
	})
}

// TestOtherSignalsHaveNoForecast: those of other agents are re-scored by price alone.
func TestOtherSignalsHaveNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		forecasts := &fakeForecasts{}
		forecasts.set(.1)
		w := newWorldWith(t, Options{Forecasts: forecasts}, openSignal("1"))
		defer w.end()
		w.send(t, "BTC", alerts.BarClosed{Price: 110, Span: alerts.Span{Low: 100, High: 110}})
		if got, n := w.last(); n != 1 || got.Weather != nil || got.FirstConfidence != .45 || forecasts.asked.Load() != 0 || w.priceCalls != 0 {
			t.Errorf("%d changes, %+v", n, got)
		}
	})
}
