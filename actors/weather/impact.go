package weather

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// impactShare is the move of a price, in its own deviations, per deviation of the
	// weather.
	impactShare = .25
	// impactDays is the duration of that move.
	impactDays = 5
	// maxPercent is the share of normal above which it is meaningless, since normal is
	// next to nothing.
	maxPercent = 500
)

// describe sets the words of the outlook: what s has measured, and what Z is of. Quiet
// weather is seasonal, whatever the temperature alone would be called.
func (o *Outlook) describe(what string, s *seen, judged string) {
	if o.Quiet() {
		o.Event.Type = signal.Seasonal // a cold day somewhere is no reason to act
	}
	where := "normal in " + regionName(o.Region)
	o.channel = fmt.Sprintf("%s %s %s", what, distance(s), where)
	o.Finding = fmt.Sprintf("%s is %s %s over the next %d days; the z of %s is %+.2f, the largest part at %s about %s",
		what, distance(s), where, horizon, judged, o.Z, o.Event.Location, o.Event.ForecastDate)
	var missing []string
	for i, known := range s.known {
		if !known {
			missing = append(missing, s.field.stations[i].Name)
		}
	}
	if len(missing) > 0 {
		o.Finding += ", without the forecast of " + strings.Join(missing, ", ")
	}
}

// distance returns the distance from normal, such as "22 % above".
func distance(s *seen) string {
	side := "above"
	if s.sum < 0 {
		side = "below"
	}
	share := math.Abs(100 * s.sum / s.normal)
	switch {
	case s.sum == 0:
		share = 0
	case !(share <= maxPercent):
		return fmt.Sprintf("more than %d %% %s", maxPercent, side)
	}
	return fmt.Sprintf("%.0f %% %s", share, side)
}

func regionName(region string) string {
	if region == Global {
		return "all regions"
	}
	return region
}

// ExpectedImpact returns the expected effect on the price in words, beside the usual range,
// which is one deviation of what the price does in as many days. sigma is the deviation of
// the commodity's daily log returns. Quiet weather has no effect worth acting on.
func (o *Outlook) ExpectedImpact(sigma float64) string {
	usual := 100 * sigma * math.Sqrt(impactDays)
	if o.Quiet() {
		return fmt.Sprintf("%s (usual range in %d days ± %.1f %%): %s", signal.NoSignal, impactDays, usual, o.channel)
	}
	return fmt.Sprintf("%+.1f %% in %d days (a scale; usual range ± %.1f %%): %s",
		tenths(impactShare*o.Z*usual), impactDays, usual, o.channel)
}

// tenths returns v rounded to one decimal, without "-0".
func tenths(v float64) float64 {
	if v = math.Round(10*v) / 10; v == 0 {
		return 0
	}
	return v
}

// eventful is the anomaly, in deviations, from which on weather has a name and is worth acting on.
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
