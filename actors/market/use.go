package market

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
)

// askNeeded asks an asset's actor whether it has alerts.
type askNeeded struct{ reply chan<- bool }

// useRecorder records which assets of real sources this node needs, and reads what these sources list.
type useRecorder struct {
	store   Store
	names   *names
	watches *watches
	now     func() time.Time
	log     *slog.Logger
}

// run does both periodically until ctx ends.
func (u *useRecorder) run(ctx context.Context) {
	for {
		panics.Guard(u.log, panics.Market, func() {
			if err := u.readListings(ctx); err != nil && ctx.Err() == nil {
				u.log.Warn("listings of sources not read", "err", err)
			}
		})
		if !backoff.Sleep(ctx, source.UseEvery) {
			return
		}
		panics.Guard(u.log, panics.Market, func() {
			symbols := u.needed(ctx)
			if len(symbols) == 0 {
				return
			}
			if err := u.store.NoteUse(ctx, symbols, u.now()); err != nil && ctx.Err() == nil {
				u.log.Warn("use of assets not recorded", "err", err)
			}
		})
	}
}

// readListings reads the listings that the feeder stored.
func (u *useRecorder) readListings(ctx context.Context) error {
	stored, err := u.store.Listings(ctx, u.names.sources)
	if err == nil {
		u.names.setListings(stored)
	}
	return err
}

// needed returns the assets of real sources that were asked for since the last call, or that have
// alerts here.
func (u *useRecorder) needed(ctx context.Context) []string {
	var symbols []string
	for _, w := range *u.watches.all.Load() {
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
