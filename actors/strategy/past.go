package strategy

import (
	"cmp"
	"math"
	"slices"
)

// Constants of what the past shows of comparisons. Decision 34 has how they were chosen.
const (
	blockBars = 360 // bars of a block, by the clock
	minBlocks = 8   // with fewer nothing is measured
	// strengthGroups is the number of groups of strengths in a block, and groupBins that of bins
	// of each but the last one.
	strengthGroups = 2
	groupBins      = 8
	// slopePrior is the slope that is assumed before one is measured, and slopeError its
	// standard error.
	slopePrior = 0.25
	slopeError = 0.5
	// effectBlocks is the number of blocks that the design effect starts with.
	effectBlocks = 2
)

// sides is the number of strategies and directions, and blockCells that of cells in a block:
// first by strategy, then by direction, then by strength.
const (
	sides      = 2 * len(technicals)
	blockCells = sides * strengthGroups
)

// placeOf holds by bin the place of a cell among those of its strategy in a block.
var placeOf = func() (places [2 * strengthBins]uint8) {
	for bin := range places {
		group := min(bin%strengthBins/groupBins, strengthGroups-1)
		places[bin] = uint8(bin/strengthBins*strengthGroups + group)
	}
	return places
}()

// block counts the outcomes of the entries of a time.
type block struct {
	from  int64 // in milliseconds
	n     int32 // outcomes
	cells [blockCells]cell
}

// counts are the cells of a block at one risk level.
type counts [blockCells]count

// sides returns them by strategy and direction.
func (c *counts) sides() (sums [sides]count) {
	for i := range c {
		sums[i/strengthGroups] = sums[i/strengthGroups].plus(1, c[i])
	}
	return sums
}

// past holds the outcomes that a view counts in blocks of time.
type past struct {
	barTime int64   // from bar to bar, in milliseconds
	blocks  []block // ascending; none is empty
	last    int     // the index of the one to which the last outcome belonged

	counts []counts // of blocks, for the last evidence
	sides  [][sides]count
}

// add adds the outcome of a bar with the given strengths and directions sign times.
func (p *past) add(o *counted, bins *[len(technicals)]uint8, bar int64, sign int32) {
	b := p.blockOf(bar)
	for s, bin := range bins {
		b.cells[s*2*strengthGroups+int(placeOf[bin%(2*strengthBins)])].add(&o[bin/strengthBins%2].cell, sign)
	}
	if b.n += sign; b.n == 0 {
		p.blocks = slices.Delete(p.blocks, p.last, p.last+1)
	}
}

// blockOf returns the block of a bar, which may be new.
func (p *past) blockOf(bar int64) *block {
	width := blockBars * p.barTime
	if p.last < len(p.blocks) && uint64(bar-p.blocks[p.last].from) < uint64(width) {
		return &p.blocks[p.last] // as for most outcomes
	}
	from := bar / width * width
	i, found := slices.BinarySearchFunc(p.blocks, from, func(b block, from int64) int { return cmp.Compare(b.from, from) })
	if !found {
		p.blocks = slices.Insert(p.blocks, i, block{from: from})
	}
	p.last = i
	return &p.blocks[i]
}

// evidence is what the past shows of comparisons.
type evidence struct {
	weight float64 // how many independent entries one of all assets is worth
	both   float64 // the same where entries of both directions count together
	// slope is that of the share that closed in profit on the expected one, and error its
	// standard error; 0: not measured.
	slope, error float64
}

// kept returns how much of an expected difference is kept: the slope, shrunk towards the
// assumed one.
func (e evidence) kept() float64 {
	if e.error <= 0 {
		return slopePrior
	}
	x, y := 1/(e.error*e.error), 1/(slopeError*slopeError)
	return clip((x*e.slope+y*slopePrior)/(x+y), 0, 1)
}

// proven reports whether the slope is above 0 by two errors, even if it is shrunk towards 0:
// without that, those of few blocks would be proven by chance most often.
func (e evidence) proven() bool {
	return e.error > 0 && e.slope > 2*e.error*math.Hypot(1, e.error/slopeError)
}

// evidence returns that of the r-th risk level. overlapping is how many independent entries
// one of a single asset is worth.
func (p *past) evidence(r int, overlapping float64) evidence {
	p.count(r)
	one, both := p.designEffects(1 / overlapping)
	e := evidence{weight: 1 / one, both: 1 / both}
	e.slope, e.error = p.slope(e.weight)
	return e
}

// count counts the cells of the blocks at the r-th risk level.
func (p *past) count(r int) {
	p.counts, p.sides = slices.Grow(p.counts[:0], len(p.blocks)), slices.Grow(p.sides[:0], len(p.blocks))
	for i := range p.blocks {
		var c counts
		for j := range c {
			c[j] = p.blocks[i].cells[j].at(r)
		}
		p.counts, p.sides = append(p.counts, c), append(p.sides, c.sides())
	}
}

// deviations compares how far sums over blocks lie from what all blocks let expect with how far
// those of independent entries would.
type deviations struct{ seen, expected float64 }

// add adds the entries of a block, where share is that of all blocks.
func (x *deviations) add(c count, share float64) {
	if variance := share * (1 - share); variance > 0 { // without entries it is NaN
		off := c.won - share*c.n
		x.seen += off * off / variance
		x.expected += c.n
	}
}

// effect returns the design effect. It starts with that of a single asset, which is the least.
func (x *deviations) effect(single float64, blocks int) float64 {
	if x.expected == 0 {
		return single
	}
	start := effectBlocks * x.expected / float64(blocks)
	return max(single, (x.seen+start*single)/(x.expected+start))
}

// designEffects returns how many entries of a strategy are worth an independent one, where those
// of one direction count, and where those of both do: by how much more their sums over a block
// vary than those of independent ones, since assets move together and lives overlap. A move of
// the market helps one direction and harms the other, so that both together vary less.
func (p *past) designEffects(single float64) (one, both float64) {
	var sums [sides]count
	for i := range p.sides {
		for s := range sums {
			sums[s] = sums[s].plus(1, p.sides[i][s])
		}
	}
	var ones, boths deviations
	for s := 0; s < sides; s += 2 {
		long, short, all := sums[s].share(), sums[s+1].share(), sums[s].plus(1, sums[s+1]).share()
		for i := range p.sides {
			x, y := p.sides[i][s], p.sides[i][s+1]
			ones.add(x, long)
			ones.add(y, short)
			boths.add(x.plus(1, y), all)
		}
	}
	return ones.effect(single, len(p.blocks)), boths.effect(single, len(p.blocks))
}

// slope returns the slope of the shares of cells that closed in profit on those that the
// blocks before let expect, within each block, and its standard error, where a block counts
// as one observation. Both are 0 with too few blocks. The block next before is left out, since
// some of its entries had not ended.
func (p *past) slope(weight float64) (slope, err float64) {
	const delay = 2
	if len(p.blocks) < delay+minBlocks {
		return 0, 0
	}
	var before counts
	var squares, products, xx, xy, yy float64
	for i := delay; i < len(p.blocks); i++ {
		for j := range before {
			before[j] = before[j].plus(1, p.counts[i-delay][j])
		}
		x, y := p.counts[i].follows(&before, weight)
		squares, products = squares+x, products+y
		xx, xy, yy = xx+x*x, xy+x*y, yy+y*y
	}
	if squares <= 0 {
		return 0, 0
	}
	slope = products / squares
	return slope, math.Sqrt(max(0, yy-2*slope*xy+slope*slope*xx)) / squares
}

// follows returns the sums of squares and of products of what the cells of blocks before let
// expect of those of the block, and what they were, each less its mean over the block.
func (c *counts) follows(before *counts, weight float64) (squares, products float64) {
	of := before.sides()
	var all count
	for i := range of {
		all = all.plus(1, of[i])
	}
	var n, x, y float64
	for i := range of {
		strategy := of[i&^1].plus(1, of[i|1]).shrunk(weight, all.share())
		side := of[i].shrunk(weight, strategy)
		for j := i * strengthGroups; j < (i+1)*strengthGroups; j++ {
			expected := before[j].shrunk(weight, side)
			n, x, y = n+c[j].n, x+c[j].n*expected, y+c[j].won
			squares, products = squares+c[j].n*expected*expected, products+c[j].won*expected
		}
	}
	return squares - x*x/n, products - x*y/n
}
