package strategy

import (
	"math"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// MaxOutcomes is the number of outcomes of an asset and timeframe that count. Fewer
	// carry no information about the next ones, more add little
	// (deploy/decisions/0034-pooled-outcomes.md).
	MaxOutcomes = 5000
	// outcomeSlack is the number of older ones that are kept until they are dropped at
	// once.
	outcomeSlack = 1000
	// maxPooled is the number of assets of a pool; the outcomes of others do not count.
	maxPooled = 400
	// outcomeLag is the time in milliseconds for which an outcome does not count, so that
	// all nodes have it when it does.
	outcomeLag = 60_000
	// strengthBins and binWidth divide the strengths of scores; the last bin is open.
	strengthBins = 32
	binWidth     = 0.1
)

// Outcome records how the entries of the technical strategies at the close of one bar
// ended. It never changes.
type Outcome struct {
	At   int64                  // when the last of them had ended, in milliseconds
	Bins [len(technicals)]uint8 // the strength of each strategy's score in tenths
	Won  [len(technicals)]uint8 // bit r: the entry at the r-th risk level closed in profit
}

// Pool holds the outcomes of all assets of one timeframe. It may be used from several
// goroutines.
type Pool struct {
	mu sync.Mutex
	of map[string]*outcomes
	// inserted counts outcomes that were added before others, which views have to count
	// again.
	inserted int
}

// outcomes are those of one asset, by time.
type outcomes struct {
	kept    []Outcome
	dropped int // the number of older ones that were removed
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{of: make(map[string]*outcomes)} }

// Add adds outcomes of an asset and returns how many of them are new.
func (p *Pool) Add(asset string, added ...Outcome) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[asset]
	if o == nil {
		if len(p.of) >= maxPooled {
			return 0
		}
		o = &outcomes{}
		p.of[asset] = o
	}
	count := 0
	for _, x := range added {
		i, found := len(o.kept), false
		if i > 0 && o.kept[i-1].At >= x.At {
			i, found = o.find(x.At)
			if found || i == 0 && o.dropped > 0 {
				continue
			}
			p.inserted++
		}
		o.kept = slices.Insert(o.kept, i, x)
		count++
	}
	if n := len(o.kept) - MaxOutcomes; n >= outcomeSlack {
		o.kept, o.dropped = slices.Delete(o.kept, 0, n), o.dropped+n
	}
	return count
}

// Since returns the outcomes of an asset after a time.
func (p *Pool) Since(asset string, at int64) []Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[asset]
	if o == nil {
		return nil
	}
	i, _ := o.find(at + 1)
	return slices.Clone(o.kept[i:])
}

// find returns the index of the first outcome at or after a time, and whether it is at
// that time.
func (o *outcomes) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(o.kept, at, func(x Outcome, at int64) int {
		switch {
		case x.At < at:
			return -1
		case x.At > at:
			return 1
		}
		return 0
	})
}

// count is a number of entries and how many of them closed in profit.
type count struct{ n, won float64 }

// share returns the share that closed in profit, NaN without entries.
func (c count) share() float64 { return c.won / c.n }

// shrunk returns the share, shrunk towards another one. d discounts the entries.
func (c count) shrunk(d, towards float64) float64 {
	return (d*c.won + kappa*towards) / (d*c.n + kappa)
}

// tally counts entries of one strategy and risk level by the strength of their scores.
type tally struct {
	bins [strengthBins]count
	all  count
}

// near returns the weighted count of the entries with a strength similar to that of bin.
func (t *tally) near(bin uint8) count {
	var c count
	for i := range t.bins {
		w := kernel[max(i, int(bin))-min(i, int(bin))]
		c.n += w * t.bins[i].n
		c.won += w * t.bins[i].won
	}
	return c
}

// kernel holds the weights of entries by their distance in bins.
var kernel = func() (k [strengthBins]float64) {
	for i := range k {
		x := float64(i) * binWidth / kernelWidth
		k[i] = math.Exp(-0.5 * x * x)
	}
	return k
}()

// binOf returns the bin of a strength.
func binOf(strength float64) uint8 { return uint8(min(strength/binWidth, strengthBins-1)) }

// tallies holds a tally for each strategy and risk level.
type tallies [len(technicals)][3]tally

// add counts an outcome sign times.
func (t *tallies) add(o *Outcome, sign float64) {
	for s := range t {
		for r := range t[s] {
			x := &t[s][r]
			won := sign * float64(o.Won[s]>>r&1)
			x.bins[o.Bins[s]].n += sign
			x.bins[o.Bins[s]].won += won
			x.all.n += sign
			x.all.won += won
		}
	}
}

// view counts the outcomes of a pool that are known at a time, which moves forward.
type view struct {
	pool *Pool
	own  string // the asset whose outcomes count on their own as well

	at        int64
	inserted  int
	positions map[string]span
	all, mine tallies
}

// span is the range of an asset's outcomes that count, from the first one ever.
type span struct{ from, to int }

// advance counts what is known at a time in milliseconds.
func (v *view) advance(at int64) {
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	if at < v.at || v.inserted != v.pool.inserted || v.positions == nil {
		v.restart()
	}
	for asset, o := range v.pool.of {
		if p := v.positions[asset]; p.from < o.dropped && p.to > p.from {
			v.restart() // what was dropped cannot be subtracted
			break
		}
	}
	v.at = at
	for asset, o := range v.pool.of {
		p := v.positions[asset]
		if p.to == p.from {
			p = span{o.dropped, o.dropped}
		}
		for ; p.to-o.dropped < len(o.kept) && o.kept[p.to-o.dropped].At <= at-outcomeLag; p.to++ {
			v.add(asset, &o.kept[p.to-o.dropped], 1)
		}
		for ; p.to-p.from > MaxOutcomes; p.from++ {
			v.add(asset, &o.kept[p.from-o.dropped], -1)
		}
		v.positions[asset] = p
	}
}

func (v *view) restart() {
	v.all, v.mine = tallies{}, tallies{}
	v.positions, v.inserted = make(map[string]span, len(v.pool.of)), v.pool.inserted
}

func (v *view) add(asset string, o *Outcome, sign float64) {
	v.all.add(o, sign)
	if asset == v.own {
		v.mine.add(o, sign)
	}
}

// outcomeAt returns the outcome of bar j, whose entries at all risk levels are resolved,
// or false if the bar has no score.
func (s *Series) outcomeAt(j int) (Outcome, bool) {
	p := &s.history[j]
	if !p.scored {
		return Outcome{}, false
	}
	o := Outcome{At: s.bars[j+s.longest()].CloseTime}
	for t, score := range p.scores {
		o.Bins[t] = binOf(math.Abs(score))
		for r := range s.outcomes {
			if s.outcomes[r][j].of(directionOf(score, p.belowMean)) > 0 {
				o.Won[t] |= 1 << r
			}
		}
	}
	return o, true
}

// longest returns the greatest horizon over all risk levels.
func (s *Series) longest() int { return Horizon(s.tf, signal.HighRisk) }

// pool adds the outcomes that are new to the pool. Those that the last bar decided wait
// for the next one, since the last bar may be replaced.
func (s *Series) pool() {
	for ; s.pooled+s.longest() < len(s.bars)-1; s.pooled++ {
		if o, ok := s.outcomeAt(s.pooled); ok {
			s.view.pool.Add(s.view.own, o)
		}
	}
	s.view.advance(s.last.Bar.CloseTime)
}
