package strategy

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// MaxOutcomes is the number of outcomes of an asset and timeframe that count: the
	// newest. Fewer carry no information about the next ones, more add little
	// (deploy/decisions/0034-pooled-outcomes.md).
	MaxOutcomes = 5000
	// MaxPooled is the number of outcomes of all assets that count: the newest.
	MaxPooled = 150_000
	// outcomeSlack is the number of older ones that are kept until they are dropped at
	// once.
	outcomeSlack = 1000
	// outcomeLag is the time in milliseconds by the clock for which an outcome does not
	// count, so that all nodes have it when it does.
	outcomeLag = 60_000
)

// Outcome records how the entries of the technical strategies at the close of one bar
// ended.
type Outcome = marketdata.Outcome

// OutcomeKey returns the key of an asset in a Pool. Prices of another source, or at
// another speed, are those of another market.
func OutcomeKey(source string, compression float64, symbol string) string {
	return source + "*" + strconv.FormatFloat(max(1, compression), 'f', -1, 64) + "/" + symbol
}

// KnownAt returns the time up to which outcomes must be stored to count at the close of a
// bar, both in milliseconds.
func KnownAt(closeTime int64) int64 { return closeTime - outcomeLag }

// Pool holds the outcomes of all assets of one timeframe. It may be used from several
// goroutines.
type Pool struct {
	keep int // of all assets; 0: all

	mu    sync.Mutex
	of    map[string]*outcomes
	added int64   // the number of outcomes ever added
	kept  int     // of all assets
	ends  []int64 // of a replayed pool: the ends of the outcomes that it began with, ascending
}

// outcomes are those of one asset, by bar and by the time from which they are known.
type outcomes struct {
	kept    []numbered
	dropped int // the number of older ones that were removed
}

// numbered is an outcome and its number among all that were added to its pool. Outcomes that
// a backtest adds have the number of the last one that ended before.
type numbered struct {
	Outcome
	number int64
}

// NewPool returns an empty pool that keeps at least the newest outcomes, or all if keep
// is 0.
func NewPool(keep int) *Pool { return &Pool{keep: keep, of: make(map[string]*outcomes)} }

// Add adds an outcome of an asset, unless there is one of the same or of a later bar.
func (p *Pool) Add(asset string, added Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[asset]
	if o == nil {
		o = &outcomes{}
		p.of[asset] = o
	}
	if n := len(o.kept); n > 0 {
		if o.kept[n-1].Bar >= added.Bar {
			return
		}
		added.At = max(added.At, o.kept[n-1].At)
	}
	p.added++
	p.kept++
	number := p.added
	if p.ends != nil {
		number = int64(sort.Search(len(p.ends), func(i int) bool { return p.ends[i] > added.At }))
	}
	o.kept = append(o.kept, numbered{added, number})
	if p.keep > 0 && p.kept >= p.keep+outcomeSlack {
		p.drop(p.added - int64(p.keep))
	}
}

// drop drops the outcomes up to a number.
func (p *Pool) drop(upTo int64) {
	for _, o := range p.of {
		n := sort.Search(len(o.kept), func(i int) bool { return o.kept[i].number > upTo })
		o.kept, o.dropped, p.kept = slices.Delete(o.kept, 0, n), o.dropped+n, p.kept-n
	}
}

// Newest returns the open time of the newest bar of an asset with an outcome, or 0.
func (p *Pool) Newest(asset string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.of[asset]; o != nil && len(o.kept) > 0 {
		return o.kept[len(o.kept)-1].Bar
	}
	return 0
}

// Known returns how many outcomes are known at the close of a bar, a time in milliseconds.
func (p *Pool) Known(closeTime int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, o := range p.of {
		n += sort.Search(len(o.kept), func(i int) bool { return o.kept[i].At > KnownAt(closeTime) })
	}
	return n
}

// Replayed returns the pool for a backtest over bars of an asset: a copy in which outcomes
// count from their end, whenever they were stored, without those of the asset that the bars
// yield themselves.
func (p *Pool) Replayed(asset string, bars []marketdata.Bar) *Pool {
	from := firstScored(bars)
	type named struct {
		asset string
		Outcome
	}
	p.mu.Lock()
	all := make([]named, 0, p.kept)
	for name, o := range p.of {
		for _, x := range o.kept {
			if name != asset || x.Bar < from {
				x.At = x.Ended
				all = append(all, named{name, x.Outcome})
			}
		}
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(x, y named) int {
		return cmp.Or(cmp.Compare(x.Ended, y.Ended), cmp.Compare(x.Bar, y.Bar), cmp.Compare(x.asset, y.asset))
	})
	replayed, ends := NewPool(0), make([]int64, len(all))
	for i := range all {
		replayed.Add(all[i].asset, all[i].Outcome)
		ends[i] = all[i].Ended
	}
	replayed.ends = ends
	return replayed
}

// firstScored returns the open time of the first of bars that a series of them scores, or
// math.MaxInt64.
func firstScored(bars []marketdata.Bar) int64 {
	if len(bars) > warmUp {
		return bars[warmUp].OpenTime
	}
	return math.MaxInt64
}
