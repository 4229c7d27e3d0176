package market

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Snapshot is what was known of an asset and timeframe at one moment. Nobody
// changes what it holds.
type Snapshot struct {
	Asset Asset
	// Bars are closed, oldest first, 1,500 at most. Short gaps are filled flat.
	Bars []marketdata.Bar
	// Last is the newest trade. Where the source has no ticks it is the close of
	// the newest bar, at its close time.
	Last marketdata.Tick
	// Ticks reports whether Last is a trade.
	Ticks bool
	// Source is what gives the prices: simulated, stream, or a real source.
	Source string
	// Proxy is the fund whose prices these are, where a commodity has none of its own.
	Proxy string
	// Session is when the asset is traded.
	Session sessions.Session
	// Compression is by how much time runs faster than the clock; 1 is real time. A
	// bar of 1h lasts an hour divided by it.
	Compression float64
}

// Lifetime returns for how long by the clock something lives from now on that lives for
// d while the asset is traded, in bars of a timeframe.
func (s *Snapshot) Lifetime(now time.Time, d time.Duration, tf signal.Timeframe) time.Duration {
	return s.Session.After(now, s.Session.Lasting(d, tf)).Sub(now)
}
