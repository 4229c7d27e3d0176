package strategy

// Limits on the age of prices, in milliseconds by the clock. speed is how many times as
// fast as the clock market time runs.

// MinAge is the lower bound of every limit: in compressed time ticks arrive every 100 ms
// at most, and a change of the feeder takes some seconds.
const MinAge = 10_000

// BarAge returns the maximum age of the newest bar: two bars and 30 s. length is that of
// the timeframe in market time.
func BarAge(length, speed int64) int64 { return max((2*length+30_000)/speed, MinAge) }

// GracePeriod returns how long an expired signal waits for a price of an asset without
// prices: three bars. bar is the length of one by the clock.
func GracePeriod(bar int64) int64 { return max(3*bar, MinAge) }
