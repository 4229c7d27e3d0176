package strategy

import "github.com/agentsignal/agentsignal/actors/signal/marketdata"

// donchian returns the highest high and the lowest low of bars. The current bar is not
// part of its own channel.
func donchian(bars []marketdata.Bar) (upper, lower float64) {
	upper, lower = bars[0].High, bars[0].Low
	for i := range bars {
		upper, lower = max(upper, bars[i].High), min(lower, bars[i].Low)
	}
	return upper, lower
}
