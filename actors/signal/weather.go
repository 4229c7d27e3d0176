package signal

import "time"

// Outlook describes the weather behind a signal and its expected effect. A weather run
// stores it in the record of its signal; the two make up the Weather signal.
type Outlook struct {
	Commodity string // natural_gas, wheat, corn or oil
	Region    string // us, eu, asia or global
	Event     WeatherEvent
	// ExpectedImpact describes in words the effect of the event on the price.
	ExpectedImpact string
	// Likelihood is the probability, 0 to 1, that the anomaly keeps the sign that
	// supports the signal, by the forecast on which FirstConfidence rests.
	Likelihood float64
}

// WeatherEvent is the forecast weather.
type WeatherEvent struct {
	Type         string  // such as ColdSnap
	Severity     string  // one of Severities
	Location     string  // the name of a point
	ForecastDate string  // of the peak, YYYY-MM-DD
	Deviation    float64 // of the temperature at Location from normal in the first week, °C
}

// NoSignal is the reasoning where the weather is too near normal to act on.
const NoSignal = "no signal worth acting on"

// Severities lists the degrees of deviation from normal, ascending.
var Severities = []string{"low", "medium", "high", "extreme"}

// The types of weather events.
const (
	ColdSnap   = "cold_snap"
	HeatWave   = "heat_wave"
	MildSpell  = "mild_spell"
	Drought    = "drought"
	ExcessRain = "excess_rain"
	Frost      = "frost"
	Storm      = "storm"
	Seasonal   = "seasonal"
)

// WeatherSignal is the part of a weather run that is shown in addition to its signal.
type WeatherSignal struct {
	ID         WeatherID
	Direction  Direction
	Confidence float64 // the current one of its signal; once closed, Initial
	Initial    float64 // the confidence at its creation
	CreatedAt  time.Time
	Outlook
}
