package market

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

type accountKey struct{}

// For returns a context in which assets are asked for on behalf of an account, which has a share of
// the assets that real sources may keep.
func For(ctx context.Context, account signal.AccountID) context.Context {
	return context.WithValue(ctx, accountKey{}, account)
}

// askNeeded asks an asset's actor whether it has alerts.
type askNeeded struct{ reply chan<- bool }

// noteUse periodically reads the listings of sources, and records which assets this node needs,
// until ctx ends.
func (m *Market) noteUse(ctx context.Context) {
	for {
		panics.Guard(m.log, panics.Market, func() {
			if err := m.readListings(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("listings of sources not read", "err", err)
			}
		})
		if !backoff.Sleep(ctx, source.UseEvery) {
			return
		}
		panics.Guard(m.log, panics.Market, func() {
			symbols := m.needed(ctx)
			if len(symbols) == 0 {
				return
			}
			if err := m.o.Store.NoteUse(ctx, symbols, m.o.Now()); err != nil && ctx.Err() == nil {
				m.log.Warn("use of assets not recorded", "err", err)
			}
		})
	}
}

// needed returns the assets of real sources that were asked for since the last call, or that have
// alerts here.
func (m *Market) needed(ctx context.Context) []string {
	var symbols []string
	for _, w := range *m.watches.Load() {
		record := w.record.Load()
		if !source.IsVenue(record.Source) {
			continue
		}
		used := w.used.Swap(false)
		if !used {
			// An actor that does not answer has failed, and its alerts will be added again.
			used, _ = engine.Ask(ctx, w.ref, func(reply chan<- bool) any { return askNeeded{reply} })
		}
		if used {
			symbols = append(symbols, record.Symbol)
		}
	}
	return symbols
}
