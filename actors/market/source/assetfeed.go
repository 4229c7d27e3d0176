package source

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// realBars is how many bars of each timeframe are read at first.
	realBars = 1000
	// shortGap, in milliseconds, is made up by bars of 1m alone.
	shortGap = 90 * 60_000
	// upWithin is how long a venue may take until it sends events of an asset.
	upWithin = 20 * time.Second
	// downFor is after how long without connection an asset is looked for elsewhere,
	// silentFor without a word of it, although it is connected.
	downFor   = 30 * time.Second
	silentFor = 90 * time.Second
	// workEvery is how often what has come is worked in.
	workEvery = 100 * time.Millisecond
	// lateBar is how long after its end, in milliseconds, a bar of 1m is asked for that
	// did not come.
	lateBar = 8_000
	// askAfter is how long after the end of a minute a venue is asked that does not
	// stream; askedTwice is how much it is asked for again, because it may have
	// been late with that: both in milliseconds.
	askAfter   = 3_000
	askedTwice = 180_000
	// quietFor is after how long, in milliseconds, a venue that is asked has nothing to
	// say: without a trade there is no bar.
	quietFor = 30 * 60_000
	// failedAsks in a row end the service of a venue.
	failedAsks = 3
	// venueRest is for how long a venue is left out for an asset after it failed it.
	venueRest = 30 * time.Second
	// maxPending bounds the events that wait.
	maxPending = 20_000
	// LevelFaults prices in a row that cannot be of the same thing as the close before
	// have the history read again.
	LevelFaults = 50
)

// Delivery is what a feed hands to the feeder, in the order: records, bars, ticks.
type Delivery struct {
	Feed *AssetFeed
	// Record comes with Series: both are to be stored before anything that follows.
	// Reset reports whether they are of another source than what was stored.
	Record *marketdata.Asset
	Reset  bool
	Series []marketdata.Series
	Bars   []marketdata.Bar // closed, of 1m
	// Missed is since when ticks may be missing before the next one, in milliseconds;
	// 0: none. Bars hold what the prices were.
	Missed int64
	Ticks  []marketdata.Tick
	UpTo   int64 // all bars that ended by then have been delivered
	// Err is why the asset is not kept; the feed has ended.
	Err    error
	News   []marketdata.NewsItem
	Listed *listing // of a source
}

// AssetFeed keeps one asset: its stamps are by the service's clock, its patience by the
// machine's, which does not jump. It reads its history at a venue, then what is new, and
// goes to another venue when that one fails. All but push and recovers belongs to the
// goroutine of run.
type AssetFeed struct {
	Symbol, class string
	venues        []Venue
	now           func() time.Time
	log           *slog.Logger
	metrics       *Metrics
	out           chan<- Delivery

	source string                   // whose bars the records hold; empty: there are none
	newest [prices.Timeframes]int64 // when the newest of them ended
	ticked int64                    // the newest tick that was delivered
	level  float64                  // the newest price that was delivered
	faults int                      // prices in a row that were far from it
	anew   bool                     // the records are not to be trusted
	rests  map[string]time.Time
	absent map[string]bool // venues that do not have the asset
	errs   map[string]error
	better <-chan struct{} // a venue that comes before the one that is asked works again

	mu      sync.Mutex
	pending []binance.Event
	lost    bool // pending was full
}

// push notes what a venue tells. It does not wait.
func (k *AssetFeed) push(e binance.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) >= maxPending {
		k.pending, k.lost = nil, true
	}
	k.pending = append(k.pending, e)
}

// take returns what was pushed; lost reports whether some was dropped.
func (k *AssetFeed) take() (events []binance.Event, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	events, lost = k.pending, k.lost
	k.pending, k.lost = nil, false
	return events, lost
}

func (k *AssetFeed) deliver(ctx context.Context, d Delivery) {
	d.Feed = k
	select {
	case k.out <- d:
	case <-ctx.Done():
	}
}

// Run keeps the asset until ctx ends or no venue has it.
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
				k.rest(v, err) // it had it before
				delete(k.absent, v.Name())
			}
		case !errors.Is(err, errPreferred):
			k.rest(v, err)
		}
		k.errs[v.Name()] = err
	}
}

// rest leaves a venue out for a while.
func (k *AssetFeed) rest(v Venue, err error) {
	rest := venueRest
	if fault, ok := errors.AsType[*fetch.Error](err); ok {
		rest = max(rest, fault.RetryAfter)
	}
	k.rests[v.Name()] = time.Now().Add(rest)
	k.metrics.failedOver(v.Name())
	k.log.Warn("source fails an asset", "source", v.Name(), "asset", k.Symbol, "rest", rest, "err", err)
}

// choose returns the first venue that may have the asset and does not rest, or nil.
func (k *AssetFeed) choose() Venue {
	for _, v := range k.venues {
		if _, can := v.Symbol(k.Symbol, k.class); !can || k.absent[v.Name()] || time.Now().Before(k.rests[v.Name()]) {
			continue
		}
		return v
	}
	return nil
}

// verdict returns why no venue gives the asset.
func (k *AssetFeed) verdict() error {
	for _, v := range k.venues {
		if err := k.errs[v.Name()]; err != nil && !errors.Is(err, fetch.ErrUnknown) {
			return err
		}
	}
	return fetch.ErrUnknown
}

var (
	// errPreferred ends the service of a venue because a better one is back.
	errPreferred = errors.New("a source that comes before is back")
	errDown      = errors.New("the connection is down")
	errSilent    = errors.New("the source is silent")
	errLies      = errors.New("the source gives prices that cannot be")
)

// serve keeps the asset by one venue until that fails.
func (k *AssetFeed) serve(ctx context.Context, v Venue) error {
	symbol, _ := v.Symbol(k.Symbol, k.class)
	stopProbes := k.probe(ctx, v)
	defer stopProbes()
	k.take()
	stop, streams := v.Follow(symbol, k.push)
	if !streams {
		if err := k.load(ctx, v, symbol); err != nil {
			return err
		}
		return k.ask(ctx, v, symbol)
	}
	defer stop()
	if err := k.awaitUp(ctx); err != nil {
		return err
	}
	up := k.now().UnixMilli()
	if err := k.load(ctx, v, symbol); err != nil {
		return err
	}
	return k.listen(ctx, v, symbol, up)
}

// awaitUp waits until a venue sends events of the asset. What comes after that stays pending.
func (k *AssetFeed) awaitUp(ctx context.Context) error {
	deadline := time.NewTimer(upWithin)
	defer deadline.Stop()
	for {
		k.mu.Lock()
		for i, e := range k.pending {
			if e.Kind == binance.Up {
				k.pending = k.pending[i+1:]
				k.mu.Unlock()
				return nil
			}
			if e.Kind == binance.Refused {
				k.mu.Unlock()
				return fetch.ErrUnknown
			}
		}
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return errDown
		case <-time.After(workEvery):
		}
	}
}

// load reads what the records lack: everything, if they hold another source's bars.
func (k *AssetFeed) load(ctx context.Context, v Venue, symbol string) error {
	reset := k.source != v.Name() || k.anew
	now := k.now().UnixMilli()
	if !reset && now-k.newest[prices.M1] <= shortGap && now >= k.newest[prices.M1] {
		return k.refill(ctx, v, symbol)
	}
	list, newest, level, err := k.history(ctx, v, symbol, reset, now)
	if err != nil {
		return err
	}
	if level == 0 && reset {
		return fetch.ErrUnknown // a name without any price
	}
	missed := k.since()
	if reset {
		missed = 0
	}
	k.newest, k.source, k.faults, k.anew = newest, v.Name(), 0, false
	if level != 0 {
		k.level = level
	}
	k.class = cmp.Or(k.class, v.Class())
	record := marketdata.Asset{Symbol: k.Symbol, Class: k.class, Source: v.Name(),
		AlwaysOpen: sessions.Of(k.class) == sessions.Always, Speed: 1}
	k.deliver(ctx, Delivery{Record: &record, Reset: reset, Series: list, Missed: missed, UpTo: k.newest[prices.M1]})
	return nil
}

// history reads the bars of all timeframes up to now: those behind the newest that the
// records hold, or, with reset, all. It returns when the newest of each ended, and the
// newest price; 0: none.
func (k *AssetFeed) history(ctx context.Context, v Venue, symbol string, reset bool, now int64) (
	list []marketdata.Series, newest [prices.Timeframes]int64, level float64, err error) {
	if !reset {
		newest = k.newest
	}
	for frame, tf := range signal.Timeframes {
		from := now - realBars*prices.FrameMS[frame]
		if sessions.Of(cmp.Or(k.class, v.Class())) == sessions.Exchange {
			from = now - historyOf(frame)
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
		bars := k.sanitize(raw, frame, now)
		s := marketdata.Series{Asset: k.Symbol, Timeframe: tf, Reset: reset}
		for _, b := range bars {
			if frame > prices.M1 && b.CloseTime > now-askedTwice {
				break // its end may be missing: it is built from finer ones
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

// historyOf returns how far back the history of an asset goes that is traded in
// sessions of some six hours: in milliseconds.
func historyOf(frame int) int64 {
	const day = 86_400_000
	return [prices.Timeframes]int64{7 * day, 25 * day, 230 * day, 1450 * day}[frame]
}

// refill reads the bars of 1m that are missing since the newest.
func (k *AssetFeed) refill(ctx context.Context, v Venue, symbol string) error {
	now := k.now().UnixMilli()
	raw, err := v.Bars(ctx, symbol, signal.M1, k.newest[prices.M1]-askedTwice, now)
	if err != nil {
		return err
	}
	bars, missed := k.sanitize(raw, prices.M1, now), k.since()
	k.noteBars(bars)
	k.deliver(ctx, Delivery{Bars: bars, Missed: missed, UpTo: k.newest[prices.M1]})
	return nil
}

// since returns since when ticks may be missing, if some are.
func (k *AssetFeed) since() int64 { return cmp.Or(k.ticked, k.newest[prices.M1]) }

// noteBars notes bars that are about to be delivered.
func (k *AssetFeed) noteBars(bars []marketdata.Bar) {
	for _, b := range bars {
		if b.CloseTime > k.newest[prices.M1] {
			k.newest[prices.M1], k.level = b.CloseTime, b.Close
		}
	}
}

// ask asks a venue after each minute, until that fails.
func (k *AssetFeed) ask(ctx context.Context, v Venue, symbol string) error {
	failed, session := 0, sessions.Of(k.class)
	for {
		now := k.now().UnixMilli()
		wait := prices.FrameMS[prices.M1] - (now-askAfter)%prices.FrameMS[prices.M1]
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.better:
			return errPreferred
		case <-time.After(time.Duration(wait) * time.Millisecond):
		}
		now = k.now().UnixMilli()
		if session != sessions.Always && !session.Open(prices.Time(now)) && !session.Open(prices.Time(now-5*prices.FrameMS[prices.M1])) {
			k.deliver(ctx, Delivery{UpTo: now - now%prices.FrameMS[prices.M1]})
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
			if failed++; failed >= failedAsks || errors.Is(err, fetch.ErrUnknown) {
				return err
			}
			continue
		}
		failed = 0
		bars := k.sanitize(raw, prices.M1, now)
		k.noteBars(bars)
		if session == sessions.Always && now-k.newest[prices.M1] > quietFor {
			return errSilent
		}
		k.deliver(ctx, Delivery{Bars: bars, UpTo: now - now%prices.FrameMS[prices.M1]})
	}
}

// FeedOptions are what a feed of one asset needs.
type FeedOptions struct {
	Venues  []Venue // in the order in which they are asked
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics // nil: none
	Out     chan<- Delivery
}

// NewAssetFeed returns the feed of an asset that has no records yet.
func NewAssetFeed(o FeedOptions, symbol, class string) *AssetFeed {
	return &AssetFeed{
		Symbol:  symbol,
		class:   class,
		venues:  o.Venues,
		now:     o.Now,
		log:     o.Log,
		metrics: o.Metrics,
		out:     o.Out,
		rests:   make(map[string]time.Time),
		absent:  make(map[string]bool),
		errs:    make(map[string]error),
	}
}

// Resume has k go on from records that hold the bars of a source, of which the newest of
// each timeframe ended at newest. level is the newest price, ticked the time of the newest
// tick that was delivered. It must be called before run.
func (k *AssetFeed) Resume(source string, newest [prices.Timeframes]int64, level float64, ticked int64) {
	k.source, k.newest, k.level, k.ticked = source, newest, level, ticked
}
