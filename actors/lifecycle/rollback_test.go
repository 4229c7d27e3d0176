package lifecycle

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Tests with a Redis that has lost its newest writes, as after a failover to a replica that
// lagged.

// rollBack stores an earlier state of the only signal, with the given sequence. From then
// on a lost partition is taken again.
func (h *harness) rollBack(s signal.Signal, sequence int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Sequence = sequence
	h.open[s.ID] = s
	h.retake, h.appends, h.changes = true, 0, nil
}

// The actor of a signal that Redis has in an earlier state gives the partition up once,
// and the signal closes once.
func TestASignalInAnEarlierState(t *testing.T) {
	t.Parallel()
	expiry := time.Date(2000, 1, 1, 0, 24, 0, 0, time.UTC).UnixMilli()
	for name, first := range map[string]any{
		"an update":               alerts.BarClosed{Price: 103, Left: 1},
		"a closing":               alerts.Reached{Tick: marketdata.Tick{Price: 116}},
		"a closing by expiration": alerts.Expired{Price: 104, At: expiry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := openSignal("1")
				h := newHarness(t, s)
				for _, price := range []float64{105, 99, 106} {
					h.send(t, "BTC", alerts.BarClosed{Price: price, Left: 1})
				}
				if n := len(h.stored()); n != 3 {
					t.Fatalf("%d updates, want 3", n)
				}
				h.rollBack(s, 1)
				h.send(t, "BTC", first)
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(h.lost) != 1 || signal.CodeOf(h.lost[0]) != signal.CodeSignalChanged {
					t.Fatalf("the owner received %v, want one report that the signal has changed", h.lost)
				}
				h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
				time.Sleep(time.Minute)
				synctest.Wait()
				h.wantEvents(t, signal.SignalClosed)
				if h.appends > 3 {
					t.Errorf("%d appends", h.appends)
				}
			})
		})
	}
}

// If a closing is lost after the actor of the signal has ended, the signal is watched
// again when the partition is taken again, and closes.
func TestLostClosingIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		h := newHarness(t, s)
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
		h.wantEvents(t, signal.SignalClosed)
		h.rollBack(s, 1)
		h.owner.Tell(ownership.Lost{Err: signal.ErrRolledBack})
		time.Sleep(time.Minute)
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 116)})
		time.Sleep(time.Minute)
		synctest.Wait()
		h.wantEvents(t, signal.SignalClosed)
	})
}

// Every retry pauses, whatever the log answers, and is logged.
func TestEveryRetryPauses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		lost   bool // the owner must load all signals again
	}{
		"unavailable":         {signal.Unavailable(nil), false},
		"one more is stored":  {signal.Changed(2), false},
		"fewer are stored":    {signal.Changed(0), true},
		"many more":           {signal.Changed(100), true},
		"a fault of the code": {&signal.Error{Message: "wrong type"}, false},
	} {
		for kind, m := range map[string]any{
			"update": alerts.BarClosed{Price: 105, Left: 1}, "closing": alerts.Reached{Tick: marketdata.Tick{Price: 116}},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var lines bytes.Buffer
					h := newHarnessWith(t, Options{Log: slog.New(slog.NewTextHandler(&lines, nil))}, openSignal("1"))
					h.set(func() { h.failing = c.answer })
					h.send(t, "BTC", m)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if h.appends > 10*60/5+10 {
						t.Errorf("%d appends in ten minutes", h.appends)
					}
					if c.lost && len(h.lost) == 0 {
						t.Error("the owner does not load all signals again")
					}
					if lines.Len() == 0 && len(h.lost) == 0 && h.appends > 1 {
						t.Error("no retry is logged")
					}
				})
			})
		}
	}
}

// faults counts warnings in the groups of the handler that limits repeated lines
// (cmd/agentsignal/service): by message and text attributes.
type faults struct {
	slog.Handler
	mu    sync.Mutex
	times map[string]int
	text  string // of all
}

// Handle implements slog.Handler.
func (h *faults) Handle(_ context.Context, r slog.Record) error {
	fault := r.Message
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString {
			fault += " " + a.String()
		}
		h.text += a.String() + "\n"
		return true
	})
	h.times[fault]++
	return nil
}

// WithAttrs implements slog.Handler.
func (h *faults) WithAttrs([]slog.Attr) slog.Handler { return h }

// The log lines of failures name each signal, but are limited together.
func TestFailuresOfManySignalsAreOneFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const signals = 50
		var open []signal.Signal
		for i := range signals {
			open = append(open, openSignal(string(rune('A'+i%5))+string(rune('0'+i/5))))
		}
		logged := &faults{Handler: slog.NewTextHandler(io.Discard, nil), times: map[string]int{}}
		h := newHarnessWith(t, Options{Log: slog.New(logged)}, open...)
		h.set(func() { h.failing = signal.Unavailable(nil) })
		for _, a := range h.alerts["BTC"] {
			a.Ref.Tell(alerts.Reached{Tick: tickAt(0, 116)})
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if len(logged.times) != 1 {
			t.Errorf("%d faults, want one: %v", len(logged.times), logged.times)
		}
		for _, s := range open {
			if !strings.Contains(logged.text, string(s.ID)) {
				t.Errorf("no line names %s", s.ID)
			}
		}
	})
}
