package strategy

import "math"

// Constants of the estimate of confidence.
const (
	priorCount    = 40.0   // the number of entries that the prior starts with
	kappa         = 2000.0 // the weight, in entries, of what an estimate is shrunk towards
	kernelWidth   = 0.35   // the difference of |score| within which entries are comparable
	independent   = 4.0    // this many of H overlapping outcomes count as independent
	minOutcomes   = 100
	minConfidence = 0.01
	maxConfidence = 0.99
	maxR          = 3.0 // results beyond count as this much, in R: they are faults of data or rare
)

// What the prior starts with: entries without an opinion on a market without drift, each
// of which ends at its level.
const (
	plainShare = 1 / (1 + rewardToRisk)
	plainWin   = rewardToRisk
	plainLoss  = 1.0
)

// record sums up the outcomes of all entries of an asset, in both directions.
type record struct {
	count count
	gains float64 // the sum of the positive results in R
	loss  float64 // that of the others, positive
}

// add counts the outcomes of one bar.
func (c *record) add(o outcome) {
	for _, r := range [...]float64{o.long, o.short} {
		c.count.n++
		r = clip(r, -maxR, maxR)
		if r > 0 {
			c.count.won++
			c.gains += r
		} else {
			c.loss -= r
		}
	}
}

// prior returns the hit rate over all entries.
func (c record) prior() float64 {
	return (c.count.won + priorCount*plainShare) / (c.count.n + priorCount)
}

// meanWin and meanLoss return the mean result of entries that closed in profit and of the
// others, in R; both are positive.
func (c record) meanWin() float64 {
	const n = priorCount * plainShare
	return (c.gains + n*plainWin) / (c.count.won + n)
}

func (c record) meanLoss() float64 {
	const n = priorCount * (1 - plainShare)
	return (c.loss + n*plainLoss) / (c.count.n - c.count.won + n)
}

// overlap returns how much an outcome counts, since the lives of entries at neighboring
// bars overlap.
func overlap(horizon int) float64 { return min(1, independent/float64(horizon)) }

// estimate is the probability of a profit and its basis.
type estimate struct {
	confidence float64 // not rounded
	sample     float64 // effective count of comparable entries
	share      float64 // how many of them closed in profit; NaN if there are none
}

// estimateFrom estimates the probability that an entry closes in profit. The share of the
// asset's own comparable entries is shrunk towards that of the comparable entries of all
// assets, that towards the share of all their entries, and that towards the prior.
func estimateFrom(prior float64, horizon int, all, near, own count) estimate {
	d := overlap(horizon)
	p := own.shrunk(d, near.shrunk(d, all.shrunk(d, prior)))
	return estimate{clip(p, minConfidence, maxConfidence), d * near.n, near.share()}
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

// interval returns bounds between which the probability p lies with 95 %, if it was
// estimated from n independent entries.
func interval(p, n float64) (low, high float64) {
	const z = 1.959964
	if n <= 0 {
		return 0, 1
	}
	half := z * math.Sqrt(p*(1-p)/n)
	return max(0, p-half), min(1, p+half)
}
