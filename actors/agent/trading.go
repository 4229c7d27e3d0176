package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Market says what assets cost, and what is reported of them. See market.Market.
type Market interface {
	// Series returns the closed bars of an asset and its last trade, or a
	// *signal.RunError.
	Series(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error)
	// News returns what was reported since a time in milliseconds.
	News(ctx context.Context, asset string, since int64) ([]strategy.NewsItem, error)
}

const (
	// maxSeries bounds how many series are kept: some 200 KB each.
	maxSeries = 256
	// maxMemories bounds the evaluations kept of a series.
	maxMemories = 64
	// assessedBars is how many bars back a strategy looks.
	assessedBars = 1000
	// newsReach is the longest time, of the market, for which a message counts.
	newsReach = 7 * 24 * time.Hour
)

// trader is the trading agent. It keeps the series that it was asked for, so that a
// run costs a look at what has changed.
type trader struct {
	market Market
	now    func() time.Time

	mu    sync.Mutex
	kept  map[seriesKey]*keptSeries
	clock uint64 // counts uses of kept
	limit int    // of kept
}

// seriesKey names a series by the asset's symbol, so that all spellings share one,
// and by who gives its bars at which compression: those of another source are no
// later bars of the same market, whatever their times say.
type seriesKey struct {
	symbol      string
	timeframe   signal.Timeframe
	source      string
	compression float64
}

func newTrader(m Market, now func() time.Time) *trader {
	return &trader{market: m, now: now, kept: make(map[seriesKey]*keptSeries), limit: maxSeries}
}

// Evaluate implements evaluator. Time counts while the asset is traded.
func (t *trader) Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error) {
	seen, err := t.market.Series(ctx, r.Asset, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	c, err := t.assess(ctx, r, seen)
	c.Lifetime = seen.Lifetime(t.now(), c.Lifetime, r.Timeframe)
	return c, err
}

// assess is Evaluate with the prices that were seen.
func (t *trader) assess(ctx context.Context, r *signal.RunRequest, seen market.Snapshot) (evaluation, error) {
	kept := t.series(seriesKey{seen.Asset.Symbol, r.Timeframe, seen.Source, seen.Compression})
	series, state, err := kept.follow(&seen, r.Timeframe)
	if err != nil {
		return evaluation{}, err
	}
	if r.Strategy == strategy.Sentiment {
		return t.sentiment(ctx, r, &seen, series)
	}
	a, err := series.Assess(r.Strategy, r.Risk)
	if err != nil {
		return evaluation{}, err
	}
	return kept.evaluate(r, &seen, a, state)
}

// sentiment is Evaluate for the strategy that reads news.
func (t *trader) sentiment(ctx context.Context, r *signal.RunRequest, seen *market.Snapshot, series *strategy.Series) (evaluation, error) {
	oldest := seen.Bars[max(0, len(seen.Bars)-assessedBars)].OpenTime
	reach := float64(newsReach.Milliseconds()) / max(1, seen.Compression)
	news, err := t.market.News(ctx, r.Asset, oldest-int64(reach))
	if err != nil {
		return evaluation{}, err
	}
	a, err := series.AssessSentiment(news, r.Risk, t.now().UnixMilli())
	if err != nil {
		return evaluation{}, err
	}
	return describe(r, seen, a)
}

// describe completes an assessment with levels at the last price, and words.
func describe(r *signal.RunRequest, seen *market.Snapshot, a strategy.Assessment) (evaluation, error) {
	c, err := a.Evaluate(originOf(r.Asset, seen), seen.Last.Price)
	if err != nil {
		return evaluation{}, err
	}
	return evaluation{Direction: c.Direction, Confidence: c.Confidence, Levels: &c.Levels, Metadata: c.Metadata, Lifetime: c.Lifetime}, nil
}

// originOf returns what a signal says of where its prices come from.
func originOf(asset string, seen *market.Snapshot) strategy.Origin {
	return strategy.Origin{Asset: asset, Tick: seen.Asset.TickSize, Source: seen.Source, Proxy: seen.Proxy, Compression: seen.Compression}
}

// series returns the series kept under key, a new one if there is none.
func (t *trader) series(key seriesKey) *keptSeries {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	k := t.kept[key]
	if k == nil {
		if len(t.kept) >= t.limit {
			t.dropOldest()
		}
		k = &keptSeries{memories: make(map[memoryKey]evaluation)}
		t.kept[key] = k
	}
	k.used = t.clock
	return k
}

// dropOldest forgets the series whose last use lies farthest back. Runs that hold it
// go on with it.
func (t *trader) dropOldest() {
	var oldest seriesKey
	least := t.clock
	for key, k := range t.kept {
		if k.used <= least {
			oldest, least = key, k.used
		}
	}
	delete(t.kept, oldest)
}

// keptSeries follows the bars of one asset and timeframe.
type keptSeries struct {
	used uint64 // guarded by trader.mu

	mu     sync.Mutex
	series *strategy.Series
	bars   []marketdata.Bar // that series has been given; nobody changes them
	tick   float64
	state  uint64 // counts the changes of series

	// Evaluations in this state: they follow from the bars and the key alone.
	memories map[memoryKey]evaluation
}

// memoryKey is what a evaluation depends on beside the bars and their source.
type memoryKey struct {
	asset, strategy string
	risk            signal.RiskLevel
	price           float64
}

// follow brings the series up to what was seen and returns it with its state. A
// snapshot that is older than what another run has brought already changes nothing.
func (k *keptSeries) follow(seen *market.Snapshot, tf signal.Timeframe) (*strategy.Series, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.series != nil && k.tick == seen.Asset.TickSize {
		if sameBars(k.bars, seen.Bars) || older(seen.Bars, k.bars) {
			return k.series, k.state, nil
		}
		if continues(k.bars, seen.Bars) {
			err := k.sync(seen)
			return k.series, k.state, err
		}
	}
	// The first time, or the past has changed: outcomes that were counted do not hold.
	k.series, k.tick = strategy.NewSeries(tf).WithTick(seen.Asset.TickSize), seen.Asset.TickSize
	err := k.sync(seen)
	return k.series, k.state, err
}

// sync gives the series what is new. After an error it begins anew with the next run.
func (k *keptSeries) sync(seen *market.Snapshot) error {
	k.state++
	clear(k.memories)
	if err := k.series.Sync(seen.Bars); err != nil {
		k.series, k.bars = nil, nil
		return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: "the source gave bars that are not possible", Cause: err}
	}
	k.bars = seen.Bars
	return nil
}

// sameBars says that a and b are the same slice.
func sameBars(a, b []marketdata.Bar) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// older says that a ends before b.
func older(a, b []marketdata.Bar) bool {
	return len(a) > 0 && len(b) > 0 && a[len(a)-1].OpenTime < b[len(b)-1].OpenTime
}

// continues says that bars repeats what was known before, but for the last bar, and
// goes on from there.
func continues(known, bars []marketdata.Bar) bool {
	if len(known) == 0 || len(bars) == 0 {
		return false
	}
	from, found := slices.BinarySearchFunc(known, bars[0].OpenTime, func(b marketdata.Bar, t int64) int {
		switch {
		case b.OpenTime < t:
			return -1
		case b.OpenTime > t:
			return 1
		}
		return 0
	})
	if !found {
		return false
	}
	common := known[from : len(known)-1]
	return len(bars) > len(common) && slices.Equal(common, bars[:len(common)]) && bars[len(common)].OpenTime == known[len(known)-1].OpenTime
}

// evaluate is describe with a memory: in a busy moment many runs ask the same. a was
// made by the series in the given state, or in a later one.
func (k *keptSeries) evaluate(r *signal.RunRequest, seen *market.Snapshot, a strategy.Assessment, state uint64) (evaluation, error) {
	key := memoryKey{r.Asset, r.Strategy, r.Risk, seen.Last.Price}
	k.mu.Lock()
	c, ok := k.memories[key]
	ok = ok && k.state == state
	k.mu.Unlock()
	if ok {
		return c, nil
	}
	c, err := describe(r, seen, a)
	if err != nil {
		return evaluation{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == state { // else a may belong to neither
		if len(k.memories) >= maxMemories {
			clear(k.memories)
		}
		k.memories[key] = c
	}
	return c, nil
}
