package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// trueRange is the distance that the price covered from the previous close to
// the extremes of b.
func trueRange(previousClose float64, b marketdata.Bar) float64 {
	return max(b.High-b.Low, math.Abs(b.High-previousClose), math.Abs(b.Low-previousClose))
}
