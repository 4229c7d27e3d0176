package catalogue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Whoever waits for a closing is woken by its event, finds it then, and does not wait for one that was before.
func TestAwaitClosing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, now := &fakeLog{}, time.Now().UnixMilli()
		c := New(f, f, 1, Options{})
		open := signal.Listing{ID: signal.NewSignalID(), Agent: "trading", Asset: "BTC", Strategy: "momentum",
			Direction: signal.Long, Confidence: .4, Status: signal.Open}
		other := open
		other.ID = signal.NewSignalID()
		f.add(eventOf(signal.Position{MS: now, Seq: 1}, signal.SignalCreated, &open),
			eventOf(signal.Position{MS: now, Seq: 2}, signal.SignalCreated, &other))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.AwaitClosing(ctx, acc, open.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it stays open: %v", err)
		}
		woken := make(chan bool, 2)
		for range cap(woken) {
			go func() {
				err := c.AwaitClosing(t.Context(), acc, open.ID)
				_, at, err2 := c.Find(t.Context(), acc, open.ID)
				woken <- err == nil && err2 == nil && !at.IsZero()
			}()
		}
		synctest.Wait()
		other.Status, open.Status = signal.Closed, signal.Closed
		c.Publish(0, []signal.Event{eventOf(signal.Position{MS: now, Seq: 3}, signal.SignalClosed, &other)})
		synctest.Wait()
		if len(woken) != 0 {
			t.Error("another signal has closed")
		}
		c.Publish(0, []signal.Event{eventOf(signal.Position{MS: now, Seq: 4}, signal.SignalClosed, &open)})
		synctest.Wait()
		if len(woken) != 2 || !<-woken || !<-woken {
			t.Error("those who wait are not woken, or do not find the closing")
		}
		if err := c.AwaitClosing(t.Context(), acc, open.ID); err != nil {
			t.Errorf("it is closed: %v", err)
		}
		if err := c.AwaitClosing(t.Context(), acc, signal.NewSignalID()); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("an unknown one: %v", err)
		}
		if len(c.closings.waiting) != 0 {
			t.Errorf("%d are left", len(c.closings.waiting))
		}
	})
}
