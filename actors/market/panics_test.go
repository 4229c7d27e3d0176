package market

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestAReadOfTheMarketThatPanicsIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, newClock())
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

func TestASourceOfNewsThatPanicsIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		reads := 0
		r := &reporter{name: "feed", now: c.Now, log: slog.New(slog.DiscardHandler), known: map[string]int64{},
			read: func(context.Context, int64) ([]signal.MarketNews, error) {
				if reads++; reads == 1 {
					panic("foreign XML")
				}
				return []signal.MarketNews{{ID: "1", At: c.Now().UnixMilli(), Headline: "Bitcoin rises"}}, nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := make(chan delivery)
		go r.run(ctx, out)
		select {
		case d := <-out:
			if len(d.news) != 1 || reads != 2 {
				t.Errorf("%d news after %d reads", len(d.news), reads)
			}
		case <-time.After(time.Hour):
			t.Error("it is not read again")
		}
	})
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

// A path that panics does so in the goroutine of the caller, who recovers, also where the
// paths are computed side by side.
func TestAPathThatPanicsEndsNoProcess(t *testing.T) {
	t.Parallel()
	s := newSimulated(60, 1, someAssets("BTC", "ETH"))
	s.Open(nil, 0, newClock().Now().UnixMilli())
	s.assets[0] = nil
	defer func() {
		if recover() == nil {
			t.Error("the caller does not learn of the panic")
		}
	}()
	s.run(s.at+parallelSteps*minuteStep, planFor(s.at), 0)
}
