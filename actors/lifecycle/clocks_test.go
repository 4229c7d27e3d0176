package lifecycle

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
)

// Tests with clocks that differ: that of Redis, as last measured, and those of price sources.

// A signal is not closed before its expiry by the clock of Redis, even if that was measured
// again since the timer of its actor was started.
func TestExpiryByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var behind atomic.Int64
		s := openSignal("1") // for 24 minutes
		s.Levels = nil
		now := func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
		h := newHarnessWith(t, Options{Now: now}, s)
		behind.Store(int64(time.Hour))
		time.Sleep(83 * time.Minute)
		synctest.Wait()
		if got := h.types(); got != nil {
			t.Fatalf("events %v before the expiry", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := h.types(); len(got) != 1 || !h.stored()[0].Signal.Closing.At.Equal(s.ExpiresAt) {
			t.Errorf("events %v after the expiry, want a closing at %s", got, s.ExpiresAt)
		}
	})
}

// A signal is not closed before its creation, even if the clock of the price's source is
// behind.
func TestASignalIsNotClosedBeforeItsCreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		h := newHarness(t, s)
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(-3*time.Minute, 116)})
		if len(h.stored()) != 1 {
			t.Fatalf("%d changes, want 1", len(h.stored()))
		}
		if c := h.stored()[0].Signal.Closing; !c.At.Equal(s.CreatedAt) || c.DurationMinutes != 0 {
			t.Errorf("closed at %s after %d min, want at its creation %s", c.At, c.DurationMinutes, s.CreatedAt)
		}
	})
}
