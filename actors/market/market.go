package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Store is what a Market needs of the store.
type Store interface {
	// Asset returns the record of the asset with that key, or KindNotFound.
	Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error)
	// State returns the records of all assets and their newest prices.
	State(ctx context.Context) (marketdata.State, error)
	// Bars returns the bars, and how many closed bars had been published to readers then.
	Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error)
	TicksEnd(ctx context.Context, stream marketdata.TickStream) (signal.Position, error)
	// TicksKept reports whether no tick behind a position was trimmed; false when in doubt.
	TicksKept(ctx context.Context, stream marketdata.TickStream, after signal.Position) (bool, error)
	ReadTicks(ctx context.Context, stream marketdata.TickStream, after signal.Position, block time.Duration) ([]marketdata.Entry, error)
	ClosedEnd(ctx context.Context) (signal.Position, int64, error)
	Follow(ctx context.Context, closedAfter, newsAfter signal.Position, block time.Duration) (
		closed []marketdata.ClosedBar, news []marketdata.NewsItem, closedTo, newsTo signal.Position, err error)
	// Want asks the feeder for an asset without a record, and returns why there will be
	// none, if that is known.
	// Each account has a share of those that may wait, and that may be kept.
	Want(ctx context.Context, account signal.AccountID, symbol string) (refused string, err error)
	// Listings returns what sources call the assets that they list, of those that are known.
	Listings(ctx context.Context, sources []string) (map[string][]string, error)
	// NoteUse notifies the feeder that assets are needed at a time.
	NoteUse(ctx context.Context, symbols []string, at time.Time) error
}

// Options are what a Market is made with.
type Options struct {
	Store   Store            // required
	Sources string           // market.source, as the feeder has it; default simulated
	Speed   int64            // market.speed, as the feeder has it; default 60
	Now     func() time.Time // the service's clock; default time.Now
	Log     *slog.Logger     // nil: none
	// TakeUp bounds the wait for the feeder to take up an asset; default 10 s.
	TakeUp time.Duration
}

// Market knows the prices of all assets on this node. Its methods may be called
// from anywhere but an actor's Receive. Run must run for it to stay up to date.
type Market struct {
	o         Options
	log       *slog.Logger
	sources   []string
	simulates bool
	real      bool // a real source is configured
	given     bool // so are prices that anybody gives: there may be an asset of any name
	listings  atomic.Pointer[listings]
	assets    atomic.Pointer[assetList]
	parent    engine.Ref
	// watches are the assets that were asked for, by key. A map is never
	// changed: mu guards making the next one.
	watches atomic.Pointer[map[string]*watch]
	mu      sync.Mutex
	tapes   *tapes
	news    *newsbook

	ticksUp  [tickStreams]atomic.Bool // the reader's last read of each went well
	closedUp atomic.Bool
}

// New returns a Market whose actors live in sys.
func New(sys *engine.System, o Options) *Market {
	o.Sources, o.Speed, o.TakeUp = cmp.Or(o.Sources, simulated.Name), cmp.Or(o.Speed, 60), cmp.Or(o.TakeUp, takeUpPatience)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Market{o: o, log: o.Log.With("component", "market"), news: newNewsbook(o.Speed), tapes: newTapes()}
	names, _ := source.ParseSources(o.Sources) // the feeder refuses what is wrong
	m.sources, m.simulates, m.given = names, slices.Contains(names, simulated.Name), slices.Contains(names, source.Stream)
	m.real = slices.ContainsFunc(names, source.IsVenue)
	m.watches.Store(new(map[string]*watch))
	m.parent = sys.Spawn(engine.Market, "market", func() engine.Actor { return &supervisor{market: m} }, engine.Supervision{})
	return m
}

// Series returns what is known of the asset that name means, ignoring ASCII case,
// and of a timeframe. Errors are *signal.RunError: DATA_UNAVAILABLE, not retryable,
// for an asset of which no source gives prices, and retryable if Redis cannot be
// reached or too many bars are missing; INSUFFICIENT_HISTORY without any bar;
// STALE_DATA; MARKET_CLOSED outside of the sessions of a real asset. It asks Redis at
// the first call for an asset and timeframe only. An asset that was not asked for before
// is taken up by the feeder, which may take some seconds; on an empty Redis the simulated
// market begins. Series waits for that until ctx ends, and while the simulated market stands
// still because another node takes it over. After the process was halted or Redis was away
// it waits a moment for prices to be read again.
func (m *Market) Series(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	begun := time.Now()
	for {
		w, frame, err := m.watched(ctx, name, tf)
		if err == nil {
			var s Snapshot
			if s, err = m.snapshot(w, frame); err == nil {
				return s, nil
			}
		}
		// Another node surely makes the simulated market go on. A Redis that stays away is not
		// waited for: the caller gets the error.
		if !errors.Is(err, errStopped) && !(errors.Is(err, errUnread) && time.Since(begun) < rereadPatience) {
			return Snapshot{}, err
		}
		if !backoff.Sleep(ctx, wantEvery) {
			return Snapshot{}, err
		}
	}
}

// askAgainAfter is after how long prices that are missing may be there: it is advised to
// clients, and records that could not be read are read again after it.
const askAgainAfter = time.Second

// rereadPatience bounds the wait for prices that cannot be read at the moment.
const rereadPatience = 3 * time.Second

// Causes of errors that soon end by themselves.
var (
	errUnread  = errors.New("prices are not read")
	errStopped = errors.New("the simulated market stands still")
)

// watched returns the watch of the asset that name means, with the timeframe read.
func (m *Market) watched(ctx context.Context, name string, tf signal.Timeframe) (w *watch, frame int, err error) {
	frame, ok := prices.FrameOf(tf)
	if !ok {
		return nil, 0, &signal.RunError{Code: signal.Internal, Message: "timeframe is not known"}
	}
	w = (*m.watches.Load())[m.key(name)]
	if w == nil || w.series[frame].Load() == nil {
		w, err = m.load(ctx, name, frame)
	}
	if w != nil && !w.used.Load() {
		w.used.Store(true)
	}
	return w, frame, err
}

// shown returns the bars that are published of w. There are some.
func (m *Market) shown(w *watch, frame int) ([]marketdata.Bar, error) {
	series := w.series[frame].Load()
	switch {
	case series == nil:
		return nil, m.unreachable(nil) // the actor restarted just now
	case series.err != nil:
		return nil, series.err
	case len(series.bars) == 0:
		return nil, &signal.RunError{Code: signal.InsufficientHistory,
			Message: fmt.Sprintf("there are no bars of %s for %s", signal.Timeframes[frame], w.record.Load().Symbol)}
	}
	return series.bars, nil
}

// snapshot puts together what is published of w, if it is fresh enough.
func (m *Market) snapshot(w *watch, frame int) (Snapshot, error) {
	record, last, tf := w.record.Load(), w.last.Load(), signal.Timeframes[frame]
	bars, err := m.shown(w, frame)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Asset: assetOf(*record), Bars: bars, Source: record.Source, Compression: float64(record.Speed), Proxy: source.ProxyOf(record),
		Session: tradedIn(record)}
	newest := &bars[len(bars)-1]
	now := m.o.Now().UnixMilli()
	if opens := s.Session.Next(prices.Time(now)); opens.After(prices.Time(now)) {
		return Snapshot{}, &signal.RunError{Code: signal.MarketClosed, Retryable: true, RetryAfter: opens.Sub(prices.Time(now)),
			Message: fmt.Sprintf("%s is not traded now: its market opens at %s", record.Symbol, opens.Format(time.RFC3339))}
	}
	limit := s.Session.Lasting(time.Duration(2*prices.FrameMS[frame])*time.Millisecond, tf).Milliseconds() - 2*prices.FrameMS[frame] + prices.BarLimit(frame, record.Speed)
	if age := s.Session.Between(prices.Time(newest.CloseTime), prices.Time(now)).Milliseconds(); age > limit {
		return Snapshot{}, m.stale(record, "the newest bar of %s for %s ended %s ago", tf, age)
	}
	if last == nil || last.Time == 0 || now-last.Time > max(prices.Tickless/record.Speed, strategy.MinAge) {
		s.Last = marketdata.Tick{Price: newest.Close, Time: newest.CloseTime}
		return s, nil
	}
	if age := now - last.Time; age > prices.TickLimit(record.Class, record.Speed) {
		return Snapshot{}, m.stale(record, "the last %s of %s is %s old", "trade", age)
	}
	s.Last, s.Ticks = *last, true
	return s, nil
}

// stale returns the error that prices are too old, or why that is if it is known. The
// simulated market has new ones in a moment: it begins, or another node takes it over.
func (m *Market) stale(record *marketdata.Asset, format string, what any, ageMS int64) error {
	if !m.ticksUp[marketdata.GivenTicks].Load() || !m.ticksUp[marketdata.OwnTicks].Load() || !m.closedUp.Load() {
		return m.unreachable(nil)
	}
	age := (time.Duration(ageMS) * time.Millisecond).Round(time.Second)
	err := &signal.RunError{Code: signal.StaleData, Retryable: true, Message: fmt.Sprintf(format, what, record.Symbol, age)}
	if record.Source == simulated.Name {
		err.Cause = errStopped
	}
	return err
}

func (m *Market) unreachable(cause error) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: askAgainAfter,
		Message: "prices cannot be read at the moment", Cause: errors.Join(errUnread, cause)}
}

// load makes sure that the asset is watched and the frame read.
func (m *Market) load(ctx context.Context, name string, frame int) (*watch, error) {
	key := m.key(name)
	w := (*m.watches.Load())[key]
	again := w != nil
	if w == nil {
		// Only what has a record gets an actor: names come from outside.
		record, err := m.record(ctx, name, key)
		if err != nil {
			return nil, m.unknown(name, err)
		}
		if w, err = engine.Ask(ctx, m.parent, func(reply chan<- *watch) any { return watchAsset{key, record, reply} }); err != nil {
			return nil, m.unreachable(err)
		}
	}
	err, asking := engine.Ask(ctx, w.ref, func(reply chan<- error) any { return loadSeries{frame, reply} })
	if asking != nil {
		return nil, m.unreachable(asking)
	}
	if again && signal.KindOf(err) == signal.KindNotFound {
		// It was forgotten while it was not needed.
		if _, err = m.record(ctx, name, key); err == nil {
			return m.loadAgain(ctx, w, name, frame)
		}
	}
	if err != nil {
		return nil, m.unknown(name, err)
	}
	return w, nil
}

// loadAgain reads the frame of an asset whose record is there again.
func (m *Market) loadAgain(ctx context.Context, w *watch, name string, frame int) (*watch, error) {
	err, asking := engine.Ask(ctx, w.ref, func(reply chan<- error) any { return loadSeries{frame, reply} })
	switch {
	case asking != nil:
		return nil, m.unreachable(asking)
	case err != nil:
		return nil, m.unknown(name, err)
	}
	return w, nil
}

const (
	// takeUpPatience is the default of Options.TakeUp, wantEvery how often it is looked
	// whether the feeder did.
	takeUpPatience = 10 * time.Second
	wantEvery      = 100 * time.Millisecond
)

// record returns the record of an asset. Where there is none yet it waits: for the feeder
// to take up what real sources may have, at most Options.TakeUp, since a source may fail to
// answer, and for the simulated market to begin, until ctx ends, since it will. The waits of
// Series are for fresh prices; this one serves every caller.
func (m *Market) record(ctx context.Context, name, key string) (marketdata.Asset, error) {
	takenUp := m.real && m.mayHave(name)
	if takenUp {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.o.TakeUp)
		defer cancel()
	}
	for {
		record, _, err := m.o.Store.Asset(ctx, key)
		if signal.KindOf(err) != signal.KindNotFound || !takenUp && !(m.simulates && assets.Find(name) != nil) {
			return record, err
		}
		if takenUp {
			refused, asking := m.o.Store.Want(ctx, accountOf(ctx), m.wantedName(name))
			switch {
			case asking != nil:
				return record, asking
			case refused == string(source.RefusedUnknown):
				return record, err
			case refused != "":
				return record, notTakenUp(name, refused)
			}
			err = &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: askAgainAfter,
				Message: "the prices of " + name + " are being read"}
		}
		if !backoff.Sleep(ctx, wantEvery) {
			return record, err
		}
	}
}

// notTakenUp returns why an asset that sources may have is not taken up now.
func notTakenUp(name, refused string) *signal.RunError {
	err := &signal.RunError{Code: signal.DataUnavailable, Retryable: true}
	switch refused {
	case string(source.RefusedShare):
		err.RetryAfter, err.Message = source.KeepUnused, "the account has its share of the assets that sources are asked for: "+name+" is not added"
	case string(source.RefusedFull):
		err.RetryAfter, err.Message = source.FullFor, "sources are asked for as many assets as they may be: "+name+" is not added"
	default:
		err.RetryAfter, err.Message = source.AwayFor, "no source gives prices of "+name+" at the moment"
	}
	return err
}

// wantedName is the symbol under which an asset is taken up.
func (m *Market) wantedName(name string) string {
	if k := assets.Find(name); k != nil {
		return k.Symbol
	}
	return m.key(name)
}

// mayHave reports whether name can be one that a real source knows.
func (m *Market) mayHave(name string) bool {
	if k := assets.Find(name); k != nil {
		return !m.simulates || k.Class == assets.Crypto || k.Class == assets.Stock || k.Class == assets.Commodity
	}
	_, isCoin := source.CoinOf(name, "")
	return isCoin || source.IsTicker(assets.Fold(name))
}

// unknown returns why there is no record of name.
func (m *Market) unknown(name string, err error) *signal.RunError {
	if said, ok := errors.AsType[*signal.RunError](err); ok {
		return said
	}
	if e, ok := errors.AsType[*signal.Error](err); !ok || e.Kind != signal.KindNotFound {
		return m.unreachable(err)
	}
	if m.simulates && assets.Find(name) != nil {
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: askAgainAfter,
			Message: "the simulated market is about to start"}
	}
	return &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + name}
}

// News returns the news of an asset from the time since on, in milliseconds, oldest
// first. An asset without reporters has none. It waits until those of the past have
// been read; the error is a *signal.RunError, DATA_UNAVAILABLE and retryable, if ctx ends
// before. The items are read-only.
func (m *Market) News(ctx context.Context, name string, since int64) ([]strategy.NewsItem, error) {
	select {
	case <-m.news.ready:
	case <-ctx.Done():
		return nil, m.unreachable(ctx.Err())
	}
	return m.news.since(m.key(name), since), nil
}
