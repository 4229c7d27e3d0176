package strategy

import "math"

// sigma returns the sample standard deviation of xs, at least two values. It is exactly 0
// for equal values.
func sigma(xs []float64) float64 {
	origin, n := xs[0], float64(len(xs))
	var sum float64
	for _, x := range xs {
		sum += x - origin
	}
	offset := sum / n
	var squares float64
	for _, x := range xs {
		d := x - origin - offset
		squares += d * d
	}
	return math.Sqrt(squares / (n - 1))
}

// clip returns x limited to the range lo to hi.
func clip(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }

// clip3 limits a standardised value to the range that the strategies use.
func clip3(x float64) float64 { return clip(x, -3, 3) }

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// round returns x rounded to the given number of decimals, which may be negative.
func round(x float64, decimals int) float64 {
	p := math.Pow10(decimals)
	if !(math.Abs(x)*p < 1<<53) {
		return x // has no further decimals, or is not finite
	}
	if decimals < 0 {
		p = math.Pow10(-decimals)
		return math.Round(x/p) * p
	}
	return math.Round(x*p) / p
}

// significant returns x rounded to 8 significant digits.
func significant(x float64) float64 {
	if x == 0 || !finite(x) {
		return x
	}
	return round(x, 7-int(math.Floor(math.Log10(math.Abs(x)))))
}
