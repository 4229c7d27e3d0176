package feeder

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// forget gives up the assets that no node has needed for keepUnused.
func (t *leadership) forget(ctx context.Context) error {
	d := t.feeds
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
func (t *leadership) makeRoom(ctx context.Context) (bool, error) {
	unused, err := t.unused(ctx, source.KeepFull)
	if err != nil || len(unused) == 0 {
		return false, err
	}
	return true, t.drop(ctx, unused[0], t.feeds.keepers[unused[0]])
}

// unused returns the keys of the assets that no node has needed for so long, the longest
// unused first.
func (t *leadership) unused(ctx context.Context, since time.Duration) ([]string, error) {
	uses, err := t.store.Uses(ctx)
	if err != nil {
		return nil, err
	}
	var unused []string
	keepers, now := t.feeds.keepers, t.o.Now()
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

// drop ends a feed and removes what is stored of its asset: who asks for it next has it
// taken up again.
func (t *leadership) drop(ctx context.Context, key string, k *kept) error {
	k.stop()
	delete(t.feeds.keepers, key)
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
