package strategy

import "math"

// Constants of the estimate of confidence.
const (
	priorCount    = 40.0  // entries that the prior is worth before any is known
	kappa         = 400.0 // how many entries the prior and the base weigh
	kernelWidth   = 0.35  // of the difference of |score| that still is comparable
	independent   = 4.0   // of H overlapping outcomes, as many count as one each
	minOutcomes   = 100
	minConfidence = 0.01
	maxConfidence = 0.99
)

// setup is a past entry of a strategy.
type setup struct {
	strength float64 // |score|
	r        float64 // how it ended in its direction, in R; a positive one closed in profit
}

// record is what an asset's past says of entries without an opinion.
type record struct {
	count float64 // resolved entries, both directions
	wins  float64
	sumR  float64
}

// add counts the outcomes of one bar.
func (c *record) add(o outcome) {
	for _, r := range [...]float64{o.long, o.short} {
		c.count++
		c.sumR += r
		if r > 0 {
			c.wins++
		}
	}
}

// prior returns the hit rate of an entry without an opinion.
func (c record) prior() float64 {
	return (c.wins + priorCount*BreakEven) / (c.count + priorCount)
}

// meanR returns the mean result of an entry without an opinion.
func (c record) meanR() float64 {
	if c.count == 0 {
		return 0
	}
	return c.sumR / c.count
}

// estimate is the probability of a profit, and what it rests on.
type estimate struct {
	confidence float64 // not rounded
	expectedR  float64
	sample     float64 // effective count of comparable entries
}

// weigh estimates the probability that an entry of the given strength closes in
// profit: the prior, drawn towards the strategy's own past, drawn towards those
// past entries that were of similar strength.
func weigh(strength float64, horizon int, prior float64, past []setup) estimate {
	d := min(1, independent/float64(horizon)) // outcomes overlap
	var wins, sumW, sumWY, sumWR, sumR float64
	for _, s := range past {
		x := (s.strength - strength) / kernelWidth
		w := math.Exp(-0.5 * x * x)
		sumW += w
		sumWR += w * s.r
		sumR += s.r
		if s.r > 0 {
			wins++
			sumWY += w
		}
	}
	n := float64(len(past))
	base := (d*wins + kappa*prior) / (d*n + kappa)
	e := estimate{sample: d * sumW}
	e.confidence = clip((d*sumWY+kappa*base)/(d*sumW+kappa), minConfidence, maxConfidence)
	switch {
	case sumW > 0:
		e.expectedR = sumWR / sumW
	case n > 0: // nothing comes near: the kernel underflowed
		e.expectedR = sumR / n
	}
	return e
}

// rank counts how a value compares with others.
type rank struct{ below, equal, all float64 }

// add counts one of the others.
func (r *rank) add(other, value float64) {
	r.all++
	switch {
	case other < value:
		r.below++
	case other == value:
		r.equal++
	}
}

// percentile returns the share of the others that lie below, equal ones by half;
// 0.5 if there are none.
func (r rank) percentile() float64 {
	if r.all == 0 {
		return 0.5
	}
	return (r.below + r.equal/2) / r.all
}
