package weather

import "math"

// Slope is how much of a forecast's news the price of a commodity does not know yet.
type Slope struct {
	// Tau is τ: by how much a probability of 1 that the anomaly keeps its sign moves a
	// confidence against a probability of 0.
	Tau    float64
	Fitted int // on how many closed signals; 0: it is that of taus
}

// taus is τ as long as few signals have closed, by commodity.
var taus = map[string]float64{"natural_gas": .25, "corn": .15, "wheat": .15, "oil": .10}

const (
	// fitFrom is how many closed signals of a commodity replace τ.
	fitFrom = 200
	// maxTau bounds a fitted τ: more could carry a confidence from break-even to certainty.
	maxTau = 1
	// overlap is what a day's signals count for, as in package strategy: of ten outcomes
	// that overlap, as many count as four.
	overlap = .4
)

// outcome is a closed signal.
type outcome struct {
	prior      float64 // of a profit, without the forecast
	likelihood float64 // that the anomaly keeps its sign, when the signal was made
	won        bool
	bar        int64 // the day's bar in which it was made
}

// fitSlope returns the τ by which
//
//	logit(p) = logit(prior) + τ·(likelihood - 1/2)/(prior·(1 - prior))
//
// makes the outcomes most likely, 0 to maxTau: logistic regression on one number, in
// which τ means the same as in p = prior + τ·(likelihood - 1/2), the first order of it.
// Signals of one day share one outcome's weight, since they end alike. Outcomes of 90 days
// tell little by themselves, so τ is held to be table ± table before; that also bounds
// it where the outcomes can be separated.
func fitSlope(table float64, list []outcome) float64 {
	inBar := make(map[int64]float64)
	for i := range list {
		inBar[list[i].bar]++
	}
	lo, hi, tau := 0.0, float64(maxTau), table
	for range 60 { // Newton, kept in a bracket: the gradient falls with τ
		gradient, curvature := (table-tau)/(table*table), 1/(table*table)
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
