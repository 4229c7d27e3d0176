package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Signals reads stored signals. See signals.Store of persistence.
type Signals interface {
	EachSignal(ctx context.Context, partition int, f func(*signal.Signal) error) error
}

// Prices reads stored prices. See market.Store of persistence.
type Prices interface {
	Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error)
	Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error)
}

// Outcomes reads stored outcomes. See outcomes.Store of persistence.
type Outcomes interface {
	// All returns the outcomes of a timeframe, and whether none was trimmed.
	All(ctx context.Context, tf signal.Timeframe) ([]marketdata.AssetOutcome, bool, error)
}

// Sources are what an audit reads.
type Sources struct {
	Signals  Signals
	Prices   Prices
	Outcomes Outcomes
	Costs    backtest.Costs
}

// Run checks the signals of partitions, of one account if account is given. It holds them in
// memory, about a kilobyte each.
func Run(ctx context.Context, from Sources, partitions []int, account signal.AccountID) (*Report, error) {
	report := &Report{
		NotRecomputed: map[string]int{},
		NotCompared:   map[string]int{},
		Differing:     []Differing{},
	}
	byAsset := map[string][]*signal.Signal{} // by key of the store
	for _, p := range partitions {
		err := from.Signals.EachSignal(ctx, p, func(s *signal.Signal) error {
			if account == "" || s.Account == account {
				key := assets.Key(s.Asset)
				byAsset[key] = append(byAsset[key], s)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	read := reader{from, map[signal.Timeframe]stored{}}
	for key, signals := range byAsset {
		slices.SortFunc(signals, func(a, b *signal.Signal) int { return a.CreatedAt.Compare(b.CreatedAt) })
		of, err := read.asset(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read prices of %s: %w", key, err)
		}
		for _, s := range signals {
			if err := of.check(s, report); err != nil {
				return nil, fmt.Errorf("audit %s: %w", s.ID, err)
			}
		}
	}
	slices.SortFunc(report.Differing, func(a, b Differing) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return report, nil
}

// StoredPool reads the stored outcomes of a timeframe. whole reports whether all that were
// ever stored are among them.
func StoredPool(ctx context.Context, from Outcomes, tf signal.Timeframe) (
	pool *strategy.Pool, whole bool, err error,
) {
	all, whole, err := from.All(ctx, tf)
	if err != nil {
		return nil, false, err
	}
	pool = strategy.NewPool(0)
	for i := range all {
		pool.Add(all[i].Asset, all[i].Outcome)
	}
	return pool, whole, nil
}

// OutcomeKey returns the key of an asset in a pool.
func OutcomeKey(record *marketdata.Asset) string {
	return strategy.OutcomeKey(record.Source, float64(record.Speed), record.Symbol)
}
