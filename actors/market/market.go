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
	// Asset returns the record of the asset with a key, or KindNotFound.
	Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error)
	// State returns the records of all assets and their newest prices.
	State(ctx context.Context) (marketdata.State, error)
	// Bars returns the bars, and the number of closed bars published to readers at that moment.
	Bars(ctx context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error)
	TicksEnd(ctx context.Context, stream marketdata.TickStream) (signal.Position, error)
	// TicksKept reports whether no tick after a position was trimmed or lost; false when in doubt.
	TicksKept(ctx context.Context, stream marketdata.TickStream, after signal.Position) (bool, error)
	// ReadTicks returns the first ticks after a position, some thousands at most. more reports that there may be more
	// at once.
	ReadTicks(ctx context.Context, stream marketdata.TickStream, after signal.Position, block time.Duration) (
		ticks []marketdata.Entry, more bool, err error)
	FollowEnd(ctx context.Context) (closed, news signal.Position, count int64, err error)
	Follow(ctx context.Context, closedAfter, newsAfter signal.Position, block time.Duration) (
		closed []marketdata.ClosedBar, news []marketdata.NewsItem, closedTo, newsTo signal.Position, more bool, err error)
	// Want asks the feeder for an asset without a record, and returns the reason if the feeder has
	// refused it. Each account has a share of the assets that may wait and be kept.
	Want(ctx context.Context, account signal.AccountID, symbol string) (refused string, err error)
	// Listings returns the symbols that sources list, without sources whose listing is not known.
	Listings(ctx context.Context, sources []string) (map[string][]string, error)
	// NoteUse records that assets are needed at a time.
	NoteUse(ctx context.Context, symbols []string, at time.Time) error
}

// Options are what a Market is made with.
type Options struct {
	Store   Store            // required
	Sources string           // market.source, as the feeder has it; default simulated
	Speed   int64            // market.speed, as the feeder has it; default 60
	Now     func() time.Time // the service's clock; default time.Now
	Log     *slog.Logger     // default none
	// TakeUp bounds the wait for the feeder to take up an asset; default 10 s.
	TakeUp time.Duration
}

// Market answers questions about the prices of all assets on this node. Its methods may be called
// from anywhere but an actor's Receive. Run keeps it up to date.
type Market struct {
	o         Options
	system    *engine.System
	log       *slog.Logger
	sources   []string
	simulates bool
	real      bool // a real source is configured
	given     bool // prices from outside are configured: an asset may have any name
	listings  atomic.Pointer[listings]
	spelled   atomic.Pointer[spelled]
	assets    atomic.Pointer[assetList]
	parent    engine.Ref
	// watches holds the assets that were asked for, by key. The map is replaced, never changed; mu
	// guards its replacement.
	watches atomic.Pointer[map[string]*watch]
	mu      sync.Mutex
	tapes   *tapes
	news    *newsIndex

	ticksRead  [tickStreams]reading
	closedRead reading
}

// New returns a Market whose actors live in sys.
func New(sys *engine.System, o Options) *Market {
	o.Sources, o.Speed = cmp.Or(o.Sources, simulated.Name), cmp.Or(o.Speed, 60)
	o.TakeUp = cmp.Or(o.TakeUp, takeUpTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	names, _ := source.ParseSources(o.Sources) // the feeder reports errors
	m := &Market{
		o: o, system: sys, log: o.Log.With("component", "market"),
		sources:   names,
		simulates: slices.Contains(names, simulated.Name),
		given:     slices.Contains(names, source.Stream),
		real:      slices.ContainsFunc(names, source.IsVenue),
		news:      newNewsIndex(o.Speed),
		tapes:     newTapes(),
	}
	m.watches.Store(new(map[string]*watch))
	newActor := func() engine.Actor { return &supervisor{market: m} }
	m.parent = sys.Spawn(engine.Market, "market", newActor, engine.Supervision{})
	return m
}

// Series returns a snapshot of a timeframe of the asset that name means, ignoring ASCII case.
//
// Errors are *signal.RunError: DATA_UNAVAILABLE, not retryable for an asset without any source, and
// retryable if Redis cannot be reached or too many bars are missing; INSUFFICIENT_HISTORY without
// any bar; STALE_DATA; MARKET_CLOSED outside the sessions of a real asset.
//
// Only the first call for an asset and timeframe asks Redis. The feeder takes up an asset that was
// not asked for before, which may take some seconds, and begins the simulated market on an empty
// Redis. Series waits for that until ctx ends, and until a second before its deadline while another
// node takes over the simulated market, so that the caller can still report why it waited in vain.
// After the process was halted or Redis was away it waits a moment for new prices.
func (m *Market) Series(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	begun := time.Now()
	deadline, limited := ctx.Deadline()
	for {
		w, frame, err := m.watched(ctx, name, tf)
		if err == nil {
			var s Snapshot
			if s, err = m.snapshot(w, frame); err == nil {
				return s, nil
			}
		}
		// The simulated market will go on, on this node or another. Redis may stay away for long.
		stopped := errors.Is(err, errStopped) && (!limited || time.Until(deadline) > reportTime)
		if !stopped && !(errors.Is(err, errNotRead) && time.Since(begun) < rereadTimeout) {
			return Snapshot{}, err
		}
		if !backoff.Sleep(ctx, pollEvery) {
			return Snapshot{}, err
		}
	}
}

const (
	// retryAfter is the delay after which clients should ask for missing prices again, and after
	// which records that could not be read are read again.
	retryAfter = time.Second
	// rereadTimeout bounds the wait for prices that cannot be read at the moment.
	rereadTimeout = 3 * time.Second
	// reportTime is how long before the end of a run the wait for the simulated market ends.
	reportTime = time.Second
	// takeUpTimeout is the default of Options.TakeUp.
	takeUpTimeout = 10 * time.Second
	// pollEvery is the pause between two looks for prices that are awaited.
	pollEvery = 100 * time.Millisecond
)

// Causes of errors that soon end by themselves.
var (
	errNotRead = errors.New("prices are not read")
	errStopped = errors.New("the simulated market stands still")
)

// watched returns the watch of the asset that name means, once the timeframe is read.
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

// published returns the bars that the actor of w published. There is at least one.
func (m *Market) published(w *watch, frame int) ([]marketdata.Bar, error) {
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

// snapshot returns a snapshot of what the actor of w published, if it is recent enough.
func (m *Market) snapshot(w *watch, frame int) (Snapshot, error) {
	record, last, tf := w.record.Load(), w.last.Load(), signal.Timeframes[frame]
	bars, err := m.published(w, frame)
	if err != nil {
		return Snapshot{}, err
	}
	s := newSnapshot(record, bars)
	s.Session = tradedIn(record)
	now := prices.Time(m.o.Now().UnixMilli())
	if opens := s.Session.Next(now); opens.After(now) {
		return Snapshot{}, &signal.RunError{
			Code: signal.MarketClosed, Retryable: true, RetryAfter: opens.Sub(now),
			Message: record.Symbol + " is not traded now: its market opens at " + opens.Format(time.RFC3339),
		}
	}
	two := time.Duration(2*prices.FrameMS[frame]) * time.Millisecond
	limit := s.Session.Lasting(two, tf) - two + time.Duration(prices.BarLimit(frame, record.Speed))*time.Millisecond
	if age := s.Session.Between(prices.Time(s.Last.Time), now); age > limit {
		return Snapshot{}, m.stale(record, "the newest bar of %s for %s ended %s ago", tf, age)
	}
	if last == nil || last.Time == 0 {
		return s, nil
	}
	switch age := now.UnixMilli() - last.Time; {
	case age > max(prices.Tickless/record.Speed, strategy.MinAge):
		return s, nil
	case age > prices.TickLimit(record.Class, record.Speed):
		return Snapshot{}, m.stale(record, "the last %s of %s is %s old", "trade", time.Duration(age)*time.Millisecond)
	}
	s.Last, s.Ticks = *last, true
	return s, nil
}

// stale returns the error for prices that are too old, or the reason for their age if it is known.
// The simulated market will have new ones in a moment, when it begins or another node takes it over.
func (m *Market) stale(record *marketdata.Asset, format string, what any, age time.Duration) error {
	if !m.ticksRead[marketdata.GivenTicks].current() || !m.ticksRead[marketdata.OwnTicks].current() || !m.closedRead.current() {
		return m.unreachable(nil)
	}
	err := &signal.RunError{Code: signal.StaleData, Retryable: true,
		Message: fmt.Sprintf(format, what, record.Symbol, age.Round(time.Second))}
	if record.Source == simulated.Name {
		err.Cause, err.Passing = errStopped, true
	}
	return err
}

func (m *Market) unreachable(cause error) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: retryAfter, Passing: true,
		Message: "prices cannot be read at the moment", Cause: errors.Join(errNotRead, cause)}
}

// load returns the watch of the asset that name means, once the frame is read.
func (m *Market) load(ctx context.Context, name string, frame int) (*watch, error) {
	key := m.key(name)
	w := (*m.watches.Load())[key]
	known := w != nil
	if !known {
		// Names come from outside, so only an asset with a record gets an actor.
		record, err := m.record(ctx, name, key)
		if err != nil {
			return nil, m.unknown(name, err)
		}
		w, err = engine.Ask(ctx, m.parent, func(reply chan<- *watch) any { return watchAsset{key, record, reply} })
		if err != nil {
			return nil, m.unreachable(err)
		}
	}
	err := m.loadFrame(ctx, w, frame)
	if known && signal.KindOf(err) == signal.KindNotFound {
		// The asset was removed while it was not needed.
		if _, err = m.record(ctx, name, key); err == nil {
			err = m.loadFrame(ctx, w, frame)
		}
	}
	if err != nil {
		return nil, m.unknown(name, err)
	}
	return w, nil
}

func (m *Market) loadFrame(ctx context.Context, w *watch, frame int) error {
	err, failed := engine.Ask(ctx, w.ref, func(reply chan<- error) any { return loadSeries{frame, reply} })
	if failed != nil {
		return m.unreachable(failed)
	}
	return err
}

// record returns the record of an asset, and waits for it if necessary: at most Options.TakeUp for
// the feeder to take up an asset of a real source, which may not answer, and until ctx ends for the
// simulated market to begin.
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
			account, _ := ctx.Value(accountKey{}).(signal.AccountID)
			refused, failed := m.o.Store.Want(ctx, account, m.wantedName(name))
			switch {
			case failed != nil:
				return record, failed
			case refused == string(source.RefusedUnknown):
				return record, err
			case refused != "":
				return record, notTakenUp(name, refused)
			}
			err = &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: retryAfter, Passing: true,
				Message: "the prices of " + name + " are being read"}
		}
		if !backoff.Sleep(ctx, pollEvery) {
			return record, err
		}
	}
}

// notTakenUp returns the error for an asset that a source may have and that is refused now.
func notTakenUp(name, refused string) *signal.RunError {
	err := &signal.RunError{Code: signal.DataUnavailable, Retryable: true}
	switch source.Refusal(refused) {
	case source.RefusedShare:
		err.RetryAfter = source.KeepUnused
		err.Message = "the account has its share of the assets of real sources: " + name + " is not added"
	case source.RefusedFull:
		err.RetryAfter, err.Message = source.FullFor, "real sources have too many assets: "+name+" is not added"
	default:
		err.RetryAfter, err.Message = source.SilentFor, "no source gives prices of "+name+" at the moment"
	}
	return err
}

// wantedName returns the symbol under which an asset is taken up.
func (m *Market) wantedName(name string) string {
	if k := assets.Find(name); k != nil {
		return k.Symbol
	}
	return m.key(name)
}

// mayHave reports whether a real source may have an asset of this name.
func (m *Market) mayHave(name string) bool {
	if k := assets.Find(name); k != nil {
		return !m.simulates || k.Class == assets.Crypto || k.Class == assets.Stock || k.Class == assets.Commodity
	}
	_, isCoin := source.CoinOf(name, "")
	return isCoin || source.IsTicker(assets.Fold(name))
}

// unknown returns the error of a run on an asset whose record could not be read because of err.
func (m *Market) unknown(name string, err error) *signal.RunError {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return e
	}
	if signal.KindOf(err) != signal.KindNotFound {
		return m.unreachable(err)
	}
	if m.simulates && assets.Find(name) != nil {
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: retryAfter, Passing: true,
			Message: "the simulated market is about to start"}
	}
	return &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + name}
}

// News returns the news of an asset since a time in milliseconds, oldest first. It waits until the
// stored news are read. If ctx ends before, the error is a *signal.RunError, DATA_UNAVAILABLE and
// retryable. The items are read-only.
func (m *Market) News(ctx context.Context, name string, since int64) ([]strategy.NewsItem, error) {
	select {
	case <-m.news.ready:
	case <-ctx.Done():
		return nil, m.unreachable(ctx.Err())
	}
	return m.news.since(m.key(name), since), nil
}
