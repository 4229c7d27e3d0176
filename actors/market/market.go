package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
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
	Assets *AssetList
	Alerts *Alerting

	o      Options
	log    *slog.Logger
	loader *loader
	recent *recentTicks
	news   *newsIndex
	ticks  [tickStreams]*tickReader
	bars   *barReader
	use    *useRecorder
}

// New returns a Market whose actors live in sys.
func New(sys *engine.System, o Options) *Market {
	o.Sources, o.Speed = cmp.Or(o.Sources, simulated.Name), cmp.Or(o.Speed, 60)
	o.TakeUp = cmp.Or(o.TakeUp, takeUpTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	log := o.Log.With("component", "market")
	sources, _ := source.ParseSources(o.Sources) // the feeder reports errors
	names, watches, recent, news := newNames(sources), newWatches(), newRecentTicks(), newNewsIndex(o.Speed)
	newActor := func() engine.Actor {
		return &supervisor{o: &o, watches: watches, recent: recent, ending: sys.Ending}
	}
	l := &loader{names: names, store: o.Store, watches: watches, takeUp: o.TakeUp,
		parent: sys.Spawn(engine.Market, "market", newActor, engine.Supervision{})}
	m := &Market{
		Assets: &AssetList{names: names, store: o.Store, watches: watches, now: o.Now},
		Alerts: &Alerting{system: sys, loader: l, recent: recent},
		o:      o, log: log, loader: l, recent: recent, news: news,
		bars: &barReader{store: o.Store, watches: watches, news: news, simulates: names.simulates},
		use:  &useRecorder{store: o.Store, names: names, watches: watches, now: o.Now, log: log},
	}
	for _, stream := range []marketdata.TickStream{marketdata.GivenTicks, marketdata.OwnTicks} {
		m.ticks[stream] = &tickReader{stream: stream, store: o.Store, watches: watches, recent: recent, log: log}
	}
	return m
}

// Run reads ticks, closed bars and news and passes them to the assets' actors until ctx ends. After
// an outage of Redis it has all bars read again.
func (m *Market) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for name, r := range map[string]*tickReader{
		"given ticks": m.ticks[marketdata.GivenTicks], "own ticks": m.ticks[marketdata.OwnTicks],
	} {
		loops.Go(func() { r.reading.follow(ctx, m.log, name, r.read) })
	}
	loops.Go(func() { m.bars.reading.follow(ctx, m.log, "closed", m.bars.read) })
	if m.loader.names.real {
		loops.Go(func() { m.use.run(ctx) })
	}
	loops.Wait()
	return nil
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
		w, frame, err := m.loader.watched(ctx, name, tf)
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

// snapshot returns a snapshot of what the actor of w published, if it is recent enough.
func (m *Market) snapshot(w *watch, frame int) (Snapshot, error) {
	record, last, tf := w.record.Load(), w.last.Load(), signal.Timeframes[frame]
	bars, err := w.published(frame)
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
	given, own := m.ticks[marketdata.GivenTicks], m.ticks[marketdata.OwnTicks]
	if !given.reading.current() || !own.reading.current() || !m.bars.reading.current() {
		return unreachable(nil)
	}
	err := &signal.RunError{Code: signal.StaleData, Retryable: true,
		Message: fmt.Sprintf(format, what, record.Symbol, age.Round(time.Second))}
	if record.Source == simulated.Name {
		err.Cause, err.Passing = errStopped, true
	}
	return err
}

// History is Series for bars of any age. Last is the close of the newest bar.
func (m *Market) History(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	w, frame, err := m.loader.watched(ctx, name, tf)
	if err != nil {
		return Snapshot{}, err
	}
	record := w.record.Load()
	bars, err := w.published(frame)
	if err != nil {
		return Snapshot{}, err
	}
	return newSnapshot(record, bars), nil
}

// News returns the news of an asset since a time in milliseconds, oldest first. It waits until the
// stored news are read. If ctx ends before, the error is a *signal.RunError, DATA_UNAVAILABLE and
// retryable. The items are read-only.
func (m *Market) News(ctx context.Context, name string, since int64) ([]strategy.NewsItem, error) {
	select {
	case <-m.news.ready:
	case <-ctx.Done():
		return nil, unreachable(ctx.Err())
	}
	return m.news.since(m.loader.names.key(name), since), nil
}
