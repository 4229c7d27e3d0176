package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	watchedAssets   = 100
	watchedAccounts = 64
	watchedMany     = 1_000_000
	watchedSome     = 100_000
	watchedWriters  = 256
	ticksPerSecond  = 10_000
	watchTimeout    = 3 * time.Minute
)

// lifecycleBenchmark is the benchmark lifecycle.
type lifecycleBenchmark struct {
	*report
}

// measure measures open signals: the cost of a million while prices move, how fast a
// hundred thousand close, and how soon they are watched after a start.
func (b *lifecycleBenchmark) measure(ctx context.Context) error {
	if err := b.watchedSignals(ctx); err != nil {
		return err
	}
	return b.closedSignals(ctx)
}

// watchedSignals measures a million open signals that no price touches.
func (b *lifecycleBenchmark) watchedSignals(ctx context.Context) (err error) {
	r, s, err := newService(ctx, watchedAccounts, withTicks)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	prices := market.New(r.store.Client)
	idle, err := b.underTicks(ctx, prices, s)
	if err == nil {
		b.row("no signals, 10,000 ticks/s on 100 assets", "%.2f of a processor", idle)
	}
	if err := errors.Join(err, s.stop(ctx)); err != nil {
		return fmt.Errorf("without signals: %w", err)
	}
	start := time.Now()
	if err := r.signals.openMany(ctx, r.ids, watchedMany); err != nil {
		return err
	}
	b.row("a million signals opened", "in %s", short(time.Since(start)))
	start = time.Now()
	if s, err = r.serve(ctx, withTicks); err != nil {
		return err
	}
	empty, emptyLive, err := s.memory(ctx)
	if err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedMany); err != nil {
		return err
	}
	b.row("all of them have an actor", "%s after the start", short(time.Since(start)))
	// The new service first appends the leaves of these signals to the record. That is not a cost of the ticks.
	if err := s.await(ctx, "agentsignal_record_leaves_total", watchedMany); err != nil {
		return err
	}
	busy, err := b.underTicks(ctx, prices, s)
	if err != nil {
		return err
	}
	b.row("with them (target at most 1)", "%.2f of a processor", busy)
	full, fullLive, err := s.memory(ctx)
	if err != nil {
		return err
	}
	b.row("memory of an open signal (target 1.5 KB)", "%d bytes alive, %d resident",
		(fullLive-emptyLive)/watchedMany, (full-empty)/watchedMany)
	start = time.Now()
	if err := s.stop(ctx); err != nil {
		return fmt.Errorf("with open signals: %w", err)
	}
	b.row("end with a million open signals", "%s after SIGTERM", short(time.Since(start)))
	return nil
}

// closedSignals measures a hundred thousand signals that close within a second, and as many
// of which half reached their levels while no service was running.
func (b *lifecycleBenchmark) closedSignals(ctx context.Context) (err error) {
	r, s, err := newService(ctx, watchedAccounts, withTicks)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	prices := market.New(r.store.Client)
	if err := appendTicks(ctx, prices, 100, watchedAssets); err != nil {
		return err
	}
	if err := r.signals.openMany(ctx, r.ids, watchedSome); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedSome); err != nil {
		return err
	}
	start := time.Now()
	if err := appendTicks(ctx, prices, 200, watchedAssets); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_closed_total", watchedSome); err != nil {
		return err
	}
	b.row("100,000 close at once (target 10 s)", "durable after %s", short(time.Since(start)))
	if err := s.stop(ctx); err != nil {
		return err
	}
	if err := r.signals.openMany(ctx, r.ids, watchedSome); err != nil {
		return err
	}
	// Half of the assets reach the levels while no service is running.
	if err := appendTicks(ctx, prices, 200, watchedAssets/2); err != nil {
		return err
	}
	start = time.Now()
	if s, err = r.serve(ctx, withTicks); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_closed_total", watchedSome/2); err != nil {
		return err
	}
	if err := s.await(ctx, "agentsignal_signals_open", watchedSome/2); err != nil {
		return err
	}
	b.row("start with 100,000, half of them over (target 10 s)", "all watched and closed after %s",
		short(time.Since(start)))
	return nil
}

func watchedAsset(i int) string { return fmt.Sprintf("W%03d", i) }

// appendTicks writes a tick of each of the first n assets.
func appendTicks(ctx context.Context, prices *market.Store, price float64, n int) error {
	time.Sleep(2 * time.Millisecond) // a price of the millisecond in which a signal was opened does not count
	now := time.Now().UnixMilli()
	ticks := make([]marketdata.AssetTick, n)
	for i := range ticks {
		tick := marketdata.Tick{Price: price, Volume: 1, Time: now}
		ticks[i] = marketdata.AssetTick{Asset: watchedAsset(i), Tick: tick}
	}
	return prices.GiveTicks(ctx, ticks)
}

// underTicks returns the share of a processor that the service uses while prices move
// without reaching a level.
func (b *lifecycleBenchmark) underTicks(ctx context.Context, prices *market.Store, s *server) (float64, error) {
	for range 2 { // the first one makes the assets known
		if err := appendTicks(ctx, prices, 100, watchedAssets); err != nil {
			return 0, err
		}
		time.Sleep(time.Second)
	}
	var took time.Duration
	used, err := during(s.cpu, func() error {
		start := time.Now()
		const every = time.Second * watchedAssets / ticksPerSecond
		for n := 0; time.Since(start) < b.window; n++ {
			if err := appendTicks(ctx, prices, 100+.5*float64(n%7-3)/3, watchedAssets); err != nil {
				return err
			}
			time.Sleep(time.Until(start.Add(time.Duration(n+1) * every)))
		}
		took = time.Since(start)
		return nil
	})
	return float64(used) / float64(took), err
}
