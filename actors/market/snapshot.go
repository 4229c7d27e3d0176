package market

import (
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Asset is something that has a price.
type Asset struct {
	Symbol     string  // in its display form: BTC, natural_gas
	Class      string  // one of the constants of package assets, or empty if not known
	TickSize   float64 // prices are multiples of it; 0 if not known
	AlwaysOpen bool    // it trades around the clock
}

// Snapshot holds the prices of an asset and timeframe at one moment. It is read-only.
type Snapshot struct {
	Asset Asset
	// Bars are closed, oldest first, 1,500 at most. Short gaps are filled flat.
	Bars []marketdata.Bar
	// Last is the newest trade, or the close of the newest bar if the source has no ticks.
	Last marketdata.Tick
	// Ticks reports whether Last is a trade.
	Ticks bool
	// Source gives the prices: simulated, stream, or a real source.
	Source string
	// Proxy is the fund whose prices stand for those of a commodity, or empty.
	Proxy string
	// Session is when the asset is traded.
	Session sessions.Session
	// Compression is how many times faster than real time the asset runs: a bar of 1h takes an hour
	// divided by it.
	Compression float64
}

// newSnapshot returns a snapshot without session whose last price is the close of the newest bar.
func newSnapshot(r *marketdata.Asset, bars []marketdata.Bar) Snapshot {
	newest := &bars[len(bars)-1]
	return Snapshot{
		Asset:       Asset{Symbol: r.Symbol, Class: r.Class, TickSize: r.TickSize, AlwaysOpen: r.AlwaysOpen},
		Bars:        bars,
		Last:        marketdata.Tick{Price: newest.Close, Time: newest.CloseTime},
		Source:      r.Source,
		Proxy:       source.ProxyOf(r),
		Compression: float64(r.Speed),
	}
}

// Lifetime returns how much wall time passes from now on until the asset has been traded for d,
// counted in bars of a timeframe.
func (s *Snapshot) Lifetime(now time.Time, d time.Duration, tf signal.Timeframe) time.Duration {
	return s.Session.After(now, s.Session.Lasting(d, tf)).Sub(now)
}

// gapWindow is the number of newest bars that are checked for gaps, as many as a strategy uses.
const gapWindow = 1000

// usable returns the bars of a timeframe of the asset with record r with short gaps filled, or
// DATA_UNAVAILABLE if the newest gapWindow bars have too many or too long gaps. It leaves out the
// bars before the last gap of those before the window. A closed session is not a gap. If the
// sessions are not known the bars are returned unchanged.
func usable(bars []marketdata.Bar, r *marketdata.Asset, frame int) ([]marketdata.Bar, error) {
	next := func(b marketdata.Bar) int64 { return b.CloseTime }
	switch {
	case r.AlwaysOpen:
	case tradedIn(r) == sessions.Always:
		return bars, nil
	default:
		next = tradedIn(r).Following(frame, bars)
	}
	gap := -1 // the first bar after the newest gap
	for i := len(bars) - 1; i > 0 && gap < 0; i-- {
		if bars[i].OpenTime > next(bars[i-1]) {
			gap = i
		}
	}
	if gap < 0 {
		return bars, nil
	}
	begin := max(0, len(bars)-gapWindow)
	if gap <= begin {
		return bars[gap:], nil
	}
	filled, err := strategy.FillGaps(bars[begin:], next)
	if err != nil {
		return nil, err
	}
	older := begin
	for older > 0 && bars[older].OpenTime <= next(bars[older-1]) {
		older--
	}
	return append(slices.Clone(bars[older:begin]), filled...), nil
}
