package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// bollinger returns the mean of the bars' closes and their population standard
// deviation; the bands lie two deviations away. Deviations are taken from the
// first close, so that equal closes give exactly 0.
func bollinger(bars []marketdata.Bar) (mean, deviation float64) {
	origin, n := bars[0].Close, float64(len(bars))
	var sum float64
	for i := range bars {
		sum += bars[i].Close - origin
	}
	offset := sum / n
	var squares float64
	for i := range bars {
		d := bars[i].Close - origin - offset
		squares += d * d
	}
	return origin + offset, math.Sqrt(squares / n)
}
