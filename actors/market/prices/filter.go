package prices

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// A tick that moves by more than jumpATRs, in ATR(14) of 1m bars, must be confirmed by a next
	// tick within confirmATRs of it.
	jumpATRs    = 10
	confirmATRs = jumpATRs / 2
)

// Filter keeps bad ticks out of an asset's last price and bars. The zero value is ready for use.
type Filter struct {
	Last marketdata.Tick // the newest accepted tick; Time is 0 before the first
	Held marketdata.Tick // a jump that waits for confirmation; Time is 0 if no tick waits
	// Rising rejects a second tick with the time of the newest one, as a repetition. Without it two
	// ticks may have the same time.
	Rising bool
}

// Begin has the first tick t compared with the close of the last 1m bar before it, because the
// first tick may be bad too. bar returns the ith of n ascending bars of an asset at speed. A bar
// that is too old does not count.
func (f *Filter) Begin(t marketdata.Tick, speed int64, n int, bar func(i int) marketdata.Bar) {
	if f.Last.Time != 0 || f.Held.Time != 0 {
		return
	}
	for n > 0 && bar(n-1).CloseTime > t.Time {
		n--
	}
	if n == 0 {
		return
	}
	if b := bar(n - 1); t.Time-b.CloseTime <= BarLimit(M1, speed) {
		f.Last = marketdata.Tick{Price: b.Close, Time: b.CloseTime}
	}
}

// jumps reports whether a price is so far from the last tick that it must be confirmed. Without an
// ATR, because there are too few 1m bars or the price does not move, only a price that can hardly
// belong to the same asset jumps.
func (f *Filter) jumps(price, atr float64) bool {
	if f.Last.Time == 0 {
		return false
	}
	if !(atr > 0) {
		return !Near(price, f.Last.Price)
	}
	return math.Abs(price-f.Last.Price) > jumpATRs*atr
}

// confirms reports whether a price confirms the held tick, which it does within half the distance
// that made it a jump.
func (f *Filter) confirms(price, atr float64) bool {
	if f.Held.Time == 0 {
		return false
	}
	limit := confirmATRs * atr
	if !(atr > 0) {
		limit = math.Abs(f.Held.Price-f.Last.Price) / 2
	}
	return math.Abs(price-f.Held.Price) <= limit
}

// Take returns the ticks that t releases in order: t itself, the held tick and t if t confirms it,
// or no tick while t is held. The held tick may come again, from the mailbox after a replay, and
// does not confirm itself. atr is the ATR(14) of the 1m bars, or 0 if it is not known. skipped
// is why a tick, t or the held one, was dropped for good.
func (f *Filter) Take(t marketdata.Tick, atr float64) (accepted []marketdata.Tick, skipped Reason) {
	repeated := t == f.Held || f.Rising && t.Time == f.Last.Time
	if repeated || t.Time < f.Last.Time || t.Time < f.Held.Time {
		return nil, SkipOld
	}
	if !f.jumps(t.Price, atr) {
		// The price is back where it was, so the held tick was bad.
		if f.Held.Time != 0 {
			skipped = skipJump
		}
		f.Last, f.Held = t, marketdata.Tick{}
		return []marketdata.Tick{t}, skipped
	}
	if f.confirms(t.Price, atr) {
		accepted = []marketdata.Tick{f.Held, t}
		f.Last, f.Held = t, marketdata.Tick{}
		return accepted, ""
	}
	if f.Held.Time != 0 {
		skipped = skipJump
	}
	f.Held = t
	return nil, skipped
}

// Reason is why an entry was skipped, or empty if it was not. It is a label of a metric.
type Reason string

// The reasons.
const (
	SkipFields    Reason = "fields"    // a field is missing or unknown
	SkipAsset     Reason = "asset"     // the name is empty, too long or has control characters
	SkipNumber    Reason = "number"    // not a plain decimal number
	SkipPrice     Reason = "price"     // not positive, or absurd
	SkipVolume    Reason = "volume"    // negative or absurd
	SkipRange     Reason = "range"     // high or low contradict the other prices
	SkipTimeframe Reason = "timeframe" // unknown
	SkipTime      Reason = "time"      // before 2001, in the future, not aligned, or not closed yet
	SkipOld       Reason = "old"       // older than the newest tick
	skipJump      Reason = "jump"      // far from the last price, and not confirmed
	SkipLate      Reason = "late"      // it came after its minute was closed
	SkipSource    Reason = "source"    // another source gives the asset's prices
	SkipAssets    Reason = "assets"    // there are too many assets
	SkipLevel     Reason = "level"     // too far from the price before to be of the same asset
	SkipForged    Reason = "forged"    // it has fields that only the feeder may set
)

// Reasons lists them for the metric.
var Reasons = []Reason{SkipFields, SkipAsset, SkipNumber, SkipPrice, SkipVolume, SkipRange, SkipTimeframe, SkipTime,
	SkipOld, skipJump, SkipLate, SkipSource, SkipAssets, SkipLevel, SkipForged}

// levelFactor is the maximum ratio of two consecutive prices of the same asset.
const levelFactor = 4

// Near reports whether two consecutive prices can be of the same asset.
func Near(a, b float64) bool { return a < levelFactor*b && b < levelFactor*a }

const (
	// StaleCrypto and staleOther are the maximum ages of the last tick, in milliseconds.
	StaleCrypto = 30_000
	staleOther  = 300_000
	// Tickless is the time without ticks, in milliseconds of market time, after which only bars count.
	Tickless = 86_400_000
)

// BarLimit returns how long ago, in milliseconds, the newest bar may have ended.
func BarLimit(frame int, speed int64) int64 { return strategy.BarAge(FrameMS[frame], speed) }

// TickLimit returns the maximum age of the last tick in milliseconds.
func TickLimit(class string, speed int64) int64 {
	if class == assets.Crypto {
		return max(StaleCrypto/speed, strategy.MinAge)
	}
	return max(staleOther/speed, strategy.MinAge)
}
