package strategy

// How old prices may be, in milliseconds of the clock. Where time is compressed, speed
// is by how much; bars last as long by the clock as they are said to.

// LeastAge is what no limit of age falls below: in compressed time ticks come at most
// every 100 ms, and a feeder may change.
const LeastAge = 10_000

// BarAge returns how long ago the newest bar may have ended: two bars, and 30 s, whose
// length is that of the timeframe.
func BarAge(length, speed int64) int64 { return max((2*length+30_000)/speed, LeastAge) }

// Patience returns for how long a signal that has expired while its asset has no prices
// waits for one: three bars, which last so long.
func Patience(bar int64) int64 { return max(3*bar, LeastAge) }
