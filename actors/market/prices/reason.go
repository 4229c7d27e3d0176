package prices

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
