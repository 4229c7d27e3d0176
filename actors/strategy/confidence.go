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

// sums add up outcomes. They are whole numbers, so that sums over a range are the differences of two of them, whatever
// stood before.
type sums struct {
	n, won      int32
	gains, loss int64 // in units of sumUnit
}

const sumUnit = 1.0 / (1 << 40) // of 1 R: sums of 2^20 results are exact

// add counts the outcomes of one bar.
func (c *sums) add(o outcome) {
	for _, r := range [...]float64{o.long, o.short} {
		c.n++
		units := int64(math.Round(clip(r, -maxR, maxR) / sumUnit))
		if r > 0 {
			c.won++
			c.gains += units
		} else {
			c.loss -= units
		}
	}
}

// since returns the record of what was added after before.
func (c *sums) since(before *sums) *record {
	return &record{count{float64(c.n - before.n), float64(c.won - before.won)},
		float64(c.gains-before.gains) * sumUnit, float64(c.loss-before.loss) * sumUnit}
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

// count is a number of entries and how many of them closed in profit.
type count struct{ n, won float64 }

// plus returns the sum of c and another count, times a weight.
func (c count) plus(weight float64, x count) count {
	return count{c.n + weight*x.n, c.won + weight*x.won}
}

// share returns the share that closed in profit, NaN without entries.
func (c count) share() float64 { return c.won / c.n }

// shrunk returns the share, shrunk towards another one. weight is how many independent entries
// one is worth.
func (c count) shrunk(weight, towards float64) float64 {
	return (weight*c.won + kappa*towards) / (weight*c.n + kappa)
}

// comparables are the entries that an entry is compared with.
type comparables struct {
	any     record // of all assets, in both directions, whatever their scores
	anySide count  // those of its direction
	// all are the entries of its strategy, side those of its direction too, near those of its
	// strength too, and own those of its asset too.
	all, side, near, own count
}

// estimate is the probability of a profit and its basis.
type estimate struct {
	confidence float64 // not rounded
	sample     float64 // effective count of comparable entries
	share      float64 // how many of them closed in profit; NaN if there are none
}

// estimateFrom estimates the probability that an entry closes in profit. Without an opinion it is
// expected to do so as often as the asset's break-even and the usual distance from it. Comparable
// entries of all assets change that: the share of the strategy is shrunk towards that of all
// entries; that of its direction towards it and the drift of all entries in that direction, and that
// of a similar strength towards this. Of these two the estimate keeps what the past has borne out.
// The asset's own comparable entries are shrunk towards the result.
func estimateFrom(b Base, c comparables, e evidence) estimate {
	share := c.any.prior()
	usual := share - BreakEven(c.any.meanWin(), c.any.meanLoss(), 0)
	evens := BreakEven(b.Win, b.Loss, 0)
	plain := evens + (b.Entries*(b.Prior-evens)+kappa*usual)/(b.Entries+kappa)

	drift := c.anySide.shrunk(e.weight, share) - share
	all := c.all.shrunk(e.both, share)
	near := c.near.shrunk(e.weight, c.side.shrunk(e.weight, all+drift))

	p := c.own.shrunk(overlap(b.Horizon), plain+all-share+e.kept()*(near-all))
	return estimate{clip(p, minConfidence, maxConfidence), e.weight * c.near.n, c.near.share()}
}

// BreakEven returns the hit rate at which the mean result is 0, given those of entries with and
// without a profit in R, where each entry and exit together cost the given part of the risk.
func BreakEven(win, loss, cost float64) float64 { return min(1, (loss+cost)/(win+loss)) }

// rank compares a value with others.
type rank struct{ below, equal, all float64 }

// rankOf compares value with others, of which NaN do not count.
func rankOf(value float64, others []float64) rank {
	var below, equal, above int
	for _, x := range others { // without branches, which would be taken at random
		below, equal, above = below+bit(x < value), equal+bit(x == value), above+bit(x > value)
	}
	return rank{float64(below), float64(equal), float64(below + equal + above)}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

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
