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

// feeds runs the feeds of assets and the reporters of news while this node leads. Its methods
// belong to the goroutine of the leadership.
type feeds struct {
	o     source.FeedOptions
	out   chan source.Delivery
	ctx   context.Context
	group sync.WaitGroup
	kept  map[string]*keptAsset // by key
	read  time.Time             // when the wanted assets were last read
	swept time.Time             // when unused assets were last removed
}

// openFeeds starts venues, reporters, and the feeds of assets that were kept before. They end with
// ctx; wait for group.
func (t *leadership) openFeeds(ctx context.Context) *feeds {
	out := make(chan source.Delivery)
	o := source.FeedOptions{Venues: t.venues, Now: t.o.Now, Log: t.o.Log, Metrics: t.o.Metrics.ofSources(), Out: out}
	d := &feeds{o: o, out: out, ctx: ctx, kept: make(map[string]*keptAsset), swept: t.o.Now()}
	for _, v := range t.venues {
		d.group.Go(func() { d.lasting(v.Name(), func() { v.Run(ctx) }) })
		d.group.Go(func() { d.lasting(v.Name(), func() { source.FollowListing(ctx, v, o.Log, out) }) })
	}
	for _, n := range t.reporters {
		d.group.Go(func() { d.lasting(n.Name, func() { n.Run(ctx, out) }) })
	}
	for key, a := range t.assets {
		if !a.kept {
			continue
		}
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
		k := source.NewAssetFeed(o, a.record.Symbol, a.record.Class)
		k.Resume(a.record.Source, newest, level, a.filter.Last.Time)
		d.start(key, k)
	}
	return d
}

// keptAsset is an asset that is kept up to date by a feed.
type keptAsset struct {
	*source.AssetFeed
	used time.Time // when it was last known to be needed
	stop func()
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

// real reports whether a venue before the source before in the list may have an asset.
func (t *leadership) real(symbol, class, before string) bool {
	end := slices.Index(t.sources, before)
	for _, v := range t.venues {
		if at := slices.Index(t.sources, v.Name()); end >= 0 && at > end {
			continue
		}
		if _, can := v.Symbol(symbol, class); can {
			return true
		}
	}
	return false
}

// want starts feeds for the assets that were asked for and have no record.
func (t *leadership) want(ctx context.Context) error {
	d := t.feeds
	if d == nil || len(t.venues) == 0 || time.Since(d.read) < wantedEvery {
		return nil
	}
	d.read = time.Now()
	wanted, err := t.store.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, symbol := range wanted {
		key := assets.Fold(symbol)
		switch {
		case d.kept[key] != nil:
		case t.assets[key] != nil:
			err = t.store.Settle(ctx, t.epoch, symbol, "", 0)
		default:
			err = t.takeOn(ctx, key, symbol)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeOn starts the feed of an asset that was asked for. If there are too many, one that is not
// needed is given up.
func (t *leadership) takeOn(ctx context.Context, key, symbol string) error {
	room := len(t.assets) < assets.Max
	if room && len(t.feeds.kept) >= t.o.maxKept {
		var err error
		if room, err = t.makeRoom(ctx); err != nil {
			return err
		}
	}
	if !room {
		return t.store.Settle(ctx, t.epoch, symbol, string(source.RefusedFull), source.FullFor)
	}
	t.feeds.start(key, source.NewAssetFeed(t.feeds.o, symbol, assets.ClassOf(symbol)))
	return nil
}

func (t *leadership) workDelivery(ctx context.Context, d *source.Delivery) error {
	t.step.News = append(t.step.News, d.News...)
	if d.Listed != nil {
		return t.store.StoreListing(ctx, d.Listed.Source, d.Listed.Symbols, source.ListKept)
	}
	if d.Feed == nil {
		return nil
	}
	key := assets.Fold(d.Feed.Symbol)
	if k := t.feeds.kept[key]; k == nil || k.AssetFeed != d.Feed {
		return nil // the asset was given up meanwhile
	}
	if d.Err != nil {
		delete(t.feeds.kept, key)
		t.o.Log.Info("no source gives an asset", "asset", d.Feed.Symbol, "err", d.Err)
		refused, remember := source.RefusedSilent, source.SilentFor
		if errors.Is(d.Err, fetch.ErrUnknown) {
			refused, remember = source.RefusedUnknown, source.RefusedFor
		}
		return t.store.Settle(ctx, t.epoch, d.Feed.Symbol, string(refused), remember)
	}
	if d.Record != nil {
		if err := t.takeUp(ctx, key, d); err != nil {
			return err
		}
	}
	a := t.assets[key]
	if a == nil || !a.kept {
		return nil
	}
	for _, b := range d.Bars {
		a.builder.give(marketdata.AssetBar{Asset: a.record.Symbol, Timeframe: signal.M1, Given: true, Bar: b})
	}
	a.builder.advance(d.UpTo)
	if d.Missed != 0 {
		// Bars of the missed time must be stored before the ticks after it.
		if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
			return err
		}
		a.missed = d.Missed
		a.filter.Held = marketdata.Tick{}
	}
	return t.publishKept(ctx, a, d.Ticks)
}

// publishKept filters an asset's ticks and writes them for all nodes.
func (t *leadership) publishKept(ctx context.Context, a *assetState, ticks []marketdata.Tick) error {
	symbol := a.record.Symbol
	var published []marketdata.AssetTick
	for _, tick := range ticks {
		accepted, skipped := a.take(tick)
		if skipped != "" {
			t.o.Metrics.skip(skipped)
		}
		for _, x := range accepted {
			own := marketdata.AssetTick{Asset: symbol, Source: a.record.Source, Tick: x, Missed: a.missed}
			published, a.missed = append(published, own), 0
		}
	}
	if len(published) == 0 {
		return nil
	}
	t.live[symbol] = marketdata.Live{Asset: symbol, Last: a.filter.Last}
	return t.publish(ctx, published)
}

// takeUp stores the history of an asset and then its record, so that an asset with a record has bars.
func (t *leadership) takeUp(ctx context.Context, key string, d *source.Delivery) error {
	before := t.assets[key]
	if before != nil && !before.kept {
		return nil // its prices come from outside
	}
	if err := t.fill(ctx, d.Series); err != nil {
		return err
	}
	a := before
	if a == nil || d.Reset {
		a = t.add(*d.Record)
		a.given, a.kept = true, true
		t.live[d.Record.Symbol] = marketdata.Live{Asset: d.Record.Symbol}
		t.step.Assets = append(t.step.Assets, *d.Record)
	}
	recent, err := t.recent(ctx, d.Record.Symbol, recentKept)
	if err != nil {
		return err
	}
	a.builder.restore(marketdata.Bar{}, recent)
	if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
		return err
	}
	t.o.Log.Info("asset is kept", "asset", d.Record.Symbol, "source", d.Record.Source, "reset", d.Reset)
	return t.store.Settle(ctx, t.epoch, d.Record.Symbol, "", 0)
}

// recent returns the newest bars of each timeframe of an asset, at most count.
func (t *leadership) recent(ctx context.Context, symbol string, count [prices.Timeframes]int) (
	recent [prices.Timeframes][]marketdata.AssetBar, err error) {
	for frame, tf := range signal.Timeframes {
		keep := func(_ string, bars []marketdata.AssetBar) { recent[frame] = bars }
		if err := t.store.EachRecent(ctx, []string{symbol}, tf, count[frame], keep); err != nil {
			return recent, err
		}
	}
	return recent, nil
}
