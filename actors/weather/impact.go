package weather

import (
	"fmt"
	"math"
)

const (
	// impactShare is what a deviation of weather moves a price, in its own deviations.
	impactShare = .25
	// impactDays is how long that takes.
	impactDays = 5
	// maxPercent is from where a share of normal says nothing: normal is next to none.
	maxPercent = 500
)

// say puts in words what is out of the ordinary.
func (o *Outlook) say(what string, s *seen) {
	o.channel = fmt.Sprintf("%s %s normal in %s", what, distance(o.Z, s), regionName(o.Region))
	o.Finding = fmt.Sprintf("%s over the next %d days (z %+.2f), most of it at %s about %s", o.channel, horizon, o.Z,
		o.Event.Location, o.Event.ForecastDate)
}

// distance returns "22 % above", or in deviations where a share would say nothing.
func distance(z float64, s *seen) string {
	side := "above"
	if s.sum < 0 {
		side = "below"
	}
	if share := 100 * s.sum / s.normal; finite(share) && math.Abs(share) <= maxPercent {
		return fmt.Sprintf("%.0f %% %s", math.Abs(share), side)
	}
	if s.sum == 0 {
		return "0 % above"
	}
	return fmt.Sprintf("%.1f sigma %s", math.Abs(z), side)
}

func regionName(region string) string {
	if region == Global {
		return "all regions"
	}
	return region
}

// ExpectedImpact returns what the weather should do to the price, in words. sigma is
// the deviation of the commodity's daily log returns.
func (o *Outlook) ExpectedImpact(sigma float64) string {
	size := tenths(100 * impactShare * o.Z * sigma * math.Sqrt(impactDays))
	return fmt.Sprintf("%+.1f %% in %d days: %s", size, impactDays, o.channel)
}

// tenths rounds v to one decimal; what is nearly 0 has no sign.
func tenths(v float64) float64 {
	if v = math.Round(10*v) / 10; v == 0 {
		return 0
	}
	return v
}
