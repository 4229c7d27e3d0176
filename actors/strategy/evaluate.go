package strategy

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Origin names an asset and the source of its prices.
type Origin struct {
	Asset       string  // as it is to be shown
	Tick        float64 // tick size; 0 if the source has none
	Source      string  // the source of the prices
	Proxy       string  // the fund whose prices stand in for the asset's; empty: its own
	Compression float64 // market time runs this many times as fast as the clock; 1 is real time
	Cost        float64 // of an entry or an exit, as a share of the price
}

// Evaluation is a signal before it is recorded: without identifiers and times.
type Evaluation struct {
	Direction  signal.Direction
	Confidence float64 // 4 decimals
	Levels     signal.Levels
	Metadata   json.RawMessage
	Lifetime   time.Duration // by the clock, while the market is open
}

// Evaluate returns the signal of an entry at the given price. Live runs and backtests
// share it, so that they agree. The error is a *signal.RunError.
func (a Assessment) Evaluate(o Origin, entry float64) (Evaluation, error) {
	levels, err := a.Levels(entry, o.Tick)
	if err != nil {
		return Evaluation{}, err
	}
	extra := map[string]any{"source": o.Source}
	if o.Proxy != "" {
		extra["proxy"] = o.Proxy
	}
	if o.Compression > 1 {
		extra["time_compression"] = o.Compression
	}
	maps.Copy(extra, a.Extra)
	return Evaluation{
		Direction:  a.Direction,
		Confidence: signal.RoundConfidence(a.Confidence),
		Levels:     levels,
		Metadata:   slices.Clip(a.Metadata(o.Asset, levels, CostR(levels, levels.Entry, o.Cost), extra)),
		Lifetime:   Lifetime(a.Timeframe, a.Risk, o.Compression),
	}, nil
}
