package market

import (
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Asset is something that has a price.
type Asset struct {
	Symbol     string  // as it is shown: BTC, natural_gas
	Class      string  // one of the constants; empty if that is not known
	TickSize   float64 // prices are multiples of it; 0: the source gives none
	AlwaysOpen bool    // it trades around the clock
}

// Tick is a price at which an asset traded.
type Tick = marketdata.Tick

// assetOf returns what readers are given of an asset with record r.
func assetOf(r marketdata.Asset) Asset {
	return Asset{Symbol: r.Symbol, Class: r.Class, TickSize: r.TickSize, AlwaysOpen: r.AlwaysOpen}
}

// tradedIn returns the session of the asset with a record. That of assets whose prices
// come from outside is not known: they are taken to trade always.
func tradedIn(r *marketdata.Asset) sessions.Session {
	if source.IsVenue(r.Source) {
		return sessions.Of(r.Class)
	}
	return sessions.Always
}
