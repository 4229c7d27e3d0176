package market

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// OriginOf returns the origin of prices in signals that call the asset with a record asset.
func OriginOf(record *marketdata.Asset, asset string) strategy.Origin {
	return strategy.Origin{
		Asset: asset, Tick: record.TickSize, Source: record.Source, Proxy: source.ProxyOf(record),
		Compression: float64(max(1, record.Speed)),
	}
}

// ExpiryOf returns when the asset with a record has been traded for d after a time, counted in bars
// of a timeframe.
func ExpiryOf(record *marketdata.Asset, from time.Time, d time.Duration, tf signal.Timeframe) time.Time {
	s := tradedIn(record)
	return s.After(from, s.Lasting(d, tf))
}

// LeftOf returns the share of the time between two while the asset with a record is traded that is
// left at a third, in milliseconds.
func LeftOf(record *marketdata.Asset, since, expires, at int64) float64 {
	s := tradedIn(record)
	all := s.Between(time.UnixMilli(since), time.UnixMilli(expires))
	if all <= 0 {
		return 0
	}
	return float64(s.Between(time.UnixMilli(max(since, at)), time.UnixMilli(expires))) / float64(all)
}

// Thinned reports whether not every price of the asset is published as a tick.
func Thinned(record *marketdata.Asset) bool {
	return record.Source == simulated.Name && record.Speed > simulated.FullTickSpeed
}

// History returns stored bars of the asset with a record as strategies see them: with short gaps
// filled, and without the bars before the newest long gap. The error is a *signal.RunError:
// DATA_UNAVAILABLE if too many of the newest bars are missing.
func History(stored []marketdata.AssetBar, record *marketdata.Asset, tf signal.Timeframe) ([]marketdata.Bar, error) {
	bars := make([]marketdata.Bar, len(stored))
	for i := range stored {
		bars[i] = stored[i].Bar
	}
	frame, _ := prices.FrameOf(tf)
	return usable(bars, record, frame)
}

// tradedIn returns the session of the asset with record r. Assets whose prices come from outside
// have an unknown session and count as always open.
func tradedIn(r *marketdata.Asset) sessions.Session {
	if source.IsVenue(r.Source) {
		return sessions.Of(r.Class)
	}
	return sessions.Always
}
