package main

import (
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
)

// newWeather returns who answers questions about the weather, and how it moves simulated
// prices: nil if it does not. The simulated weather follows the seed and the speed of the
// simulated market, and has nothing to keep.
func newWeather(c configs.Config, store *persistence.Store, log *slog.Logger) (*weather.Service, func(string, time.Time) float64) {
	if c.Weather.Source == weather.SimulatedName {
		source := weather.NewSimulated(c.Market.Seed, c.Market.Speed)
		return weather.New(source, weather.Options{Now: store.Now, Log: log}), source.Anomaly
	}
	source := weather.NewOpenMeteo(weather.OpenMeteoOptions{APIKey: string(c.Weather.APIKey),
		ForecastURL: c.Weather.ForecastURL, ArchiveURL: c.Weather.ArchiveURL})
	return weather.New(source, weather.Options{Store: store, Now: store.Now, Log: log}), nil
}

// forecasts is the weather as open signals ask for it.
type forecasts struct{ weather *weather.Service }

// Turned implements lifecycle.Forecasts.
func (f forecasts) Turned(strategy string, d signal.Direction, o *signal.Outlook) (likelihood, weight float64, ok bool) {
	likelihood, ok = f.weather.Likelihood(weather.Question{Strategy: strategy, Commodity: o.Commodity, Region: o.Region}, d)
	return likelihood, weather.Weight(o.Commodity), ok
}
