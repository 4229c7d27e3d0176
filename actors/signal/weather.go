package signal

import "time"

// Outlook is what the weather behind a signal is and does. A weather run stores it
// with its signal, in one record: together they are the Weather signal.
type Outlook struct {
	Commodity string // natural_gas, wheat, corn or oil
	Region    string // us, eu, asia or global
	Event     WeatherEvent
	// ExpectedImpact says in words what the event does to the price.
	ExpectedImpact string
	// Likelihood is the probability that the anomaly stays on the signal's side, 0 to
	// 1, by the forecast that FirstConfidence rests on.
	Likelihood float64
}

// WeatherEvent is what is forecast.
type WeatherEvent struct {
	Type         string  // one of WeatherEvents
	Severity     string  // one of Severities
	Location     string  // the name of a point
	ForecastDate string  // of its peak, YYYY-MM-DD
	Deviation    float64 // of the temperature there from its normal in the first week, °C
}

// Severities lists how far from normal the weather of an event is, ascending.
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

// WeatherEvents lists them.
var WeatherEvents = []string{ColdSnap, HeatWave, MildSpell, Drought, ExcessRain, Frost, Storm, Seasonal}

// WeatherSignal is what is shown of a weather run beside its signal.
type WeatherSignal struct {
	ID         WeatherID
	Direction  Direction
	Confidence float64 // the current one of its signal
	CreatedAt  time.Time
	Outlook
}
