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
	Bar  int64                  // the open time of the bar in milliseconds
	At   int64                  // the time from which it is known: at first that of the last end
	Bins [len(technicals)]uint8 // the strength of each strategy's score in tenths
	Won  [len(technicals)]uint8 // bit r: the entry at the r-th risk level closed in profit
}

// Pool holds the outcomes of all assets of one timeframe. It may be used from several
// goroutines.
type Pool struct {
	keep int // of an asset; 0: all

	mu sync.Mutex
	of map[string]*outcomes
}

// outcomes are those of one asset, by bar and by the time from which they are known.
type outcomes struct {
	kept    []Outcome
	dropped int // the number of older ones that were removed
}

// NewPool returns an empty pool that keeps at least the newest outcomes of each asset, or
// all if keep is 0.
func NewPool(keep int) *Pool { return &Pool{keep: keep, of: make(map[string]*outcomes)} }

// Add adds an outcome of an asset, unless there is one of the same or of a later bar.
func (p *Pool) Add(asset string, added Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[asset]
	if o == nil {
		if len(p.of) >= maxPooled {
			return
		}
		o = &outcomes{}
		p.of[asset] = o
	}
	if n := len(o.kept); n > 0 {
		if o.kept[n-1].Bar >= added.Bar {
			return
		}
		added.At = max(added.At, o.kept[n-1].At)
	}
	o.kept = append(o.kept, added)
	if n := len(o.kept) - p.keep; p.keep > 0 && n >= outcomeSlack {
		o.kept, o.dropped = slices.Delete(o.kept, 0, n), o.dropped+n
	}
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
	positions map[string]span
	all, mine tallies
}

// span is the range of an asset's outcomes that count, from the first one ever.
type span struct{ from, to int }

// advance counts what is known at a time in milliseconds.
func (v *view) advance(at int64) {
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	if at < v.at || v.positions == nil {
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
	v.positions = make(map[string]span, len(v.pool.of))
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
	o := Outcome{Bar: s.bars[j].OpenTime, At: s.bars[j+s.longest()].CloseTime}
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
			s.found(o)
		}
	}
	s.view.advance(s.last.Bar.CloseTime)
}
