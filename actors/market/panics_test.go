package market

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestReadIsRetriedAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		new(reading).follow(ctx, slog.New(slog.DiscardHandler), "ticks", func(context.Context) (bool, error) {
			if reads++; reads == 1 {
				panic("an entry")
			}
			cancel()
			return false, nil
		})
		if reads != 2 {
			t.Errorf("%d reads, want 2", reads)
		}
	})
}

func TestTickThatPanicsIsSkipped(t *testing.T) {
	t.Parallel()
	m := newFake(t, &fakeStore{}, markettest.NewClock())
	m.recent.of = map[tickKey]*assetTicks{{"BTC", source.Stream}: {first: 5}} // nothing can be added
	var entries []marketdata.Entry
	for i, asset := range []string{"BTC", "ETH"} {
		fields := map[string]string{"asset": asset, "price": "7"}
		entries = append(entries, marketdata.Entry{Position: signal.Position{MS: 1_795_253_400_000 + int64(i)}, Fields: fields})
	}
	m.ticks[marketdata.GivenTicks].deliver(entries)
	if tick, ok := m.recent.newest(tickKey{"ETH", source.Stream}); !ok || tick.Price != 7 {
		t.Errorf("the tick after one that panics is %+v, %t", tick, ok)
	}
}

// panickingListings panics at the first read of listings.
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
		m.use.store = store
		m.loader.watches.all.Store(&map[string]*watch{"X": {}}) // a panic when what is needed is collected
		ctx, cancel := context.WithTimeout(t.Context(), 10*source.UseEvery)
		defer cancel()
		m.use.run(ctx)
		if store.reads < 2 {
			t.Errorf("listings are read %d times", store.reads)
		}
	})
}
