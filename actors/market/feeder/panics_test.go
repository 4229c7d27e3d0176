package feeder

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
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
		err := (&lease{Feeder: f, epoch: 1, renewed: time.Now()}).guard(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, panics.ErrPanicked) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// panickingStore panics at its first read of ticks, its second of bars, and its first write of ticks.
type panickingStore struct {
	Records
	ticks, bars, steps atomic.Int64
}

func (s *panickingStore) ReadTicks(ctx context.Context, from marketdata.TickStream, after signal.Position,
	block time.Duration) ([]marketdata.Entry, bool, error) {
	if s.ticks.Add(1) == 1 {
		panic("at a tick")
	}
	return s.Records.ReadTicks(ctx, from, after, block)
}

func (s *panickingStore) ReadBars(ctx context.Context, after signal.Position, block time.Duration) (
	[]marketdata.Entry, bool, error) {
	if s.bars.Add(1) == 2 {
		panic("at a bar")
	}
	return s.Records.ReadBars(ctx, after, block)
}

func (s *panickingStore) AppendRound(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error {
	if s.steps.Add(1) == 1 {
		panic("at a step")
	}
	return s.Records.AppendRound(ctx, epoch, ticks)
}

func TestPanicsEndLeadershipsOnly(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := newBench(t, time.Now)
	store := &panickingStore{Records: b.store}
	f := newFeeder(t, store, Options{Node: "first", Lease: 2 * time.Second})
	f.known = specsOf("BTC")
	b.background(f.Run)
	markettest.Eventually(t, "reads and steps after a panic", func() bool {
		return store.ticks.Load() > 2 && store.bars.Load() > 3 && store.steps.Load() > 2
	})
}
