package weather

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// eventful is the anomaly, in deviations, from which weather has a name.
const eventful = 1

// demandEvent names weather by the anomalies of demand and of temperature. A warm
// winter week is mild and no heat wave, so less demand is looked at first.
func demandEvent(demand, warmth float64) string {
	switch {
	case demand <= -eventful:
		return signal.MildSpell
	case warmth >= eventful:
		return signal.HeatWave
	case warmth <= -eventful:
		return signal.ColdSnap
	}
	return signal.Seasonal
}

// cropEvent names weather by what is farthest from normal: temperature, the water
// that is taken from the soil, or frost.
func cropEvent(warmth, dryness, frost float64) string {
	name, most := signal.Seasonal, 0.0
	consider := func(z float64, above, below string) {
		if z >= eventful && z > most && above != "" {
			name, most = above, z
		}
		if z <= -eventful && -z > most && below != "" {
			name, most = below, -z
		}
	}
	consider(frost, signal.Frost, "")
	consider(dryness, signal.Drought, signal.ExcessRain)
	consider(warmth, signal.HeatWave, signal.ColdSnap)
	return name
}

// finite says that v is a number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
