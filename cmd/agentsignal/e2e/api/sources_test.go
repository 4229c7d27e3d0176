package api

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// clockedRedis is a Redis in this process whose clock a test can advance.
type clockedRedis struct {
	*miniredis.Miniredis
	mu    sync.Mutex
	ahead time.Duration
}

func newClockedRedis(tb testing.TB) *clockedRedis {
	r := &clockedRedis{Miniredis: miniredis.NewMiniRedis()}
	if err := r.Start(); err != nil {
		tb.Fatalf("start redis: %v", err)
	}
	tb.Cleanup(r.Close)
	stop := make(chan struct{})
	tb.Cleanup(func() { close(stop) })
	r.jump(0)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				r.jump(0)
			}
		}
	}()
	return r
}

// jump advances the clock.
func (r *clockedRedis) jump(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
	r.SetTime(time.Now().Add(r.ahead))
}

func (r *clockedRedis) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.ahead)
}

// TestARealSourceClosesSignals lets a service follow an exchange: signals are made and
// closed by its trades, or by its bars if trades were missed.
func TestARealSourceClosesSignals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := newClockedRedis(t)
	x := markettest.New(t, redis.now, "BTCUSDT")
	c := e2e.TestConfig(t, "redis://"+redis.Addr())
	c.Market.Source, c.Market.BinanceURL, c.Market.BinanceStreamURL = "binance", x.URL, x.StreamURL()
	s := e2e.Start(t, c)
	trader, _ := s.Account(t)
	// trade sends trades of the exchange at a price until the service has it: a second trade
	// confirms a first one that is far from the previous price.
	trade := func(price float64) {
		t.Helper()
		e2e.Eventually(t, "the price is known", func() bool {
			x.Trade("BTCUSDT", price, redis.now().UnixMilli())
			seen, err := s.Market().Series(t.Context(), "BTC", signal.H1)
			return err == nil && seen.Ticks && seen.Last.Price == price
		})
	}
	closed := func(id string) e2e.WireState {
		t.Helper()
		e2e.Eventually(t, "the signal is closed", func() bool { return trader.State(id).Status == "closed" })
		return trader.State(id)
	}
	// beyond returns a price past a level by a share of its distance from entry, in the
	// decimals of the exchange.
	beyond := func(entry, level, share float64) float64 { return math.Round((level+(level-entry)*share)*1e3) / 1e3 }

	trade(markettest.PriceAt(redis.now().UnixMilli()))
	won := trader.Run("BTC", "momentum")
	// Implausible prices reach no level.
	now := redis.now().UnixMilli()
	for _, lie := range []struct {
		price float64
		ms    int64
	}{{-*won.Target, now}, {0, now}, {1 / *won.Entry, now}, {5 * *won.Target, now}, {*won.Entry / 5, now},
		{beyond(*won.Entry, *won.Target, 1), now + 3_600_000}, {beyond(*won.Entry, *won.Stop, 1), now - 3_600_000},
		{*won.Entry * 1.5, now}, {*won.Entry * .7, now}} { // far off, and not confirmed
		x.Trade("BTCUSDT", lie.price, lie.ms)
	}
	trade(beyond(*won.Entry, *won.Target, -.5))
	if got := trader.State(won.ID); got.Status != "open" {
		t.Fatalf("closed by what cannot be true: %s", e2e.JsonOf(t, got))
	}
	trade(beyond(*won.Entry, *won.Target, .1))
	if got := closed(won.ID); *got.Reason != "take_profit" || *got.Exit != *won.Target {
		t.Errorf("the first closed as %s", e2e.JsonOf(t, got))
	}
	// A stop closes at the observed price.
	lost := trader.Run("BTC", "momentum")
	gap := beyond(*lost.Entry, *lost.Stop, .5)
	trade(gap)
	if got := closed(lost.ID); *got.Reason != "stop_loss" || *got.Exit != gap {
		t.Errorf("the second closed as %s, want at %v", e2e.JsonOf(t, got), gap)
	}
	// Without a connection the stop is reached, then the target.
	third := trader.Run("BTC", "momentum")
	x.Cut()
	e2e.Eventually(t, "the connection is lost", func() bool { return !x.Follows("BTCUSDT") })
	first := redis.now().UnixMilli()/60_000*60_000 + 60_000 // the first whole minute
	x.Price(func(ms int64) float64 {
		switch {
		case ms < first:
			return *third.Entry
		case ms < first+60_000:
			return *third.Stop + math.Copysign(2, *third.Entry-*third.Stop) // a bar reaches 5 to both sides
		}
		return beyond(*third.Entry, *third.Target, 1)
	})
	redis.jump(3 * time.Minute)
	e2e.Eventually(t, "the service goes by the new time", func() bool {
		err := s.Store().Client.SyncClock(t.Context())
		return err == nil && s.Store().Client.Now().Sub(redis.now()).Abs() < time.Second
	})
	x.Accept()
	e2e.Eventually(t, "the connection is back", func() bool { return x.Follows("BTCUSDT") })
	trade(beyond(*third.Entry, *third.Target, 1))
	got := closed(third.ID)
	want := time.UnixMilli(first + 60_000).UTC().Format(signal.TimeLayout)
	if *got.Reason != "stop_loss" || *got.Exit != *third.Stop || *got.ClosedAt != want {
		t.Errorf("the third closed as %s, want at %s by the stop", e2e.JsonOf(t, got), want)
	}
	if meta := e2e.Decode[struct {
		ResolvedBy string `json:"resolved_by"`
	}](t, string(got.MetadataText)); meta.ResolvedBy != "backfill" {
		t.Errorf("the third is resolved by %q", meta.ResolvedBy)
	}
}
