package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Market provides prices and news. See market.Market.
type Market interface {
	// Series returns the closed bars of an asset and its last trade, or a
	// *signal.RunError.
	Series(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error)
	// News returns the news about an asset since a time in milliseconds.
	News(ctx context.Context, asset string, since int64) ([]strategy.NewsItem, error)
}

// Outcomes has how past entries of all assets ended, on all nodes. See outcomes.Service.
type Outcomes interface {
	// Pool returns the pool of a timeframe with all that counts at the close of a bar, a time
	// in milliseconds. It is another pool after the store has lost records.
	Pool(ctx context.Context, tf signal.Timeframe, closeTime int64) (*strategy.Pool, error)
	// Found stores an outcome of an asset, later. It does not wait.
	Found(tf signal.Timeframe, asset string, o strategy.Outcome)
}

const (
	// maxSeries bounds the number of kept series: each takes some 200 KB.
	maxSeries = 256
	// maxEvaluations bounds the evaluations kept of a series.
	maxEvaluations = 64
	// assessedBars is how many bars back a strategy looks.
	assessedBars = 1000
	// newsReach is the maximum age of a news item, in market time.
	newsReach = 7 * 24 * time.Hour
)

// trader is the trading agent. It keeps the series of earlier runs, so that a run only
// adds the bars that are new.
type trader struct {
	market   Market
	now      func() time.Time
	cost     func(class string) float64 // as in Options
	outcomes Outcomes                   // nil: each series has a pool of its own

	mu    sync.Mutex
	kept  map[seriesKey]*keptSeries
	clock uint64 // counts uses of kept
	limit int    // of kept
}

// seriesKey identifies a series by the asset's symbol, so that all spellings share one,
// and by the source and compression of its bars: bars of another source are never later
// bars of the same market, whatever their times.
type seriesKey struct {
	symbol      string
	timeframe   signal.Timeframe
	source      string
	compression float64
}

// outcomeKey returns the key of the asset in a pool.
func (k *seriesKey) outcomeKey() string {
	return strategy.OutcomeKey(k.source, k.compression, k.symbol)
}

// seriesKeyOf returns the key of a snapshot's series.
func seriesKeyOf(seen *market.Snapshot, tf signal.Timeframe) seriesKey {
	return seriesKey{seen.Asset.Symbol, tf, seen.Source, seen.Compression}
}

func newTrader(m Market, now func() time.Time, cost func(class string) float64) *trader {
	return &trader{market: m, now: now, cost: cost, kept: make(map[seriesKey]*keptSeries), limit: maxSeries}
}

// Evaluate implements evaluator. The lifetime counts only while the asset is traded.
func (t *trader) Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error) {
	seen, err := t.market.Series(ctx, r.Asset, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	e, err := t.evaluate(ctx, r, &seen)
	e.Lifetime = seen.Lifetime(t.now(), e.Lifetime, r.Timeframe)
	return e, err
}

// evaluate evaluates a request on the given prices.
func (t *trader) evaluate(ctx context.Context, r *signal.RunRequest, seen *market.Snapshot) (evaluation, error) {
	kept, series, state, err := t.follow(ctx, seen, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	if r.Strategy == strategy.Sentiment {
		return t.sentiment(ctx, r, seen, series)
	}
	a, err := series.Assess(r.Strategy, r.Risk)
	if err != nil {
		return evaluation{}, err
	}
	return t.once(kept, r, seen, a, state)
}

// follow returns the series of a snapshot's asset, up to date, and its state.
func (t *trader) follow(ctx context.Context, seen *market.Snapshot, tf signal.Timeframe) (
	kept *keptSeries, series *strategy.Series, state uint64, err error) {
	key := seriesKeyOf(seen, tf)
	pool, err := t.pool(ctx, seen, tf)
	if err != nil {
		return nil, nil, 0, err
	}
	kept = t.series(key)
	series, state, err = kept.follow(seen, pool, func() *strategy.Series {
		fresh := strategy.NewSeries(tf).WithTick(seen.Asset.TickSize)
		if pool != nil {
			asset := key.outcomeKey()
			fresh.InPool(pool, asset, func(o strategy.Outcome) { t.outcomes.Found(tf, asset, o) })
		}
		return fresh
	})
	return kept, series, state, err
}

// pool returns the pool that counts at the end of a snapshot's bars, or nil for a pool of
// the series' own.
func (t *trader) pool(ctx context.Context, seen *market.Snapshot, tf signal.Timeframe) (*strategy.Pool, error) {
	if t.outcomes == nil {
		return nil, nil
	}
	pool, err := t.outcomes.Pool(ctx, tf, seen.Bars[len(seen.Bars)-1].CloseTime)
	if err != nil {
		return nil, &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Passing: true,
			Message: "the outcomes of past entries cannot be read at the moment", Cause: err}
	}
	return pool, nil
}

// sentiment is evaluate for the strategy that reads news.
func (t *trader) sentiment(ctx context.Context, r *signal.RunRequest, seen *market.Snapshot,
	series *strategy.Series) (evaluation, error) {
	oldest := seen.Bars[max(0, len(seen.Bars)-assessedBars)].OpenTime
	news, err := t.market.News(ctx, r.Asset, newsSince(oldest, seen))
	if err != nil {
		return evaluation{}, err
	}
	a, err := series.AssessSentiment(news, r.Risk, t.now().UnixMilli())
	if err != nil {
		return evaluation{}, err
	}
	return t.complete(r, seen, a)
}

// newsSince returns the time from which on news count for a bar that opened at oldest.
func newsSince(oldest int64, seen *market.Snapshot) int64 {
	return oldest - int64(float64(newsReach.Milliseconds())/max(1, seen.Compression))
}

// complete completes an assessment with levels at the last price, and metadata.
func (t *trader) complete(r *signal.RunRequest, seen *market.Snapshot, a strategy.Assessment) (evaluation, error) {
	e, err := a.Evaluate(originOf(r.Asset, seen, t.cost(seen.Asset.Class)), seen.Last.Price)
	if err != nil {
		return evaluation{}, err
	}
	return evaluation{Direction: e.Direction, Confidence: e.Confidence, Levels: &e.Levels, Metadata: e.Metadata,
		Lifetime: e.Lifetime}, nil
}

// originOf returns the origin of the prices of a snapshot.
func originOf(asset string, seen *market.Snapshot, cost float64) strategy.Origin {
	return strategy.Origin{Asset: asset, Tick: seen.Asset.TickSize, Source: seen.Source, Proxy: seen.Proxy,
		Compression: seen.Compression, Cost: cost}
}

// series returns the series kept under key, or a new one.
func (t *trader) series(key seriesKey) *keptSeries {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	k := t.kept[key]
	if k == nil {
		if len(t.kept) >= t.limit {
			t.dropOldest()
		}
		k = &keptSeries{evaluations: make(map[evaluationKey]evaluation)}
		t.kept[key] = k
	}
	k.used = t.clock
	return k
}

// dropOldest drops the least recently used series. Runs that hold it continue with it.
func (t *trader) dropOldest() {
	var oldest seriesKey
	used := t.clock
	for key, k := range t.kept {
		if k.used <= used {
			oldest, used = key, k.used
		}
	}
	delete(t.kept, oldest)
}

// keptSeries follows the bars of one asset and timeframe.
type keptSeries struct {
	used uint64 // guarded by trader.mu

	mu     sync.Mutex
	series *strategy.Series
	bars   []marketdata.Bar // those of series; read-only
	tick   float64
	pool   *strategy.Pool // of series; nil: its own
	state  uint64         // counts the changes of series

	// The evaluations in this state, which depend on the bars and the key alone.
	evaluations map[evaluationKey]evaluation
}

// evaluationKey holds what an evaluation depends on beside the bars and their source.
type evaluationKey struct {
	asset, strategy string
	risk            signal.RiskLevel
	price           float64
}

// follow brings the series up to date with a snapshot and a pool and returns it with its
// state. A snapshot older than that of another run changes nothing. fresh returns an empty
// series.
func (k *keptSeries) follow(seen *market.Snapshot, pool *strategy.Pool, fresh func() *strategy.Series) (
	*strategy.Series, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.series != nil && k.tick == seen.Asset.TickSize && k.pool == pool {
		if sameBars(k.bars, seen.Bars) || older(seen.Bars, k.bars) {
			return k.series, k.state, nil
		}
		if continues(k.bars, seen.Bars) {
			err := k.sync(seen)
			return k.series, k.state, err
		}
	}
	// The series is new, or earlier bars have changed, which invalidates its outcomes.
	k.series, k.tick, k.pool = fresh(), seen.Asset.TickSize, pool
	err := k.sync(seen)
	return k.series, k.state, err
}

// sync adds the new bars to the series. After an error the next run begins a new series.
func (k *keptSeries) sync(seen *market.Snapshot) error {
	k.state++
	clear(k.evaluations)
	if err := k.series.Sync(seen.Bars); err != nil {
		k.series, k.bars = nil, nil
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true,
			Message: "the source gave bars that are not possible", Cause: err}
	}
	k.bars = seen.Bars
	return nil
}

// sameBars reports whether a and b are the same slice.
func sameBars(a, b []marketdata.Bar) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// older reports whether a ends before b.
func older(a, b []marketdata.Bar) bool {
	return len(a) > 0 && len(b) > 0 && a[len(a)-1].OpenTime < b[len(b)-1].OpenTime
}

// continues reports whether bars repeat the known ones, except the last, and go on from
// there.
func continues(known, bars []marketdata.Bar) bool {
	if len(known) == 0 || len(bars) == 0 {
		return false
	}
	from, found := slices.BinarySearchFunc(known, bars[0].OpenTime, func(b marketdata.Bar, t int64) int {
		return cmp.Compare(b.OpenTime, t)
	})
	if !found {
		return false
	}
	last := len(known) - 1
	n := last - from
	return len(bars) > n && slices.Equal(known[from:last], bars[:n]) && bars[n].OpenTime == known[last].OpenTime
}

// once is complete with a cache: in a busy moment many runs ask the same. a was made by
// the series of k in the given state, or in a later one.
func (t *trader) once(k *keptSeries, r *signal.RunRequest, seen *market.Snapshot, a strategy.Assessment,
	state uint64) (evaluation, error) {
	key := evaluationKey{r.Asset, r.Strategy, r.Risk, seen.Last.Price}
	k.mu.Lock()
	e, ok := k.evaluations[key]
	ok = ok && k.state == state
	k.mu.Unlock()
	if ok {
		return e, nil
	}
	e, err := t.complete(r, seen, a)
	if err != nil {
		return evaluation{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == state { // else a may be of another state
		if len(k.evaluations) >= maxEvaluations {
			clear(k.evaluations)
		}
		k.evaluations[key] = e
	}
	return e, nil
}
