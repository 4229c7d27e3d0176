package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	filterConnections = 10_000
	// filterLevels is the number of different least confidences. All of them pass, so that the
	// deliveries are those of the reference and only the number of cohorts differs.
	filterLevels = 8
	// tickPause is the time between two prices of each asset.
	tickPause = 250 * time.Millisecond
)

// filters measures what filters beside assets, and prices, add to the fan-out. Each is measured
// right after the same connections without it.
func (b *bench) filters(ctx context.Context) error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("this benchmark needs two processors")
	}
	if err := b.pinLoad(); err != nil {
		return err
	}
	// Pairs of assets repeat after so many connections.
	const pairs = streamAssets * (streamAssets - 1)
	for _, m := range []struct {
		name   string
		widen  widening
		beside func(context.Context, *rig) error
	}{
		{"a filter that all share", func(_ int, filters map[string]any) []string {
			filters["min_confidence"] = .3
			return nil
		}, nil},
		{fmt.Sprintf("%d different filters", filterLevels), func(i int, filters map[string]any) []string {
			filters["min_confidence"] = .3 + float64(i/pairs%filterLevels)/100
			return nil
		}, nil},
		{"market.price of two assets", func(int, map[string]any) []string {
			return []string{"market.price"}
		}, changePrices},
		{"prices without a subscription", nil, changePrices},
	} {
		without, err := b.serviceFanOut(ctx, filterConnections)
		if err != nil {
			return fmt.Errorf("without %s: %w", m.name, err)
		}
		with, err := b.widenedFanOut(ctx, filterConnections, m.widen, m.beside)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if asked := m.beside != nil && m.widen != nil; asked != (with.prices > 0) {
			return fmt.Errorf("%s: %d messages market.price", m.name, with.prices)
		}
		b.row(fmt.Sprintf("%s, %d connections", m.name, filterConnections),
			"%.0f delivered/s, %.2f us CPU each", with.rate, with.cost)
		b.row("  without", "%.0f delivered/s, %.2f us CPU each", without.rate, without.cost)
		b.row("  ratio of rates, of CPU", "%.2f, %.2f", with.rate/without.rate, with.cost/without.cost)
		b.pacedRows("  at", with)
		b.pacedRows("  without, at", without)
		b.row("  memory of an idle connection", "%d bytes, without %d", with.memory, without.memory)
		if with.prices > 0 {
			b.row("  prices received", "%d", with.prices)
		}
	}
	return nil
}

// changePrices gives each asset of the load a new price every tickPause.
func changePrices(ctx context.Context, r *rig) error {
	given := market.New(r.store.Client)
	ticker := time.NewTicker(tickPause)
	defer ticker.Stop()
	for n := 0; ; n++ {
		ticks := make([]marketdata.AssetTick, streamAssets)
		for i := range ticks {
			ticks[i].Asset = "A" + strconv.Itoa(10+i)
			ticks[i].Tick = marketdata.Tick{Price: 100 + float64(n%100)/100, Time: r.store.Client.Now().UnixMilli()}
		}
		if err := given.GiveTicks(ctx, ticks); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
