package lifecycle

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Messages that cross, answers that are lost, actors that fail in between.

// While the market is not available, a signal stays open long after its expiry.
func TestExpiredSignalIsNotClosedBeforePricesAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.CreatedAt, s.ExpiresAt = s.CreatedAt.Add(-48*time.Hour), s.ExpiresAt.Add(-48*time.Hour)
		h := unstartedHarness(t, s)
		h.silent = true
		h.start(Options{})
		time.Sleep(time.Hour)
		h.set(func() { h.silent = false })
		time.Sleep(2 * backoff.DefaultMax)
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(-48*time.Hour, 116), Past: true})
		if len(h.stored()) != 1 || *h.stored()[0].Signal.Closing.ExitPrice != 115 {
			t.Errorf("changes are %+v", h.stored())
		}
	})
}

// Reads of a failing store back off, even if it returns part of the signals.
func TestReadsOfAFailingStoreBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := unstartedHarness(t, openSignal("1"))
		h.down = true
		h.start(Options{})
		check := func(name string) {
			t.Helper()
			time.Sleep(time.Minute)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.reads < 10 || h.reads > 20 {
				t.Errorf("%s: %d reads in a minute", name, h.reads)
			}
			h.reads = 0
		}
		check("at the start")
		h.set(func() { h.down = false })
		time.Sleep(backoff.DefaultMax)
		h.set(func() { h.down, h.reads = true, 0 })
		h.follower.Follow([]signal.Event{{Type: signal.SignalCreated, Listing: &signal.Listing{ID: idOf("2")}}})
		check("for a new signal")
	})
}

// An update whose answer is lost is stored once, and the next change has the next sequence.
func TestLostAnswerOfAnUpdate(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.dropAnswers = true
		h.send(t, "BTC", alerts.BarClosed{Price: 105, Left: 1})
		h.set(func() { h.dropAnswers = false })
		time.Sleep(time.Minute)
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
		h.wantEvents(t, signal.SignalUpdated, signal.SignalClosed)
	})
}

// A closing whose answer is lost is stored and counted once.
func TestLostAnswerOfAClosing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics(prometheus.NewPedanticRegistry())
		h := newHarnessWith(t, Options{Metrics: metrics}, openSignal("1"))
		h.dropAnswers = true
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
		time.Sleep(time.Minute)
		h.wantEvents(t, signal.SignalClosed)
		counted := testutil.ToFloat64(metrics.closes.WithLabelValues("trading", string(signal.TakeProfit)))
		if open := testutil.ToFloat64(metrics.watched.WithLabelValues("trading")); counted != 1 || open != 0 {
			t.Errorf("%v closings are counted, and %v open signals; want 1 and 0", counted, open)
		}
	})
}

// wantEvents checks the events of the only signal, and that their sequences have no gap.
func (h *harness) wantEvents(t *testing.T, want ...signal.EventType) {
	t.Helper()
	if got := h.types(); !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for i, c := range h.stored() {
		if c.Signal.Sequence != int64(i)+2 {
			t.Errorf("change %d has the sequence %d", i, c.Signal.Sequence)
		}
	}
}

// The change of an earlier incarnation is stored, and its result is not mistaken for that of
// the new incarnation's change.
func TestRestartedActorContinues(t *testing.T) {
	t.Parallel()
	const closed = signal.SignalClosed
	for name, before := range map[string]struct {
		message any
		want    []signal.EventType
	}{
		"after an update": {alerts.BarClosed{Price: 105, Left: 1}, []signal.EventType{signal.SignalUpdated, closed}},
		"after a closing": {alerts.Reached{Tick: marketdata.Tick{Price: 80}}, []signal.EventType{closed}},
		"after nothing":   {alerts.BarClosed{Price: 100, Left: 1}, []signal.EventType{closed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, forecasts := newBrittleHarness(t)
				h.send(t, "BTC", before.message)
				if name != "after a closing" { // then it ignores bars
					forecasts.broken = true
					h.send(t, "BTC", alerts.BarClosed{Price: 101, Left: 1}) // it fails at this
				}
				close(h.block)
				synctest.Wait()
				h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
				time.Sleep(time.Minute)
				h.wantEvents(t, before.want...)
				if n := len(h.alerts["BTC"]); name != "after a closing" && n != 2 {
					t.Errorf("%d alerts were made, want one for each incarnation", n)
				}
			})
		})
	}
}

// An update and a closing, of two incarnations, may be in progress at once. Whichever is
// stored first, the signal closes.
func TestAnswerToAnEarlierIncarnationIsIgnored(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]signal.EventType{
		"the update first":  {signal.SignalUpdated, signal.SignalClosed},
		"the closing first": {signal.SignalClosed, signal.SignalUpdated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, forecasts := newBrittleHarness(t)
				h.set(func() {
					h.turns = map[signal.EventType]chan struct{}{}
					for _, next := range order {
						h.turns[next] = make(chan struct{})
					}
					close(h.block)
				})
				h.send(t, "BTC", alerts.BarClosed{Price: 105, Left: 1})
				forecasts.broken = true
				h.send(t, "BTC", alerts.BarClosed{Price: 101, Left: 1}) // it fails at this
				h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
				if n := h.inFlight(); n != 2 {
					t.Fatalf("%d changes are in progress, want one of each incarnation", n)
				}
				for _, next := range order {
					close(h.turns[next])
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				want := order
				if order[0] == signal.SignalClosed {
					want = order[:1] // the update is refused
				}
				h.wantEvents(t, want...)
				h.mu.Lock()
				defer h.mu.Unlock()
				if len(h.open) != 0 {
					t.Error("the signal is still open")
				}
			})
		})
	}
}

// newBrittleHarness returns a harness with one signal, forecasts that may panic, and appends
// that wait for h.block.
func newBrittleHarness(t *testing.T) (*harness, *brittleForecasts) {
	t.Helper()
	s := openSignal("1")
	s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .8}
	forecasts := &brittleForecasts{}
	h := newHarnessWith(t, Options{Forecasts: forecasts}, s)
	h.set(func() { h.block = make(chan struct{}) })
	return h, forecasts
}

// brittleForecasts have no forecast; if broken, they panic once.
type brittleForecasts struct{ broken bool }

func (f *brittleForecasts) Turned(string, signal.Direction, *signal.Outlook) (float64, float64, bool) {
	if f.broken {
		f.broken = false
		panic("broken")
	}
	return 0, 0, false
}

// An alert that is added while its actor ends is removed: that of one signal, and all when
// the partition is lost.
func TestAlertsAddedDuringTheEndAreRemoved(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*harness){
		"the account is deleted": func(h *harness) {
			h.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		},
		"the partition is lost": func(h *harness) { go h.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := unstartedHarness(t, openSignal("1"))
				h.asked = make(chan struct{})
				h.start(Options{})
				end(h)
				synctest.Wait()
				h.mu.Lock()
				before := len(h.undone) // the alert was not added yet
				h.mu.Unlock()
				close(h.asked)
				synctest.Wait()
				h.mu.Lock()
				defer h.mu.Unlock()
				added := h.alerts["BTC"]
				if len(added) != 1 || len(h.undone) != before+1 || h.undone[before] != added[0].Ref {
					t.Errorf("%d alerts, %d removed, %d of them before", len(added), len(h.undone), before)
				}
			})
		})
	}
}

// A kind is dropped with its last signal, because the number of content subjects is
// unbounded.
func TestKindIsDroppedWithItsLastSignal(t *testing.T) {
	t.Parallel()
	all := kinds{}
	first, second, other := openSignal("1"), openSignal("2"), openSignal("3")
	other.Asset = "standing desk"
	a, b, c := all.record(&first), all.record(&second), all.record(&other)
	if a.kind != b.kind || a.kind == c.kind || len(all) != 2 {
		t.Fatalf("%d kinds", len(all))
	}
	all.release(c.kind)
	all.release(a.kind)
	if len(all) != 1 || all[*b.kind] == nil {
		t.Errorf("%d kinds, want that of the second", len(all))
	}
	if all.release(b.kind); len(all) != 0 {
		t.Errorf("%d kinds are left", len(all))
	}
}
