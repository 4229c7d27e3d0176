package catalogue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
				_, at, err2 := c.Find(t.Context(), acc, nil, open.ID)
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

// TestNewestClosed compares with a plain scan of the events.
func TestNewestClosed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 8))
	start := time.Now().Add(-time.Hour)
	_, events := history(r, 6000, start)
	o := options(start)
	o.Retention = time.Duration(o.Now().UnixMilli()-events[len(events)/5].Position.MS) * time.Millisecond
	f := &fakeLog{}
	f.add(events...)
	c := New(f, f, 1, o)
	found := 0
	for range 300 {
		of := pick(r, names{"own", "alpha"}, names{"trading", "momentum"}, names{"seo", "blog_post"}, names{"own", "unknown"},
			names{"momentum", "alpha"})
		after, limit := signal.Position{}, 1+r.IntN(200)
		if r.IntN(2) == 0 {
			after = pick(r, events...).Position
		}
		created, want := map[signal.SignalID]signal.Position{}, []signal.Location(nil)
		for _, e := range events {
			l := e.Listing
			switch {
			case e.Type == signal.SignalCreated:
				created[l.ID] = e.Position
			case e.Type == signal.SignalClosed && l.Agent == of.agent && l.Strategy == of.strategy && l.Entry != nil &&
				e.Position.Compare(after) > 0 && created[l.ID].MS > c.oldest():
				want = append(want, signal.Location{ID: l.ID, Created: created[l.ID], Closed: e.Position})
			}
		}
		slices.SortFunc(want, func(x, y signal.Location) int { return x.Closed.Compare(y.Closed) })
		want = want[max(0, len(want)-limit):]
		got, err := c.NewestClosed(t.Context(), acc, of.agent, of.strategy, after, limit)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v after %v, at most %d: %d of %d, %v", of, after, limit, len(got), len(want), err)
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("only %d were compared", found)
	}
	if got, err := c.NewestClosed(t.Context(), "acc_other", "own", "alpha", signal.Position{}, 5); err != nil || got != nil {
		t.Errorf("of another account: %v, %v", got, err)
	}
}
