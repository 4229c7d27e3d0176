package strategy

import "github.com/agentsignal/agentsignal/actors/signal"

// The trading strategies.
const (
	Momentum      = "momentum"
	MeanReversion = "mean_reversion"
	Breakout      = "breakout"
	Sentiment     = "sentiment"
)

// technical is a strategy that reads bars alone. Sentiment is none of them: it
// also needs news.
type technical interface {
	name() string
	// score is called with features that are ready and have movement. Its sign is
	// the direction, its size the conviction.
	score(f *Features) float64
	indicators() []string
	// values maps each indicator to its number, or to several by name.
	values(f *Features) map[string]any
	// finding says in words what the score rests on, without a full stop.
	finding(f *Features) string
}

// technicals lists them; the index is that of the scores a series keeps.
var technicals = [...]technical{momentum{}, meanReversion{}, breakout{}}

// momentumIndex is the place of momentum, which sentiment leans on.
const momentumIndex = 0

// technicalIndex returns the place of the named strategy, or -1.
func technicalIndex(name string) int {
	for i, t := range technicals {
		if t.name() == name {
			return i
		}
	}
	return -1
}

// riskIndex returns the place of risk in signal.RiskLevels, or -1.
func riskIndex(risk signal.RiskLevel) int {
	for i, r := range signal.RiskLevels {
		if r == risk {
			return i
		}
	}
	return -1
}

// directionOf returns the direction of a score; where it is 0 the side of the
// slow average decides, and long where the price lies on it.
func directionOf(score float64, belowMean bool) signal.Direction {
	if score < 0 || score == 0 && belowMean {
		return signal.Short
	}
	return signal.Long
}
