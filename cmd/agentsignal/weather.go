package main

import (
	"log/slog"

	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
)

// newWeather returns who answers questions about the weather. The simulated one follows
// the seed and the speed of the simulated market, and has nothing to keep.
func newWeather(c configs.Config, store *persistence.Store, log *slog.Logger) *weather.Service {
	if c.Weather.Source == weather.SimulatedName {
		return weather.New(weather.NewSimulated(c.Market.Seed, c.Market.Speed), weather.Options{Now: store.Now, Log: log})
	}
	source := weather.NewOpenMeteo(weather.OpenMeteoOptions{APIKey: string(c.Weather.APIKey),
		ForecastURL: c.Weather.ForecastURL, ArchiveURL: c.Weather.ArchiveURL})
	return weather.New(source, weather.Options{Store: store, Now: store.Now, Log: log})
}
