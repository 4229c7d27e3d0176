package weather

import "github.com/agentsignal/agentsignal/actors/signal"

// eventful is the anomaly, in deviations, from which on weather has a name.
const eventful = 1

// demandEvent names the weather by the anomalies of demand and temperature. Reduced
// demand is checked first, because a warm week in winter is a mild spell and not a heat
// wave.
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

// cropEvent names the weather by the largest anomaly: of temperature, of water taken from
// the soil, or of frost.
func cropEvent(warmth, dryness, frost float64) string {
	name, largest := signal.Seasonal, 0.0
	consider := func(z float64, above, below string) {
		if z >= eventful && z > largest && above != "" {
			name, largest = above, z
		}
		if z <= -eventful && -z > largest && below != "" {
			name, largest = below, -z
		}
	}
	consider(frost, signal.Frost, "")
	consider(dryness, signal.Drought, signal.ExcessRain)
	consider(warmth, signal.HeatWave, signal.ColdSnap)
	return name
}
