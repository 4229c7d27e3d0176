package strategy

import "math"

// Constants of the estimate of confidence.
const (
	priorCount    = 40.0  // the number of entries at break-even that the prior starts with
	kappa         = 400.0 // the weight, in entries, of the prior and of the base
	kernelWidth   = 0.35  // the difference of |score| within which entries are comparable
	independent   = 4.0   // this many of H overlapping outcomes count as independent
	minOutcomes   = 100
	minConfidence = 0.01
	maxConfidence = 0.99
)

// setup is an earlier entry of a strategy.
type setup struct {
	strength float64 // |score|
	r        float64 // its result in its direction, in R; positive: closed in profit
}

// record sums up the outcomes of all entries of an asset, in both directions.
type record struct {
	count float64 // resolved entries
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

// prior returns the hit rate over all entries.
func (c record) prior() float64 {
	return (c.wins + priorCount*BreakEven) / (c.count + priorCount)
}

// meanR returns the mean result over all entries.
func (c record) meanR() float64 {
	if c.count == 0 {
		return 0
	}
	return c.sumR / c.count
}

// estimate is the probability of a profit and its basis.
type estimate struct {
	confidence float64 // not rounded
	expectedR  float64
	sample     float64 // effective count of comparable entries
}

// weigh estimates the probability that an entry of the given strength closes in profit.
// The prior is shrunk towards all earlier entries of the strategy, and that towards the
// ones of similar strength.
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
	case n > 0: // no entry is near: the kernel underflowed
		e.expectedR = sumR / n
	}
	return e
}

// rank compares a value with others.
type rank struct{ below, equal, all float64 }

// add counts other, one of those with which value is compared.
func (r *rank) add(other, value float64) {
	r.all++
	switch {
	case other < value:
		r.below++
	case other == value:
		r.equal++
	}
}

// percentile returns the share of the others that are smaller, counting equal ones by
// half; 0.5 without others.
func (r rank) percentile() float64 {
	if r.all == 0 {
		return 0.5
	}
	return (r.below + r.equal/2) / r.all
}
