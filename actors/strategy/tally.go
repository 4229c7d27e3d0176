package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// strengthBins and binWidth divide the strengths of scores; the last bin is open.
const (
	strengthBins = 32
	binWidth     = 0.1
)

// cell counts entries and, for each risk level, how many of them closed in profit. To be added
// fast, the four counts share two words: in the lower halves there are all entries and those that
// won at the second level, in the upper ones those that won at the first and at the third.
type cell [2]uint64

// cellOf returns an entry with the given results by risk level.
func cellOf(results *[3]int8) cell {
	var won [3]uint64
	for r, x := range results {
		won[r] = uint64(-int64(x)) >> 63 // 1 above 0; a branch would be taken at random
	}
	return cell{1 | won[0]<<32, won[1] | won[2]<<32}
}

// add adds the entries of another cell sign times.
func (c *cell) add(x *cell, sign int32) {
	c[0] += x[0] * uint64(sign)
	c[1] += x[1] * uint64(sign)
}

// at returns the entries at the r-th risk level.
func (c *cell) at(r int) count {
	won := c[(r+1)/2] >> (32 * ((r + 1) % 2))
	return count{float64(uint32(c[0])), float64(uint32(won))}
}

// tally counts entries of one strategy by direction and strength.
type tally [2 * strengthBins]cell

// comparable returns the entries that compare with one at the r-th risk level with a strength and
// direction of bin: all, those of the direction, and the weighted ones of a similar strength.
func (t *tally) comparable(bin uint8, r int) (all, side, near count) {
	first := int(bin) &^ (strengthBins - 1)
	var sums [2]cell
	for i := range t {
		sums[i/strengthBins].add(&t[i], 1)
	}
	for i, c := range t[first : first+strengthBins] {
		i += first
		near = near.plus(kernel[max(i, int(bin))-min(i, int(bin))], c.at(r))
	}
	side = sums[bin/strengthBins].at(r)
	return side.plus(1, sums[1-bin/strengthBins].at(r)), side, near
}

// kernel holds the weights of entries by their distance in bins.
var kernel = func() (k [strengthBins]float64) {
	for i := range k {
		x := float64(i) * binWidth / kernelWidth
		k[i] = math.Exp(-0.5 * x * x)
	}
	return k
}()

// binOf returns the bin of the strength and direction of an entry.
func binOf(strength float64, d signal.Direction) uint8 {
	bin := uint8(min(strength/binWidth, strengthBins-1))
	if d == signal.Short {
		bin += strengthBins
	}
	return bin
}

// unitsOfR is the number of units of an outcome's results in 1 R.
const unitsOfR = 20

// packR returns a result in those units: above 0 if it is.
func packR(r float64) int8 {
	units := int8(math.Round(clip(r, -maxR, maxR) * unitsOfR))
	if r > 0 {
		return max(1, units)
	}
	return units
}

// counted is an outcome as it is added: its long and its short entry.
type counted [2]struct {
	cell
	sums [3]uint64 // by risk level: the profit in the lower half, the loss in the upper one
}

// countedOf returns an outcome as it is added.
func countedOf(o *Outcome) (x counted) {
	for d := range o.R {
		x[d].cell = cellOf(&o.R[d])
		for r, result := range o.R[d] {
			x[d].sums[r] = uint64(max(0, int64(result))) | uint64(max(0, -int64(result)))<<32
		}
	}
	return x
}

// results sums up the entries at all bars, whatever their scores.
type results counted

// add adds an outcome sign times.
func (x *results) add(o *counted, sign int32) {
	for d := range o {
		x[d].add(&o[d].cell, sign)
		for r := range o[d].sums {
			x[d].sums[r] += o[d].sums[r] * uint64(sign)
		}
	}
}

// side returns the entries in one direction at the r-th risk level.
func (x *results) side(d, r int) count { return x[d].at(r) }

// both returns the record of both directions at the r-th risk level.
func (x *results) both(r int) (c record) {
	for d := range x {
		c.count = c.count.plus(1, x.side(d, r))
		c.gains += float64(uint32(x[d].sums[r])) / unitsOfR
		c.loss += float64(x[d].sums[r]>>32) / unitsOfR
	}
	return c
}

// tallies holds a tally for each strategy.
type tallies [len(technicals)]tally

// add adds an outcome with the given strengths and directions sign times.
func (t *tallies) add(o *counted, bins *[len(technicals)]uint8, sign int32) {
	for s, bin := range bins {
		t[s][bin%(2*strengthBins)].add(&o[bin/strengthBins%2].cell, sign)
	}
}
