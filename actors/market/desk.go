package market

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// wantedEvery is how often the feeder looks which assets were asked for.
	wantedEvery = 200 * time.Millisecond
	// maxKept bounds the assets that real sources are asked for.
	maxKept = 400
	// refusedFor is how long it is remembered that no source knows an asset, awayFor
	// that none answers, and fullFor that as many are kept as may be.
	refusedFor = 5 * time.Minute
	awayFor    = 10 * time.Second
	fullFor    = time.Minute
)

// Refusal is why no real source gives an asset that was asked for.
type Refusal string

// The refusals. Empty: there is none.
const (
	RefusedUnknown Refusal = "unknown" // no source knows it
	RefusedAway    Refusal = "away"    // no source answers at the moment
	RefusedFull    Refusal = "full"    // there are as many assets as there may be
	RefusedShare   Refusal = "share"   // the account that asks has as many as it may have
)

// desk runs the keepers of a term. Its methods belong to the term's goroutine.
type desk struct {
	venues  []venue
	now     func() time.Time
	log     *slog.Logger
	metrics *Metrics
	out     chan delivery
	ctx     context.Context
	group   sync.WaitGroup
	keepers map[string]*keeper // by key
	looked  time.Time          // when it was looked which assets are wanted
	swept   time.Time          // when it was looked which are needed
}

// openDesk starts what the real sources need. It ends with ctx; wait for group.
func (t *term) openDesk(ctx context.Context) *desk {
	d := &desk{venues: t.venues, now: t.o.Now, log: t.o.Log, metrics: t.o.Metrics, out: make(chan delivery), ctx: ctx,
		keepers: make(map[string]*keeper), swept: t.o.Now()}
	for _, v := range d.venues {
		d.group.Go(func() { d.lasting(v.Name(), func() { v.Run(ctx) }) })
		d.group.Go(func() { d.lasting(v.Name(), func() { d.list(ctx, v) }) })
	}
	for _, n := range t.reporters {
		d.group.Go(func() { d.lasting(n.name, func() { n.run(ctx, d.out) }) })
	}
	for key, a := range t.assets {
		if a.kept {
			k := newKeeper(d, a.record.Symbol, a.record.Class)
			k.source = a.record.Source
			for frame := range k.newest {
				if n := len(a.builder.recent[frame]); n > 0 {
					k.newest[frame] = a.builder.recent[frame][n-1].CloseTime
				}
			}
			if n := len(a.builder.recent[prices.M1]); n > 0 {
				k.level = a.builder.recent[prices.M1][n-1].Close
			}
			k.ticked = a.filter.Last.Time
			d.start(key, k)
		}
	}
	return d
}

func (d *desk) start(key string, k *keeper) {
	d.keepers[key] = k
	ctx, stop := context.WithCancel(d.ctx)
	k.used, k.stop = d.now(), stop
	d.group.Go(func() { d.lasting(k.symbol, func() { k.run(ctx) }) })
}

// lasting calls f again, after a pause, when it panics.
func (d *desk) lasting(name string, f func()) {
	for !panics.Guard(d.log, panics.Source, f, "name", name) {
		select {
		case <-d.ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// real says that a venue that stands before the other source in the list may have an
// asset.
func (t *term) real(symbol, class, before string) bool {
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

// want starts keepers for the assets that were asked for and have no record.
func (t *term) want(ctx context.Context) error {
	d := t.desk
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

// takeOn starts the keeper of an asset that was asked for. Where as many are kept as may
// be, one that is not needed at the moment gives way to it.
func (t *term) takeOn(ctx context.Context, key, symbol string) error {
	room := len(t.assets) < assets.Max
	if room && len(t.desk.keepers) >= t.o.maxKept {
		var err error
		if room, err = t.makeRoom(ctx); err != nil {
			return err
		}
	}
	if !room {
		return t.store.Settle(ctx, t.epoch, symbol, string(RefusedFull), fullFor)
	}
	class := ""
	if k := assets.Find(symbol); k != nil {
		class = k.Class
	}
	t.desk.start(key, newKeeper(t.desk, symbol, class))
	return nil
}

// workDelivery works in what a keeper or a reporter has.
func (t *term) workDelivery(ctx context.Context, d *delivery) error {
	t.step.News = append(t.step.News, d.news...)
	if d.listed != nil {
		return t.store.StoreListing(ctx, d.listed.source, d.listed.symbols, listKept)
	}
	if d.keeper == nil {
		return nil
	}
	key := assets.Fold(d.keeper.symbol)
	if t.desk.keepers[key] != d.keeper {
		return nil // it was given up meanwhile
	}
	if d.failed != nil {
		delete(t.desk.keepers, key)
		t.o.Log.Info("no source gives an asset", "asset", d.keeper.symbol, "err", d.failed)
		if _, unknown := refusal(d.failed); unknown {
			return t.store.Settle(ctx, t.epoch, d.keeper.symbol, string(RefusedUnknown), refusedFor)
		}
		return t.store.Settle(ctx, t.epoch, d.keeper.symbol, string(RefusedAway), awayFor)
	}
	if d.record != nil {
		if err := t.takeUp(ctx, key, d); err != nil {
			return err
		}
	}
	a := t.assets[key]
	if a == nil || !a.kept {
		return nil
	}
	for _, b := range d.bars {
		a.builder.give(marketdata.AssetBar{Asset: a.record.Symbol, Timeframe: signal.M1, Given: true, Bar: b})
	}
	a.builder.advance(d.upTo)
	if d.missed != 0 {
		// Bars of the time that was missed come before the ticks after it.
		if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
			return err
		}
		a.missed = d.missed
		a.filter.Held = marketdata.Tick{}
	}
	return t.publishKept(ctx, a, d.ticks)
}

// publishKept lets an asset's ticks through the filter and writes them for all nodes.
func (t *term) publishKept(ctx context.Context, a *fed, ticks []marketdata.Tick) error {
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
func (t *term) takeUp(ctx context.Context, key string, d *delivery) error {
	before := t.assets[key]
	if before != nil && !before.kept {
		return nil // somebody else gave it first
	}
	if err := t.fill(ctx, d.series); err != nil {
		return err
	}
	a := before
	if a == nil || d.reset {
		a = t.add(*d.record)
		a.given, a.kept = true, true
		t.live[d.record.Symbol] = marketdata.Live{Asset: d.record.Symbol}
		t.step.Assets = append(t.step.Assets, *d.record)
	}
	var recent [prices.Timeframes][]marketdata.AssetBar
	for frame, tf := range signal.Timeframes {
		err := t.store.EachRecent(ctx, []string{d.record.Symbol}, tf, recentKept[frame],
			func(_ string, bars []marketdata.AssetBar) { recent[frame] = bars })
		if err != nil {
			return err
		}
	}
	a.builder.restore(marketdata.Bar{}, recent)
	if err := t.flush(ctx, t.o.Now().UnixMilli()); err != nil {
		return err
	}
	t.o.Log.Info("asset is kept", "asset", d.record.Symbol, "source", d.record.Source, "anew", d.reset)
	return t.store.Settle(ctx, t.epoch, d.record.Symbol, "", 0)
}
