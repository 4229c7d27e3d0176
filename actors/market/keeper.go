package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

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
	// upWithin is how long a venue may take until it tells of an asset.
	upWithin = 20 * time.Second
	// downFor is after how long without connection an asset is looked for elsewhere,
	// silentFor without a word of it, although it is connected.
	downFor   = 30 * time.Second
	silentFor = 90 * time.Second
	// workEvery is how often what has come is worked in.
	workEvery = 100 * time.Millisecond
	// lateBar is how long after its end, in milliseconds, a bar of 1m is asked for that
	// was not told of.
	lateBar = 8_000
	// askAfter is how long after the end of a minute a venue is asked that does not
	// tell by itself; askedTwice is how much it is asked for again, because it may have
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
	// levelFaults prices in a row that cannot be of the same thing as the close before
	// have the history read again.
	levelFaults = 50
)

// delivery is what a keeper tells the feeder, in the order: records, bars, ticks.
type delivery struct {
	keeper *keeper
	// Record comes with Series: both are to be stored before anything that follows.
	// Reset says that they are of another source than what was stored.
	record *marketdata.Asset
	reset  bool
	series []marketdata.Series
	bars   []marketdata.Bar // closed, of 1m
	// missed is since when ticks may be missing before the next one, in milliseconds;
	// 0: none. Bars tell what the prices were.
	missed int64
	ticks  []marketdata.Tick
	upTo   int64 // all bars that ended by then have been delivered
	// failed says why the asset is not kept; the keeper has ended.
	failed error
	news   []marketdata.NewsItem
	listed *listing // of a source
}

// keeper keeps one asset: its stamps are by the service's clock, its patience by the
// machine's, which does not jump. It reads its history at a venue, then what is new, and
// goes to another venue when that one fails. All but push and recovers belongs to the
// goroutine of run.
type keeper struct {
	symbol, class string
	venues        []venue
	now           func() time.Time
	log           *slog.Logger
	metrics       *Metrics
	out           chan<- delivery

	source string                   // whose bars the records hold; empty: nobody's
	newest [prices.Timeframes]int64 // when the newest of them ended
	ticked int64                    // the newest tick that was delivered
	level  float64                  // the newest price that was delivered
	faults int                      // prices in a row that were far from it
	anew   bool                     // the records are not to be trusted
	rests  map[string]time.Time
	absent map[string]bool // venues that do not have the asset
	errs   map[string]error
	better <-chan struct{} // a venue that comes before the one that is asked works again

	// Of the term's goroutine.
	used time.Time // when its asset was needed last, as far as that is known
	stop func()

	mu      sync.Mutex
	pending []binance.Event
	lost    bool // pending was full
}

// push notes what a venue tells. It does not wait.
func (k *keeper) push(e binance.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) >= maxPending {
		k.pending, k.lost = nil, true
	}
	k.pending = append(k.pending, e)
}

// take returns what was pushed; lost says that some was forgotten.
func (k *keeper) take() (events []binance.Event, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	events, lost = k.pending, k.lost
	k.pending, k.lost = nil, false
	return events, lost
}

func (k *keeper) deliver(ctx context.Context, d delivery) {
	d.keeper = k
	select {
	case k.out <- d:
	case <-ctx.Done():
	}
}

// run keeps the asset until ctx ends or no venue has it.
func (k *keeper) run(ctx context.Context) {
	pause := time.Second
	for ctx.Err() == nil {
		v := k.choose()
		if v == nil {
			if k.source == "" {
				k.deliver(ctx, delivery{failed: k.verdict()})
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, venueRest/4)
			continue
		}
		begun := time.Now()
		err := k.serve(ctx, v)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > time.Minute {
			pause = time.Second
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
func (k *keeper) rest(v venue, err error) {
	rest := venueRest
	if fault, ok := errors.AsType[*fetch.Error](err); ok {
		rest = max(rest, fault.RetryAfter)
	}
	k.rests[v.Name()] = time.Now().Add(rest)
	k.metrics.failedOver(v.Name())
	k.log.Warn("source fails an asset", "source", v.Name(), "asset", k.symbol, "rest", rest, "err", err)
}

// choose returns the first venue that may have the asset and does not rest, or nil.
func (k *keeper) choose() venue {
	for _, v := range k.venues {
		if _, can := v.Symbol(k.symbol, k.class); !can || k.absent[v.Name()] || time.Now().Before(k.rests[v.Name()]) {
			continue
		}
		return v
	}
	return nil
}

// verdict says why no venue gives the asset.
func (k *keeper) verdict() error {
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
func (k *keeper) serve(ctx context.Context, v venue) error {
	symbol, _ := v.Symbol(k.symbol, k.class)
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

// awaitUp waits until a venue tells of the asset. What comes after that stays pending.
func (k *keeper) awaitUp(ctx context.Context) error {
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
func (k *keeper) load(ctx context.Context, v venue, symbol string) error {
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
	record := marketdata.Asset{Symbol: k.symbol, Class: k.class, Source: v.Name(),
		AlwaysOpen: sessions.Of(k.class) == sessions.Always, Speed: 1}
	k.deliver(ctx, delivery{record: &record, reset: reset, series: list, missed: missed, upTo: k.newest[prices.M1]})
	return nil
}

// history reads the bars of all timeframes up to now: those behind the newest that the
// records hold, or, with reset, all. It returns when the newest of each ended, and the
// newest price; 0: none.
func (k *keeper) history(ctx context.Context, v venue, symbol string, reset bool, now int64) (
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
		bars := k.sound(raw, frame, now)
		s := marketdata.Series{Asset: k.symbol, Timeframe: tf, Reset: reset}
		for _, b := range bars {
			if frame > prices.M1 && b.CloseTime > now-askedTwice {
				break // its end may be missing: it is built from finer ones
			}
			s.Bars = append(s.Bars, marketdata.AssetBar{Asset: k.symbol, Timeframe: tf, Given: true, Bar: b})
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
func (k *keeper) refill(ctx context.Context, v venue, symbol string) error {
	now := k.now().UnixMilli()
	raw, err := v.Bars(ctx, symbol, signal.M1, k.newest[prices.M1]-askedTwice, now)
	if err != nil {
		return err
	}
	bars, missed := k.sound(raw, prices.M1, now), k.since()
	k.noteBars(bars)
	k.deliver(ctx, delivery{bars: bars, missed: missed, upTo: k.newest[prices.M1]})
	return nil
}

// since returns since when ticks may be missing, if some are.
func (k *keeper) since() int64 { return cmp.Or(k.ticked, k.newest[prices.M1]) }

// noteBars notes bars that are about to be delivered.
func (k *keeper) noteBars(bars []marketdata.Bar) {
	for _, b := range bars {
		if b.CloseTime > k.newest[prices.M1] {
			k.newest[prices.M1], k.level = b.CloseTime, b.Close
		}
	}
}

// ask asks a venue after each minute, until that fails.
func (k *keeper) ask(ctx context.Context, v venue, symbol string) error {
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
			k.deliver(ctx, delivery{upTo: now - now%prices.FrameMS[prices.M1]})
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
		bars := k.sound(raw, prices.M1, now)
		k.noteBars(bars)
		if session == sessions.Always && now-k.newest[prices.M1] > quietFor {
			return errSilent
		}
		k.deliver(ctx, delivery{bars: bars, upTo: now - now%prices.FrameMS[prices.M1]})
	}
}

// newKeeper returns the keeper of an asset. source and newest say what the records
// hold, ticked and level how far its prices have come.
func newKeeper(d *desk, symbol, class string) *keeper {
	return &keeper{symbol: symbol, class: class, venues: d.venues, now: d.now, log: d.log, metrics: d.metrics, out: d.out,
		rests: make(map[string]time.Time), absent: make(map[string]bool), errs: make(map[string]error)}
}

// refusal says in few words why an asset is not kept.
func refusal(err error) (text string, unknown bool) {
	if errors.Is(err, fetch.ErrUnknown) {
		return "", true
	}
	if fault, ok := errors.AsType[*fetch.Error](err); ok {
		return fmt.Sprintf("%s %s %d", fault.Source, fault.Kind, int64(math.Ceil(fault.RetryAfter.Seconds()))), false
	}
	return "", false
}
