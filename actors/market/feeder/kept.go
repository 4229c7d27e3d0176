package feeder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// wantedEvery is the interval of reads of the assets that were asked for.
	wantedEvery = 200 * time.Millisecond
	// maxKept bounds the assets of real sources.
	maxKept = 400
)

// keptAssets takes up assets of real sources, passes on their prices, and gives up those that are not needed.
type keptAssets struct {
	*Feeder
	epoch  int64
	assets *assetStates
	writer *stepWriter
	ticks  *tickWriter
	feeds  *feeds    // nil until they are open
	read   time.Time // when the wanted assets were last read
	swept  time.Time // when unused assets were last removed
}

// want starts feeds for the assets that were asked for and have no record.
func (k *keptAssets) want(ctx context.Context) error {
	d := k.feeds
	if d == nil || len(k.venues) == 0 || time.Since(k.read) < wantedEvery {
		return nil
	}
	k.read = time.Now()
	wanted, err := k.store.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, symbol := range wanted {
		key := assets.Fold(symbol)
		switch {
		case d.kept[key] != nil:
		case k.assets.of[key] != nil:
			err = k.store.Settle(ctx, k.epoch, symbol, "", 0)
		default:
			err = k.takeOn(ctx, key, symbol)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeOn starts the feed of an asset that was asked for. If there are too many, one that is not
// needed is given up.
func (k *keptAssets) takeOn(ctx context.Context, key, symbol string) error {
	room := len(k.assets.of) < assets.Max
	if room && len(k.feeds.kept) >= k.o.maxKept {
		var err error
		if room, err = k.makeRoom(ctx); err != nil {
			return err
		}
	}
	if !room {
		return k.store.Settle(ctx, k.epoch, symbol, string(source.RefusedFull), source.FullFor)
	}
	k.feeds.start(key, source.NewAssetFeed(k.feeds.o, symbol, assets.ClassOf(symbol)))
	return nil
}

func (k *keptAssets) deliver(ctx context.Context, d *source.Delivery) error {
	k.writer.step.News = append(k.writer.step.News, d.News...)
	if d.Listed != nil {
		return k.store.StoreListing(ctx, d.Listed.Source, d.Listed.Symbols, source.ListKept)
	}
	if d.Feed == nil {
		return nil
	}
	key := assets.Fold(d.Feed.Symbol)
	if x := k.feeds.kept[key]; x == nil || x.AssetFeed != d.Feed {
		return nil // the asset was given up meanwhile
	}
	if d.Err != nil {
		delete(k.feeds.kept, key)
		k.o.Log.Info("no source gives an asset", "asset", d.Feed.Symbol, "err", d.Err)
		refused, remember := source.RefusedSilent, source.SilentFor
		if errors.Is(d.Err, fetch.ErrUnknown) {
			refused, remember = source.RefusedUnknown, source.RefusedFor
		}
		return k.store.Settle(ctx, k.epoch, d.Feed.Symbol, string(refused), remember)
	}
	if d.Record != nil {
		if err := k.takeUp(ctx, key, d); err != nil {
			return err
		}
	}
	a := k.assets.of[key]
	if a == nil || !a.kept {
		return nil
	}
	for _, b := range d.Bars {
		a.builder.give(marketdata.AssetBar{Asset: a.record.Symbol, Timeframe: signal.M1, Given: true, Bar: b})
	}
	a.builder.advance(d.UpTo)
	if d.Missed != 0 {
		// Bars of the missed time must be stored before the ticks after it.
		if err := k.writer.flush(ctx); err != nil {
			return err
		}
		a.missed = d.Missed
		a.filter.Held = marketdata.Tick{}
	}
	return k.write(ctx, a, d.Ticks)
}

// write filters an asset's ticks and writes them for all nodes.
func (k *keptAssets) write(ctx context.Context, a *assetState, ticks []marketdata.Tick) error {
	symbol := a.record.Symbol
	var published []marketdata.AssetTick
	for _, tick := range ticks {
		accepted, skipped := a.take(tick)
		if skipped != "" {
			k.o.Metrics.skip(skipped)
		}
		for _, x := range accepted {
			own := marketdata.AssetTick{Asset: symbol, Source: a.record.Source, Tick: x, Missed: a.missed}
			published, a.missed = append(published, own), 0
		}
	}
	if len(published) == 0 {
		return nil
	}
	k.writer.live[symbol] = marketdata.Live{Asset: symbol, Last: a.filter.Last}
	return k.ticks.write(ctx, published)
}

// takeUp stores the history of an asset and then its record, so that an asset with a record has bars.
func (k *keptAssets) takeUp(ctx context.Context, key string, d *source.Delivery) error {
	before := k.assets.of[key]
	if before != nil && !before.kept {
		return nil // its prices come from outside
	}
	if err := k.writer.fill(ctx, d.Series); err != nil {
		return err
	}
	a := before
	if a == nil || d.Reset {
		a = k.assets.add(*d.Record)
		a.given, a.kept = true, true
		k.writer.live[d.Record.Symbol] = marketdata.Live{Asset: d.Record.Symbol}
		k.writer.step.Assets = append(k.writer.step.Assets, *d.Record)
	}
	recent, err := k.assets.recent(ctx, d.Record.Symbol, recentKept)
	if err != nil {
		return err
	}
	a.builder.restore(marketdata.Bar{}, recent)
	if err := k.writer.flush(ctx); err != nil {
		return err
	}
	k.o.Log.Info("asset is kept", "asset", d.Record.Symbol, "source", d.Record.Source, "reset", d.Reset)
	return k.store.Settle(ctx, k.epoch, d.Record.Symbol, "", 0)
}

// forget gives up the assets that no node has needed for source.KeepUnused.
func (k *keptAssets) forget(ctx context.Context) error {
	d := k.feeds
	now := k.o.Now()
	if d == nil || len(d.kept) == 0 || now.Sub(k.swept).Abs() < source.UseEvery {
		return nil
	}
	k.swept = now
	unused, err := k.unused(ctx, source.KeepUnused)
	for _, key := range unused {
		if err := k.drop(ctx, key); err != nil {
			return err
		}
	}
	return err
}

// makeRoom gives up the asset that has not been needed for longest. It returns false if all were
// needed within source.KeepFull.
func (k *keptAssets) makeRoom(ctx context.Context) (bool, error) {
	unused, err := k.unused(ctx, source.KeepFull)
	if err != nil || len(unused) == 0 {
		return false, err
	}
	return true, k.drop(ctx, unused[0])
}

// unused returns the keys of the assets that no node has needed for since, the longest unused first.
func (k *keptAssets) unused(ctx context.Context, since time.Duration) ([]string, error) {
	uses, err := k.store.Uses(ctx)
	if err != nil {
		return nil, err
	}
	var unused []string
	kept, now := k.feeds.kept, k.o.Now()
	for key, x := range kept {
		if used := uses[x.Symbol]; used.After(x.used) {
			x.used = used
		}
		if a := k.assets.of[key]; a != nil && a.kept && now.Sub(x.used) >= since {
			unused = append(unused, key)
		}
	}
	slices.SortFunc(unused, func(x, y string) int { return kept[x].used.Compare(kept[y].used) })
	return unused, nil
}

// drop ends a feed and removes its asset from the store. The asset is taken up again when it is asked for.
func (k *keptAssets) drop(ctx context.Context, key string) error {
	x := k.feeds.kept[key]
	x.stop()
	delete(k.feeds.kept, key)
	delete(k.assets.of, key)
	delete(k.writer.live, x.Symbol)
	k.writer.step.Removed = append(k.writer.step.Removed, x.Symbol)
	if err := k.writer.flush(ctx); err != nil {
		return err
	}
	if err := k.writer.fill(ctx, emptySeries(x.Symbol)); err != nil {
		return err
	}
	k.o.Log.Info("asset is no longer kept", "asset", x.Symbol, "unused", k.o.Now().Sub(x.used))
	return k.store.ForgetUse(ctx, x.Symbol)
}

// feeds runs the feeds of assets and the reporters of news while this node leads. Its methods
// belong to the goroutine of the leadership.
type feeds struct {
	o     source.FeedOptions
	out   chan source.Delivery
	ctx   context.Context
	group sync.WaitGroup
	kept  map[string]*keptAsset // by key
}

// keptAsset is an asset that is kept up to date by a feed.
type keptAsset struct {
	*source.AssetFeed
	used time.Time // when it was last known to be needed
	stop func()
}

// openFeeds starts the venues and reporters of f, and the feeds of assets that were kept before. They end with
// ctx; wait for group.
func openFeeds(ctx context.Context, f *Feeder, assets map[string]*assetState) *feeds {
	out := make(chan source.Delivery)
	o := source.FeedOptions{Venues: f.venues, Now: f.o.Now, Log: f.o.Log, Metrics: f.o.Metrics.ofSources(), Out: out}
	d := &feeds{o: o, out: out, ctx: ctx, kept: make(map[string]*keptAsset)}
	for _, v := range f.venues {
		d.group.Go(func() { d.lasting(v.Name(), func() { v.Run(ctx) }) })
		d.group.Go(func() { d.lasting(v.Name(), func() { source.FollowListing(ctx, v, o.Log, out) }) })
	}
	for _, n := range f.reporters {
		d.group.Go(func() { d.lasting(n.Name, func() { n.Run(ctx, out) }) })
	}
	for key, a := range assets {
		if a.kept {
			d.resume(key, a)
		}
	}
	return d
}

// resume starts the feed of an asset that was kept before.
func (d *feeds) resume(key string, a *assetState) {
	var newest [prices.Timeframes]int64
	level := 0.0
	for frame, bars := range a.builder.recent {
		if n := len(bars); n > 0 {
			newest[frame] = bars[n-1].CloseTime
			if frame == prices.M1 {
				level = bars[n-1].Close
			}
		}
	}
	k := source.NewAssetFeed(d.o, a.record.Symbol, a.record.Class)
	k.Resume(a.record.Source, newest, level, a.filter.Last.Time)
	d.start(key, k)
}

func (d *feeds) start(key string, k *source.AssetFeed) {
	ctx, stop := context.WithCancel(d.ctx)
	d.kept[key] = &keptAsset{AssetFeed: k, used: d.o.Now(), stop: stop}
	d.group.Go(func() { d.lasting(k.Symbol, func() { k.Run(ctx) }) })
}

// lasting calls f again, after a pause, when it panics.
func (d *feeds) lasting(name string, f func()) {
	for !panics.Guard(d.o.Log, panics.Source, f, "name", name) {
		if !backoff.Sleep(d.ctx, retryAfter) {
			return
		}
	}
}
