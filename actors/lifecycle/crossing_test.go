package lifecycle

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Messages that cross, answers that are lost, actors that fail in between.

// TestExpiredSignalIsNotClosedBeforePricesAreKnown: while the market cannot be asked, a
// signal stays open however long ago it expired.
func TestExpiredSignalIsNotClosedBeforePricesAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.CreatedAt, s.ExpiresAt = s.CreatedAt.Add(-48*time.Hour), s.ExpiresAt.Add(-48*time.Hour)
		w := unstartedWorld(s)
		w.silent = true
		w.start(Options{})
		defer w.end()
		time.Sleep(time.Hour)
		w.mu.Lock()
		w.silent = false
		w.mu.Unlock()
		time.Sleep(2 * backoff.DefaultMax)
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(-48*time.Hour, 116), Past: true})
		if len(w.changes) != 1 || *w.changes[0].Signal.Closing.ExitPrice != 115 {
			t.Errorf("changes are %+v", w.changes)
		}
	})
}

// TestAStoreThatIsAwayIsAskedLessAndLess, even if it returns part of the signals.
func TestAStoreThatIsAwayIsAskedLessAndLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := unstartedWorld(openSignal("1"))
		w.away = true
		w.start(Options{})
		defer w.end()
		demand := func(what string, most int) {
			t.Helper()
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.reads < 10 || w.reads > most {
				t.Errorf("%s: it was asked %d times in a minute", what, w.reads)
			}
			w.reads = 0
		}
		demand("at the start", 20)
		w.mu.Lock()
		w.away = false
		w.mu.Unlock()
		time.Sleep(backoff.DefaultMax)
		w.mu.Lock()
		w.away, w.reads = true, 0
		w.mu.Unlock()
		w.follower.Follow([]signal.Event{{Type: signal.SignalCreated, Listing: &signal.Listing{ID: idOf("2")}}})
		demand("for a new signal", 20)
	})
}

// TestUpdateWhoseAnswerIsLostIsStoredOnce, and the next change has the next sequence.
func TestUpdateWhoseAnswerIsLostIsStoredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.dropAnswers = true
		w.send(t, "BTC", alerts.BarClosed{Price: 105})
		w.mu.Lock()
		w.dropAnswers = false
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
		w.wantEvents(t, []signal.EventType{signal.SignalUpdated, signal.SignalClosed})
	})
}

// wantEvents fails the test unless the events of the only signal are those, and their
// sequences without a gap.
func (w *world) wantEvents(t *testing.T, want []signal.EventType) {
	t.Helper()
	if got := w.types(); !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for i, c := range w.changes {
		if c.Signal.Sequence != int64(i)+2 {
			t.Errorf("change %d has the sequence %d", i, c.Signal.Sequence)
		}
	}
}

// TestRestartedActorContinues: the change of the earlier incarnation is stored, and its
// result is not mistaken for that of the new incarnation's change.
func TestRestartedActorContinues(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]struct {
		tell any
		want []signal.EventType
	}{
		"after an update": {alerts.BarClosed{Price: 105}, []signal.EventType{signal.SignalUpdated, signal.SignalClosed}},
		"after a closing": {alerts.Reached{Tick: marketdata.Tick{Price: 80}}, []signal.EventType{signal.SignalClosed}},
		"after nothing":   {alerts.BarClosed{Price: 100}, []signal.EventType{signal.SignalClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, forecasts := newBrittleWorld(t)
				defer w.end()
				w.send(t, "BTC", before.tell)
				if name != "after a closing" { // then it ignores bars
					forecasts.broken = true
					w.send(t, "BTC", alerts.BarClosed{Price: 101}) // it fails at this
				}
				close(w.block)
				synctest.Wait()
				w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
				time.Sleep(time.Minute)
				w.wantEvents(t, before.want)
				if n := len(w.alerts["BTC"]); name != "after a closing" && n != 2 {
					t.Errorf("%d alerts were made, want one for each incarnation", n)
				}
			})
		})
	}
}

// TestAnswerToAnEarlierIncarnationIsIgnored: an update and a closing, of two incarnations,
// are in progress at once. Whichever is stored first, the signal closes.
func TestAnswerToAnEarlierIncarnationIsIgnored(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]signal.EventType{
		"the update first":  {signal.SignalUpdated, signal.SignalClosed},
		"the closing first": {signal.SignalClosed, signal.SignalUpdated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, forecasts := newBrittleWorld(t)
				defer w.end()
				w.mu.Lock()
				w.turns = map[signal.EventType]chan struct{}{order[0]: make(chan struct{}), order[1]: make(chan struct{})}
				close(w.block)
				w.mu.Unlock()
				w.send(t, "BTC", alerts.BarClosed{Price: 105})
				forecasts.broken = true
				w.send(t, "BTC", alerts.BarClosed{Price: 101}) // it fails at this
				w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
				if n := w.inFlight(); n != 2 {
					t.Fatalf("%d changes are in progress, want one of each incarnation", n)
				}
				for _, next := range order {
					close(w.turns[next])
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				want := order
				if order[0] == signal.SignalClosed {
					want = order[:1] // the update is refused
				}
				w.wantEvents(t, want)
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.open) != 0 {
					t.Error("the signal is still open")
				}
			})
		})
	}
}

// newBrittleWorld returns a world with one signal, forecasts that may panic, and appends
// that wait for w.block.
func newBrittleWorld(t *testing.T) (*world, *brittleForecasts) {
	t.Helper()
	s := openSignal("1")
	s.Weather = &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: .8}
	forecasts := &brittleForecasts{}
	w := newWorldWith(t, Options{Forecasts: forecasts}, s)
	w.mu.Lock()
	w.block = make(chan struct{})
	w.mu.Unlock()
	return w, forecasts
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

// TestAlertsThatCrossTheEndOfTheirActorAreRemoved: those of one signal, and all when the
// partition is lost.
func TestAlertsThatCrossTheEndOfTheirActorAreRemoved(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world){
		"the account is deleted": func(w *world) {
			w.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		},
		"the partition is lost": func(w *world) { go w.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := unstartedWorld(openSignal("1"))
				w.asked = make(chan struct{})
				w.start(Options{})
				defer w.end()
				end(w)
				synctest.Wait()
				w.mu.Lock()
				before := len(w.undone) // the alert was not added yet
				w.mu.Unlock()
				close(w.asked)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.alerts["BTC"]) != 1 || len(w.undone) != before+1 || w.undone[before] != w.alerts["BTC"][0].Ref {
					t.Errorf("%d alerts, %d taken back, %d of them before", len(w.alerts["BTC"]), len(w.undone), before)
				}
			})
		})
	}
}

// TestKindIsDroppedWithItsLastSignal: the number of content subjects is unbounded.
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
