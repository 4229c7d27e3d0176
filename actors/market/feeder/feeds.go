package feeder

import (
	"context"
	"errors"
	"log/slog"
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
	// wantedEvery is how often the feeder looks which assets were asked for.
	wantedEvery = 200 * time.Millisecond
	// maxKept bounds the assets that real sources are asked for.
	maxKept = 400
)

// feeds runs the feeds of assets and the readers of news while this node leads. Its methods
// belong to the goroutine of the leadership.
type feeds struct {
	venues  []source.Venue
	now     func() time.Time
	log     *slog.Logger
	metrics *source.Metrics
	out     chan source.Delivery
	ctx     context.Context
	group   sync.WaitGroup
	keepers map[string]*kept // by key
	looked  time.Time        // when it was looked which assets are wanted
	swept   time.Time        // when it was looked which are needed
}

// openFeeds starts what the real sources need. It ends with ctx; wait for group.
func (t *leadership) openFeeds(ctx context.Context) *feeds {
	d := &feeds{venues: t.venues, now: t.o.Now, log: t.o.Log, metrics: t.o.Metrics.ofSources(), out: make(chan source.Delivery), ctx: ctx,
		keepers: make(map[string]*kept), swept: t.o.Now()}
	for _, v := range d.venues {
		d.group.Go(func() { d.lasting(v.Name(), func() { v.Run(ctx) }) })
		d.group.Go(func() { d.lasting(v.Name(), func() { source.FollowListing(ctx, v, d.log, d.out) }) })
	}
	for _, n := range t.reporters {
		d.group.Go(func() { d.lasting(n.Name, func() { n.Run(ctx, d.out) }) })
	}
	for key, a := range t.assets {
		if a.kept {
			var newest [prices.Timeframes]int64
			for frame := range newest {
				if n := len(a.builder.recent[frame]); n > 0 {
					newest[frame] = a.builder.recent[frame][n-1].CloseTime
				}
			}
			level := 0.0
			if n := len(a.builder.recent[prices.M1]); n > 0 {
				level = a.builder.recent[prices.M1][n-1].Close
			}
			k := d.newFeed(a.record.Symbol, a.record.Class)
			k.Resume(a.record.Source, newest, level, a.filter.Last.Time)
			d.start(key, k)
		}
	}
	return d
}

// kept is an asset that real sources are asked for.
type kept struct {
	*source.AssetFeed
	used time.Time // when its asset was needed last, as far as that is known
	stop func()
}

func (d *feeds) newFeed(symbol, class string) *source.AssetFeed {
	o := source.FeedOptions{Venues: d.venues, Now: d.now, Log: d.log, Metrics: d.metrics, Out: d.out}
	return source.NewAssetFeed(o, symbol, class)
}

func (d *feeds) start(key string, k *source.AssetFeed) {
	ctx, stop := context.WithCancel(d.ctx)
	d.keepers[key] = &kept{AssetFeed: k, used: d.now(), stop: stop}
	d.group.Go(func() { d.lasting(k.Symbol, func() { k.Run(ctx) }) })
}

// lasting calls f again, after a pause, when it panics.
func (d *feeds) lasting(name string, f func()) {
	for !panics.Guard(d.log, panics.Source, f, "name", name) {
		if !backoff.Sleep(d.ctx, retryAfter) {
			return
		}
	}
}

// real reports whether a venue that stands before the other source in the list may have an
// asset.
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
	if d == nil || len(d.venues) == 0 || time.Since(d.looked) < wantedEvery {
		return nil
	}
	d.looked = time.Now()
	wanted, err := t.store.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, symbol := range wanted {
		key := assets.Fold(symbol)
		switch {
		case d.keepers[key] != nil:
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

// takeOn starts the feed of an asset that was asked for. Where as many are kept as may
// be, one that is not needed at the moment gives way to it.
func (t *leadership) takeOn(ctx context.Context, key, symbol string) error {
	room := len(t.assets) < assets.Max
	if room && len(t.feeds.keepers) >= t.o.maxKept {
		var err error
		if room, err = t.makeRoom(ctx); err != nil {
			return err
		}
	}
	if !room {
		return t.store.Settle(ctx, t.epoch, symbol, string(source.RefusedFull), source.FullFor)
	}
	class := ""
	if k := assets.Find(symbol); k != nil {
		class = k.Class
	}
	t.feeds.start(key, t.feeds.newFeed(symbol, class))
	return nil
}

// workDelivery works in what a feed or a reporter delivers.
func (t *leadership) workDelivery(ctx context.Context, d *source.Delivery) error {
	t.step.News = append(t.step.News, d.News...)
	if d.Listed != nil {
		return t.store.StoreListing(ctx, d.Listed.Source, d.Listed.Symbols, source.ListKept)
	}
	if d.Feed == nil {
		return nil
	}
	key := assets.Fold(d.Feed.Symbol)
	if k := t.feeds.keepers[key]; k == nil || k.AssetFeed != d.Feed {
		return nil // it was given up meanwhile
	}
	if d.Err != nil {
		delete(t.feeds.keepers, key)
		t.o.Log.Info("no source gives an asset", "asset", d.Feed.Symbol, "err", d.Err)
		if errors.Is(d.Err, fetch.ErrUnknown) {
			return t.store.Settle(ctx, t.epoch, d.Feed.Symbol, string(source.RefusedUnknown), source.RefusedFor)
		}
		return t.store.Settle(ctx, t.epoch, d.Feed.Symbol, string(source.RefusedAway), source.AwayFor)
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
		// Bars of the time that was missed come before the ticks after it.
		if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
			return err
		}
		a.missed = d.Missed
		a.filter.Held = marketdata.Tick{}
	}
	return t.publishKept(ctx, a, d.Ticks)
}

// publishKept lets an asset's ticks through the filter and writes them for all nodes.
func (t *leadership) publishKept(ctx context.Context, a *assetState, ticks []marketdata.Tick) error {
	var passed []marketdata.AssetTick
	for _, tick := range ticks {
		through, skipped := a.take(tick)
		if skipped != "" {
			t.o.Metrics.skip(skipped)
		}
		for _, p := range through {
			passed = append(passed, marketdata.AssetTick{Asset: a.record.Symbol, Source: a.record.Source, Tick: p, Missed: a.missed})
			a.missed = 0
		}
	}
	if len(passed) == 0 {
		return nil
	}
	t.live[a.record.Symbol] = marketdata.Live{Asset: a.record.Symbol, Last: a.filter.Last}
	return t.publish(ctx, passed)
}

// takeUp stores the history of an asset, and then its record: who finds an asset finds
// its bars.
func (t *leadership) takeUp(ctx context.Context, key string, d *source.Delivery) error {
	before := t.assets[key]
	if before != nil && !before.kept {
		return nil // somebody else gave it first
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
	var recent [prices.Timeframes][]marketdata.AssetBar
	for frame, tf := range signal.Timeframes {
		err := t.store.EachRecent(ctx, []string{d.Record.Symbol}, tf, recentKept[frame],
			func(_ string, bars []marketdata.AssetBar) { recent[frame] = bars })
		if err != nil {
			return err
		}
	}
	a.builder.restore(marketdata.Bar{}, recent)
	if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
		return err
	}
	t.o.Log.Info("asset is kept", "asset", d.Record.Symbol, "source", d.Record.Source, "anew", d.Reset)
	return t.store.Settle(ctx, t.epoch, d.Record.Symbol, "", 0)
}
