package strategy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Origin says of which asset prices are, and where they come from.
type Origin struct {
	Asset       string  // as the signal shall name it
	Tick        float64 // tick size; 0 where the source gives none
	Source      string  // who gives the prices
	Proxy       string  // the fund whose prices these are, where the asset has none of its own
	Compression float64 // by how much time runs faster than the clock; 1 is real time
}

// Conclusion is a signal without what only its recording gives it: identifiers and
// times.
type Conclusion struct {
	Direction  signal.Direction
	Confidence float64 // 4 decimals
	Levels     signal.Levels
	Metadata   json.RawMessage
	Lifetime   time.Duration // on the wall clock, while the market is open
}

// Conclude makes the signal that enters at a price on the strength of a. Live runs and
// backtests both come here. The error is a *signal.RunError.
func (a Assessment) Conclude(o Origin, entry float64) (Conclusion, error) {
	levels, err := a.Levels(entry, o.Tick)
	if err != nil {
		return Conclusion{}, err
	}
	extra := map[string]any{"source": o.Source}
	if o.Proxy != "" {
		extra["proxy"] = o.Proxy
	}
	if o.Compression > 1 {
		extra["time_compression"] = o.Compression
	}
	return Conclusion{Direction: a.Direction, Confidence: signal.RoundConfidence(a.Confidence), Levels: levels,
		Metadata: slices.Clip(a.Metadata(o.Asset, levels, extra)), Lifetime: Lifetime(a.Timeframe, a.Risk, o.Compression)}, nil
}
