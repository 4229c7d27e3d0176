package strategy

import "math"

// trueRange is the distance that the price covered from the previous close to
// the extremes of b.
func trueRange(previousClose float64, b Bar) float64 {
	return max(b.High-b.Low, math.Abs(b.High-previousClose), math.Abs(b.Low-previousClose))
}
