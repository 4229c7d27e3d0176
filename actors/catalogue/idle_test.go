package catalogue

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestUnusedPartitionsAreDropped: a list keeps its partition, a trim drops it when it was not used
// for long enough, and the next list builds it again.
func TestUnusedPartitionsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		_, events := history(rand.New(rand.NewPCG(1, 2)), 50, time.Now())
		f.add(events...)
		o := options(time.Now())
		o.Idle = 0 // the default
		c := New(f, f, 1, o)
		want := total(t, c)
		for range 3 {
			time.Sleep(9 * time.Minute)
			if c.Trim(); total(t, c) != want || f.scans != 1 {
				t.Fatalf("%d scans while the lists are in use, want 1", f.scans)
			}
		}
		time.Sleep(10 * time.Minute)
		if c.Trim(); c.Size() != 0 {
			t.Errorf("%d signals are kept without a use", c.Size())
		}
		if got := total(t, c); got != want || f.scans != 2 {
			t.Errorf("%d signals listed by %d scans, want %d by 2", got, f.scans, want)
		}
	})
}

// TestOpenKeepsWhatItNeeds: a partition that was built because an account may be near its limit
// stays as long as runs ask for it; one that was built for a list does not.
func TestOpenKeepsWhatItNeeds(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]bool{"many open signals": true, "few": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakeLog{}
				_, events := history(rand.New(rand.NewPCG(1, 2)), 50, time.Now())
				f.add(events...)
				follows := 0
				o := options(time.Now())
				o.MaxOpen = 10
				o.Follow = func(context.Context, int) error { follows++; return nil }
				c := New(f, f, 1, o)
				if f.open = 4; many {
					f.open = 5
				} else {
					total(t, c)
				}
				for range 30 {
					c.Open(acc)
					synctest.Wait()
					time.Sleep(time.Minute)
					c.Trim()
				}
				if kept := c.Size() > 0; kept != many {
					t.Errorf("the partition is kept: %v, want %v", kept, many)
				}
				if many != (follows > 20) {
					t.Errorf("the partition was followed %d times", follows)
				}
			})
		})
	}
}

// TestListsNeedTheTail: a pass begins only when the tail publishes all later events.
func TestListsNeedTheTail(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	o := options(time.Now())
	o.Follow = func(context.Context, int) error { return signal.Unavailable(errors.New("no answer")) }
	c := New(f, f, 1, o)
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 1}); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("a list without the tail: %v", err)
	}
	if f.scans > 0 {
		t.Error("a pass has begun without the tail")
	}
}
