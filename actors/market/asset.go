package market

import (
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Asset is something that has a price.
type Asset struct {
	Symbol     string  // in its display form: BTC, natural_gas
	Class      string  // one of the constants of package assets, or empty if not known
	TickSize   float64 // prices are multiples of it; 0 if not known
	AlwaysOpen bool    // it trades around the clock
}

// Tick is a price at which an asset traded.
type Tick = marketdata.Tick

// tradedIn returns the session of the asset with record r. Assets whose prices come from outside
// have an unknown session and count as always open.
func tradedIn(r *marketdata.Asset) sessions.Session {
	if source.IsVenue(r.Source) {
		return sessions.Of(r.Class)
	}
	return sessions.Always
}
