package market

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

func TestAReadOfTheMarketThatPanicsIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, markettest.NewClock())
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		var up atomic.Bool
		m.loop(ctx, "ticks", &up, func(context.Context) error {
			if reads++; reads == 1 {
				panic("an entry")
			}
			cancel()
			return nil
		})
		if reads != 2 {
			t.Errorf("%d reads, want 2", reads)
		}
	})
}

func TestATickThatPanicsIsPassedOver(t *testing.T) {
	t.Parallel()
	m := newFake(t, &fakeStore{}, markettest.NewClock())
	m.tapes.of = map[tapeKey]*tape{{"BTC", source.Stream}: {first: 5}} // nothing can be added
	var entries []marketdata.Entry
	for i, asset := range []string{"BTC", "ETH"} {
		entries = append(entries, marketdata.Entry{Position: signal.Position{MS: int64(i) + 1}, Fields: map[string]string{"asset": asset, "price": "7"}})
	}
	m.tellTicks(marketdata.GivenTicks, entries)
	if tick, ok := m.tapes.newest(tapeKey{"ETH", source.Stream}); !ok || tick.Price != 7 {
		t.Errorf("the tick behind one that panics is %+v, %t", tick, ok)
	}
}

func TestASourceThatPanicsIsStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
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

// panickingLease panics when the lease is asked for at first.
type panickingLease struct {
	FeederStore
	asked atomic.Int64
}

func (s *panickingLease) TakeLease(ctx context.Context, node string, d time.Duration) (int64, error) {
	if s.asked.Add(1) == 1 {
		panic("at the lease")
	}
	return 0, nil
}

func TestAFeederThatPanicsAtTheLeaseAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &panickingLease{}
		f, err := NewFeeder(store, FeederOptions{Node: "first", Sources: "stream"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Run(ctx); err != nil || store.asked.Load() < 2 {
			t.Errorf("the lease is asked for %d times, %v", store.asked.Load(), err)
		}
	})
}

// RenewLease panics each time.
func (s *panickingLease) RenewLease(context.Context, string, int64, time.Duration) (bool, error) {
	panic("at the renewal")
}

func TestARenewalThatPanicsEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFeeder(&panickingLease{}, FeederOptions{Node: "first", Sources: "stream"})
		if err != nil {
			t.Fatal(err)
		}
		err = newTerm(f, 1, time.Now()).guarded(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, panics.ErrPanicked) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// panickingListings panics when listings are read at first.
type panickingListings struct {
	*fakeStore
	reads int
}

func (s *panickingListings) Listings(context.Context, []string) (map[string][]string, error) {
	if s.reads++; s.reads == 1 {
		panic("at listings")
	}
	return nil, nil
}

func TestListingsAreReadAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, markettest.NewClock())
		store := &panickingListings{fakeStore: &fakeStore{}}
		m.o.Store = store
		m.watches.Store(&map[string]*watch{"X": {}}) // a panic when what is needed is collected
		ctx, cancel := context.WithTimeout(t.Context(), 10*source.UseEvery)
		defer cancel()
		m.noteUse(ctx)
		if store.reads < 2 {
			t.Errorf("listings are read %d times", store.reads)
		}
	})
}
