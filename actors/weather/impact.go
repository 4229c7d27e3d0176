package weather

import (
	"fmt"
	"math"
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

// describe sets the words of the outlook.
func (o *Outlook) describe(what string, s *seen) {
	o.channel = fmt.Sprintf("%s %s normal in %s", what, distance(o.Z, s), regionName(o.Region))
	o.Finding = fmt.Sprintf("%s over the next %d days (z %+.2f), most of it at %s about %s", o.channel, horizon, o.Z,
		o.Event.Location, o.Event.ForecastDate)
}

// distance returns the distance from normal, such as "22 % above", or in deviations if a
// share is meaningless.
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

// ExpectedImpact returns the expected effect on the price in words. sigma is the
// deviation of the commodity's daily log returns.
func (o *Outlook) ExpectedImpact(sigma float64) string {
	size := tenths(100 * impactShare * o.Z * sigma * math.Sqrt(impactDays))
	return fmt.Sprintf("%+.1f %% in %d days: %s", size, impactDays, o.channel)
}

// tenths returns v rounded to one decimal, without "-0".
func tenths(v float64) float64 {
	if v = math.Round(10*v) / 10; v == 0 {
		return 0
	}
	return v
}
