package prices

import (
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

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
