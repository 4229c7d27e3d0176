package market

import (
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Snapshot is what was known of an asset and timeframe at one moment. Nobody
// changes what it holds.
type Snapshot struct {
	Asset Asset
	// Bars are closed, oldest first, 1,500 at most. Short gaps are filled flat.
	Bars []strategy.Bar
	// Last is the newest trade. Where the source has no ticks it is the close of
	// the newest bar, at its close time.
	Last Tick
	// Ticks says that Last is a trade.
	Ticks bool
	// Source says who gives the prices: simulated, stream.
	Source string
	// Compression is by how much time runs faster than the clock; 1 is real time. A
	// bar of 1h lasts an hour divided by it.
	Compression float64
}
