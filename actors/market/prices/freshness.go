package prices

import (
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// StaleCrypto and staleOther are how old the last tick may be.
	StaleCrypto = 30_000
	staleOther  = 300_000
	// Tickless is after how long without ticks, in milliseconds of market time, a
	// source has none: then bars alone count.
	Tickless = 86_400_000
)

// BarLimit is how long ago, in milliseconds, the newest bar may have ended.
func BarLimit(frame int, speed int64) int64 { return strategy.BarAge(FrameMS[frame], speed) }

// TickLimit is how old, in milliseconds, the last tick may be.
func TickLimit(class string, speed int64) int64 {
	if class == assets.Crypto {
		return max(StaleCrypto/speed, strategy.MinAge)
	}
	return max(staleOther/speed, strategy.MinAge)
}
