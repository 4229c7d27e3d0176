package feeder

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
)

func TestSourceIsStartedAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &feeds{ctx: t.Context(), o: source.FeedOptions{Log: slog.New(slog.DiscardHandler)}}
		starts := 0
		d.lasting("binance", func() {
			if starts++; starts < 3 {
				panic("at a message")
			}
		})
		if starts != 3 {
			t.Errorf("%d starts, want 3", starts)
		}
	})
}

// panickingLease panics when the lease is taken for the first time, and at each renewal.
type panickingLease struct {
	Records
	asked atomic.Int64
}

func (s *panickingLease) TakeLease(ctx context.Context, node string, d time.Duration) (int64, string, error) {
	if s.asked.Add(1) == 1 {
		panic("at the lease")
	}
	return 0, "", nil
}

func TestLeaseIsTakenAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &panickingLease{}
		f := newFeeder(t, store, Options{Node: "first", Sources: "stream"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Run(ctx); err != nil || store.asked.Load() < 2 {
			t.Errorf("the lease is taken %d times, %v", store.asked.Load(), err)
		}
	})
}

func (s *panickingLease) RenewLease(context.Context, string, int64, time.Duration) error {
	panic("at the renewal")
}

func TestPanicOfARenewalEndsTheLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFeeder(t, &panickingLease{}, Options{Node: "first", Sources: "stream"})
		err := newLeadership(f, 1, time.Now()).guarded(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, panics.ErrPanicked) {
			t.Errorf("it ended with %v", err)
		}
	})
}
