package market

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// accountKey is the key of a context's account.
type accountKey struct{}

// For returns a context in which assets are asked for on behalf of an account: each has a
// share of those that real sources may be asked for.
func For(ctx context.Context, account signal.AccountID) context.Context {
	return context.WithValue(ctx, accountKey{}, account)
}

// accountOf returns the account of a context; empty: there is none.
func accountOf(ctx context.Context) signal.AccountID {
	account, _ := ctx.Value(accountKey{}).(signal.AccountID)
	return account
}

// askNeeded asks an asset's actor whether there are alerts.
type askNeeded struct{ reply chan<- bool }

// noteUse reads what sources list, and notifies the feeder of what is needed here, again and
// again until ctx ends.
func (m *Market) noteUse(ctx context.Context) {
	for {
		panics.Guard(m.log, panics.Market, func() {
			if err := m.readListings(ctx); err != nil && ctx.Err() == nil {
				m.log.Warn("listings of sources not read", "err", err)
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(source.UseEvery):
		}
		panics.Guard(m.log, panics.Market, func() {
			symbols := m.needed(ctx)
			if len(symbols) == 0 {
				return
			}
			if err := m.o.Store.NoteUse(ctx, symbols, m.o.Now()); err != nil && ctx.Err() == nil {
				m.log.Warn("use of assets not noted", "err", err)
			}
		})
	}
}

// needed returns the assets of real sources that somebody asked for since the last call,
// or that have open signals here.
func (m *Market) needed(ctx context.Context) []string {
	var symbols []string
	for _, w := range *m.watches.Load() {
		record := w.record.Load()
		if !source.IsVenue(record.Source) {
			continue
		}
		used := w.used.Swap(false)
		if !used {
			// An actor that does not answer fails, and has its alerts made again.
			used, _ = engine.Ask(ctx, w.ref, func(reply chan<- bool) any { return askNeeded{reply} })
		}
		if used {
			symbols = append(symbols, record.Symbol)
		}
	}
	return symbols
}

// forget gives up the assets that no node has needed for keepUnused.
func (t *term) forget(ctx context.Context) error {
	d := t.desk
	now := t.o.Now()
	if d == nil || len(d.keepers) == 0 || now.Sub(d.swept).Abs() < source.UseEvery {
		return nil
	}
	d.swept = now
	unused, err := t.unused(ctx, source.KeepUnused)
	for _, key := range unused {
		if err := t.drop(ctx, key, d.keepers[key]); err != nil {
			return err
		}
	}
	return err
}

// makeRoom gives up the asset that has not been needed for longest. It reports false if
// all were needed within keepFull.
func (t *term) makeRoom(ctx context.Context) (bool, error) {
	unused, err := t.unused(ctx, source.KeepFull)
	if err != nil || len(unused) == 0 {
		return false, err
	}
	return true, t.drop(ctx, unused[0], t.desk.keepers[unused[0]])
}

// unused returns the keys of the assets that no node has needed for so long, the longest
// unused first.
func (t *term) unused(ctx context.Context, since time.Duration) ([]string, error) {
	uses, err := t.store.Uses(ctx)
	if err != nil {
		return nil, err
	}
	var unused []string
	keepers, now := t.desk.keepers, t.o.Now()
	for key, k := range keepers {
		if used := uses[k.Symbol]; used.After(k.used) {
			k.used = used
		}
		if a := t.assets[key]; a != nil && a.kept && now.Sub(k.used) >= since {
			unused = append(unused, key)
		}
	}
	slices.SortFunc(unused, func(x, y string) int { return keepers[x].used.Compare(keepers[y].used) })
	return unused, nil
}

// drop ends a keeper and removes what is stored of its asset: who asks for it next has it
// taken up again.
func (t *term) drop(ctx context.Context, key string, k *kept) error {
	k.stop()
	delete(t.desk.keepers, key)
	delete(t.assets, key)
	delete(t.live, k.Symbol)
	t.step.Removed = append(t.step.Removed, k.Symbol)
	if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
		return err
	}
	var empty []marketdata.Series
	for _, tf := range signal.Timeframes {
		empty = append(empty, marketdata.Series{Asset: k.Symbol, Timeframe: tf, Reset: true})
	}
	if err := t.fill(ctx, empty); err != nil {
		return err
	}
	t.o.Log.Info("asset is no longer kept", "asset", k.Symbol, "unused", t.o.Now().Sub(k.used))
	return t.store.ForgetUse(ctx, k.Symbol)
}
