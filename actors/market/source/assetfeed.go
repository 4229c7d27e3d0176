package source

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// realBars is the number of bars of each timeframe in the first read.
	realBars = 1000
	// shortGap is the longest gap, in milliseconds, that is filled by bars of 1m alone.
	shortGap = 90 * 60_000
	// An asset moves to another venue after downFor without connection, or silentFor without an event.
	downFor   = 30 * time.Second
	silentFor = 90 * time.Second
	// workEvery is the interval at which pending events are handled.
	workEvery = 100 * time.Millisecond
	// lateBar is the time after its end, in milliseconds, at which a missing 1m bar is requested.
	lateBar = 8_000
	// A venue that does not stream is polled askAfter the end of a minute. The last askedTwice are
	// requested again, because they may have been late. Both are in milliseconds.
	askAfter   = 3_000
	askedTwice = 180_000
	// quietFor is the time without bars, in milliseconds, after which a polled venue is silent. A
	// minute without trade has no bar.
	quietFor = 30 * 60_000
	// maxFailedAsks is the number of consecutive failures after which a venue has failed.
	maxFailedAsks = 3
	// venueRest is how long an asset is not requested from a venue that failed it.
	venueRest = 30 * time.Second
	// LevelFaults is the number of consecutive prices too far from the close before after which the
	// history is read again.
	LevelFaults = 50
)

// Delivery is an output of a feed or reporter for the feeder, which handles record, bars and ticks
// in this order.
type Delivery struct {
	Feed *AssetFeed
	// Record comes with Series, and both must be stored before later deliveries. Reset reports
	// whether they are of another source than the stored ones.
	Record *marketdata.Asset
	Reset  bool
	Series []marketdata.Series
	Bars   []marketdata.Bar // closed, of 1m
	// Missed is the time in milliseconds since which ticks may be missing before the next one, or
	// 0. Bars hold the prices of that time.
	Missed int64
	Ticks  []marketdata.Tick
	UpTo   int64 // all bars that ended by then have been delivered
	// Err is why the asset is not kept. The feed has ended.
	Err    error
	News   []marketdata.NewsItem
	Listed *listing
}

// AssetFeed keeps one asset up to date. It reads the history at a venue, then new prices, and
// switches to another venue when that one fails. Its timestamps follow the service's clock, its
// timeouts the monotonic one. All methods belong to the goroutine of Run.
type AssetFeed struct {
	Symbol, class string
	o             FeedOptions

	source     string                   // of the bars in the records; empty without records
	newest     [prices.Timeframes]int64 // close times of the newest ones
	ticked     int64                    // time of the newest delivered tick
	level      float64                  // the newest delivered price
	faults     int                      // consecutive prices far from it
	distrusted bool                     // the records may be wrong: the history is read again
	rests      map[string]time.Time
	absent     map[string]bool // venues that do not have the asset
	errs       map[string]error
	better     <-chan struct{} // closed when a venue before the current one works again

	inbox inbox
}

func (k *AssetFeed) deliver(ctx context.Context, d Delivery) {
	d.Feed = k
	select {
	case k.o.Out <- d:
	case <-ctx.Done():
	}
}

// Run keeps the asset up to date until ctx ends or no venue has it.
func (k *AssetFeed) Run(ctx context.Context) {
	retries := backoff.Backoff{Min: time.Second, Max: venueRest / 4}
	for ctx.Err() == nil {
		v := k.choose()
		if v == nil {
			if k.source == "" {
				k.deliver(ctx, Delivery{Err: k.verdict()})
				return
			}
			retries.Wait(ctx)
			continue
		}
		begun := time.Now()
		err := k.serve(ctx, v)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > time.Minute {
			retries.Reset()
		}
		switch {
		case errors.Is(err, fetch.ErrUnknown):
			k.absent[v.Name()] = true
			if k.source == v.Name() {
				k.rest(v, err) // it has listed the symbol before
				delete(k.absent, v.Name())
			}
		case !errors.Is(err, errPreferred):
			k.rest(v, err)
		}
		k.errs[v.Name()] = err
	}
}

// rest excludes a venue for a while.
func (k *AssetFeed) rest(v Venue, err error) {
	rest := venueRest
	if fault, ok := errors.AsType[*fetch.Error](err); ok {
		rest = max(rest, fault.RetryAfter)
	}
	k.rests[v.Name()] = time.Now().Add(rest)
	k.o.Metrics.failedOver(v.Name())
	k.o.Log.Warn("source fails an asset", "source", v.Name(), "asset", k.Symbol, "rest", rest, "err", err)
}

// choose returns the first venue that may have the asset and is not excluded, or nil.
func (k *AssetFeed) choose() Venue {
	for _, v := range k.o.Venues {
		if _, can := v.Symbol(k.Symbol, k.class); !can || k.absent[v.Name()] || time.Now().Before(k.rests[v.Name()]) {
			continue
		}
		return v
	}
	return nil
}

// verdict returns the reason why no venue gives the asset.
func (k *AssetFeed) verdict() error {
	for _, v := range k.o.Venues {
		if err := k.errs[v.Name()]; err != nil && !errors.Is(err, fetch.ErrUnknown) {
			return err
		}
	}
	return fetch.ErrUnknown
}

var (
	// errPreferred ends the use of a venue because a preferred one works again.
	errPreferred = errors.New("a preferred source is back")
	errSilent    = errors.New("the source is silent")
	errLevel     = errors.New("the source gives prices that cannot be true")
)

// serve keeps the asset up to date with one venue until that fails.
func (k *AssetFeed) serve(ctx context.Context, v Venue) error {
	symbol, _ := v.Symbol(k.Symbol, k.class)
	probes := &prober{o: &k.o, symbol: k.Symbol, class: k.class, absent: k.absent}
	var stopProbes func()
	k.better, stopProbes = probes.start(ctx, v)
	defer stopProbes()
	k.inbox.take()
	stop, streams := v.Follow(symbol, k.inbox.push)
	if !streams {
		if err := k.load(ctx, v, symbol); err != nil {
			return err
		}
		return k.ask(ctx, v, symbol)
	}
	defer stop()
	if err := k.inbox.awaitUp(ctx); err != nil {
		return err
	}
	up := k.o.Now().UnixMilli()
	if err := k.load(ctx, v, symbol); err != nil {
		return err
	}
	return newListener(k, v, symbol, up).run(ctx)
}

// load reads the bars that the records lack: all bars, if they hold those of another source.
func (k *AssetFeed) load(ctx context.Context, v Venue, symbol string) error {
	reset := k.source != v.Name() || k.distrusted
	now := k.o.Now().UnixMilli()
	if !reset && now-k.newest[prices.M1] <= shortGap && now >= k.newest[prices.M1] {
		return k.refill(ctx, v, symbol)
	}
	list, newest, level, err := k.history(ctx, v, symbol, reset, now)
	if err != nil {
		return err
	}
	if level == 0 && reset {
		return fetch.ErrUnknown // it has no price
	}
	missed := k.since()
	if reset {
		missed = 0
	}
	k.newest, k.source, k.faults, k.distrusted = newest, v.Name(), 0, false
	if level != 0 {
		k.level = level
	}
	k.class = cmp.Or(k.class, v.Class())
	record := marketdata.Asset{Symbol: k.Symbol, Class: k.class, Source: v.Name(),
		AlwaysOpen: sessions.Of(k.class) == sessions.Always, Speed: 1}
	k.deliver(ctx, Delivery{Record: &record, Reset: reset, Series: list, Missed: missed, UpTo: k.newest[prices.M1]})
	return nil
}

// history reads the bars of all timeframes up to now: those after the newest in the records or,
// with reset, all. It returns the close times of the newest ones, and the newest price or 0.
func (k *AssetFeed) history(ctx context.Context, v Venue, symbol string, reset bool, now int64) (
	list []marketdata.Series, newest [prices.Timeframes]int64, level float64, err error) {
	if !reset {
		newest = k.newest
	}
	for frame, tf := range signal.Timeframes {
		from := now - realBars*prices.FrameMS[frame]
		if sessions.Of(cmp.Or(k.class, v.Class())) == sessions.Exchange {
			from = now - sessionHistory[frame]
		}
		if !reset {
			from = max(from, newest[frame])
		}
		if from >= now {
			continue // the clock was ahead
		}
		raw, err := v.Bars(ctx, symbol, tf, from-from%prices.FrameMS[frame], now)
		if err != nil {
			return nil, newest, 0, err
		}
		bars := sanitize(raw, frame, now, k.o.Metrics)
		s := marketdata.Series{Asset: k.Symbol, Timeframe: tf, Reset: reset}
		for _, b := range bars {
			if frame > prices.M1 && b.CloseTime > now-askedTwice {
				break // it may be incomplete, and is built from finer ones
			}
			s.Bars = append(s.Bars, marketdata.AssetBar{Asset: k.Symbol, Timeframe: tf, Given: true, Bar: b})
			newest[frame] = max(newest[frame], b.CloseTime)
		}
		if n := len(bars); n > 0 && level == 0 { // of the finest
			level = bars[n-1].Close
		}
		if len(bars) > 0 || reset {
			list = append(list, s)
		}
	}
	return list, newest, level, nil
}

const day = 86_400_000

// sessionHistory is the length of the history, in milliseconds, of an asset with sessions of some six hours.
var sessionHistory = [prices.Timeframes]int64{7 * day, 25 * day, 230 * day, 1450 * day}

func (k *AssetFeed) refill(ctx context.Context, v Venue, symbol string) error {
	now := k.o.Now().UnixMilli()
	raw, err := v.Bars(ctx, symbol, signal.M1, k.newest[prices.M1]-askedTwice, now)
	if err != nil {
		return err
	}
	bars, missed := sanitize(raw, prices.M1, now, k.o.Metrics), k.since()
	k.noteBars(bars)
	k.deliver(ctx, Delivery{Bars: bars, Missed: missed, UpTo: k.newest[prices.M1]})
	return nil
}

// since returns the time since which ticks may be missing.
func (k *AssetFeed) since() int64 { return cmp.Or(k.ticked, k.newest[prices.M1]) }

// noteBars records bars that are about to be delivered.
func (k *AssetFeed) noteBars(bars []marketdata.Bar) {
	for _, b := range bars {
		if b.CloseTime > k.newest[prices.M1] {
			k.newest[prices.M1], k.level = b.CloseTime, b.Close
		}
	}
}

// ask polls a venue after each minute until that fails.
func (k *AssetFeed) ask(ctx context.Context, v Venue, symbol string) error {
	failed, session := 0, sessions.Of(k.class)
	const minute = 60_000
	for {
		now := k.o.Now().UnixMilli()
		wait := minute - (now-askAfter)%minute
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.better:
			return errPreferred
		case <-time.After(time.Duration(wait) * time.Millisecond):
		}
		now = k.o.Now().UnixMilli()
		if !session.Open(prices.Time(now)) && !session.Open(prices.Time(now-5*minute)) {
			k.deliver(ctx, Delivery{UpTo: now - now%minute})
			continue
		}
		if now <= k.newest[prices.M1] {
			continue // the clock was ahead
		}
		if now-k.newest[prices.M1] > shortGap {
			if err := k.load(ctx, v, symbol); err != nil {
				return err
			}
			continue
		}
		raw, err := v.Bars(ctx, symbol, signal.M1, k.newest[prices.M1]-askedTwice, now)
		if err != nil {
			if failed++; failed >= maxFailedAsks || errors.Is(err, fetch.ErrUnknown) {
				return err
			}
			continue
		}
		failed = 0
		bars := sanitize(raw, prices.M1, now, k.o.Metrics)
		k.noteBars(bars)
		if session == sessions.Always && now-k.newest[prices.M1] > quietFor {
			return errSilent
		}
		k.deliver(ctx, Delivery{Bars: bars, UpTo: now - now%minute})
	}
}

// FeedOptions configure an AssetFeed.
type FeedOptions struct {
	Venues  []Venue // in the order of preference
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics // may be nil
	Out     chan<- Delivery
}

// NewAssetFeed returns the feed of an asset that has no records yet.
func NewAssetFeed(o FeedOptions, symbol, class string) *AssetFeed {
	return &AssetFeed{
		Symbol: symbol, class: class, o: o,
		rests: make(map[string]time.Time), absent: make(map[string]bool), errs: make(map[string]error),
	}
}

// Resume makes k continue from records with bars of a source. newest are the close times of the newest bars,
// level is the newest price and ticked the time of the newest delivered tick. It must be called before Run.
func (k *AssetFeed) Resume(source string, newest [prices.Timeframes]int64, level float64, ticked int64) {
	k.source, k.newest, k.level, k.ticked = source, newest, level, ticked
}
