package strategy

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// The trading strategies.
const (
	Momentum      = "momentum"
	MeanReversion = "mean_reversion"
	Breakout      = "breakout"
	Sentiment     = "sentiment"
)

// technical is a strategy that needs bars only. Sentiment also needs news.
type technical interface {
	name() string
	// score is called only if the features are ready and the market moves. The sign is
	// the direction, the size the conviction.
	score(f *Features) float64
	indicators() []string
	// values maps each indicator to its number, or to several numbers by name.
	values(f *Features) map[string]any
	// finding describes what the score rests on, without a full stop.
	finding(f *Features) string
}

// technicals lists them. A series keeps scores by the same index.
var technicals = [marketdata.OutcomeStrategies]technical{momentum{}, meanReversion{}, breakout{}}

// momentumIndex is the index of momentum, whose score is part of sentiment.
const momentumIndex = 0

// technicalIndex returns the index of the named strategy in technicals, or -1.
func technicalIndex(name string) int {
	return slices.IndexFunc(technicals[:], func(t technical) bool { return t.name() == name })
}

// riskIndex returns the index of risk in signal.RiskLevels, or -1.
func riskIndex(risk signal.RiskLevel) int { return slices.Index(signal.RiskLevels, risk) }

// directionOf returns the direction of a score. At 0 it is short below the slow average
// and long otherwise.
func directionOf(score float64, belowMean bool) signal.Direction {
	if score < 0 || score == 0 && belowMean {
		return signal.Short
	}
	return signal.Long
}
