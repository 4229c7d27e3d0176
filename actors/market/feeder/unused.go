package feeder

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
)

// forget gives up the assets that no node has needed for source.KeepUnused.
func (t *leadership) forget(ctx context.Context) error {
	d := t.feeds
	now := t.o.Now()
	if d == nil || len(d.kept) == 0 || now.Sub(d.swept).Abs() < source.UseEvery {
		return nil
	}
	d.swept = now
	unused, err := t.unused(ctx, source.KeepUnused)
	for _, key := range unused {
		if err := t.drop(ctx, key, d.kept[key]); err != nil {
			return err
		}
	}
	return err
}

// makeRoom gives up the asset that has not been needed for longest. It returns false if all were
// needed within source.KeepFull.
func (t *leadership) makeRoom(ctx context.Context) (bool, error) {
	unused, err := t.unused(ctx, source.KeepFull)
	if err != nil || len(unused) == 0 {
		return false, err
	}
	return true, t.drop(ctx, unused[0], t.feeds.kept[unused[0]])
}

// unused returns the keys of the assets that no node has needed for since, the longest unused first.
func (t *leadership) unused(ctx context.Context, since time.Duration) ([]string, error) {
	uses, err := t.store.Uses(ctx)
	if err != nil {
		return nil, err
	}
	var unused []string
	kept, now := t.feeds.kept, t.o.Now()
	for key, k := range kept {
		if used := uses[k.Symbol]; used.After(k.used) {
			k.used = used
		}
		if a := t.assets[key]; a != nil && a.kept && now.Sub(k.used) >= since {
			unused = append(unused, key)
		}
	}
	slices.SortFunc(unused, func(x, y string) int { return kept[x].used.Compare(kept[y].used) })
	return unused, nil
}

// drop ends a feed and removes its asset from the store. The asset is taken up again when it is asked for.
func (t *leadership) drop(ctx context.Context, key string, k *keptAsset) error {
	k.stop()
	delete(t.feeds.kept, key)
	delete(t.assets, key)
	delete(t.live, k.Symbol)
	t.step.Removed = append(t.step.Removed, k.Symbol)
	if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
		return err
	}
	if err := t.fill(ctx, emptySeries(k.Symbol)); err != nil {
		return err
	}
	t.o.Log.Info("asset is no longer kept", "asset", k.Symbol, "unused", t.o.Now().Sub(k.used))
	return t.store.ForgetUse(ctx, k.Symbol)
}
