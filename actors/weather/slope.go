package weather

import "math"

// Slope is the share of a forecast's information that the price does not reflect yet.
type Slope struct {
	// Tau is τ: the difference in confidence between a probability of 1 and one of 0 that
	// the anomaly keeps its sign.
	Tau    float64
	Fitted int // the number of closed signals that it was fitted to; 0: Tau is assumedTau
}

const (
	// assumedTau is τ while few signals have closed. It is small because nobody has
	// measured it: a certain forecast adds one point to a confidence.
	assumedTau = .02
	// tauDeviation is the deviation of the prior distribution of τ, whose mean is
	// assumedTau: 0 to 0.25 are plausible. It weighs less than 200 outcomes of as many
	// days, so that they can find a real slope. With a deviation of 0.02, even 4,000
	// outcomes of a market with τ = 0.25 would give 0.06.
	tauDeviation = .25
	// fitFrom is the number of closed signals of a commodity from which on τ is fitted.
	fitFrom = 200
	// maxTau bounds a fitted τ: a larger one could raise a confidence from break-even to
	// certainty.
	maxTau = 1
	// overlap is the weight of a day's signals, as in package strategy: of ten
	// overlapping outcomes as many count as four.
	overlap = .4
)

// outcome is the outcome of a closed signal.
type outcome struct {
	prior      float64 // of a profit, without the forecast
	likelihood float64 // at creation, that the anomaly keeps its sign
	won        bool
	bar        int64 // the daily bar in which it was made
}

// fitSlope returns the τ by which
//
//	logit(p) = logit(prior) + τ·(likelihood - 1/2)/(prior·(1 - prior))
//
// makes the outcomes most likely, 0 to maxTau: a logistic regression with one parameter,
// which to first order is that of p = prior + τ·(likelihood - 1/2). Signals of one day share
// the weight of one outcome, since they end alike. Outcomes of 90 days are few, so τ has a
// normal prior distribution, which also bounds it if the outcomes are separable.
func fitSlope(list []outcome) float64 {
	inBar := make(map[int64]float64)
	for i := range list {
		inBar[list[i].bar]++
	}
	const precision = 1 / (tauDeviation * tauDeviation) // of the prior distribution
	lo, hi, tau := 0.0, float64(maxTau), assumedTau
	for range 60 { // Newton, kept in a bracket: the gradient falls with τ
		gradient, curvature := precision*(assumedTau-tau), precision
		for i := range list {
			o := &list[i]
			x := (o.likelihood - .5) / (o.prior * (1 - o.prior))
			p := 1 / (1 + (1-o.prior)/o.prior*math.Exp(-tau*x))
			won := 0.0
			if o.won {
				won = 1
			}
			weight := overlap / inBar[o.bar]
			gradient += weight * x * (won - p)
			curvature += weight * x * x * p * (1 - p)
		}
		if gradient > 0 {
			lo = tau
		} else {
			hi = tau
		}
		next := tau + gradient/curvature
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-tau) < 1e-7 {
			break
		}
		tau = next
	}
	return math.Round(tau*1e4) / 1e4
}
