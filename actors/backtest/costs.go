package backtest

// Costs holds the cost of an entry or an exit in basis points of the price, by the class
// of the asset.
type Costs struct{ Crypto, Stock, FX, Commodity float64 }

// DefaultCosts are those of inexpensive venues.
var DefaultCosts = Costs{Crypto: 10, Stock: 2, FX: 1, Commodity: 3}

// DefaultSlippage is how far beyond the stop the trade that closes a signal is in the median, in R.
// bench calibration measures it on 1h of the simulated market, which has ten trades a minute;
// finer timeframes pay more, because their stops are nearer.
const DefaultSlippage = 0.008

// Of returns the cost as a share of the price. Metals count as commodities; an unknown
// class costs as much as the most expensive one.
func (c Costs) Of(class string) float64 {
	const basisPoints = 1e4 // in 1
	switch class {
	case "crypto":
		return c.Crypto / basisPoints
	case "stock":
		return c.Stock / basisPoints
	case "fx":
		return c.FX / basisPoints
	case "commodity", "metal":
		return c.Commodity / basisPoints
	}
	return max(c.Crypto, c.Stock, c.FX, c.Commodity) / basisPoints
}
