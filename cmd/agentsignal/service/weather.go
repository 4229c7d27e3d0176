package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/feeder"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
)

// newWeather returns the weather service and, if that is its source, the simulated weather. That moves simulated prices
// and has the seed and the speed of the simulated market. Its forecasts are not stored. The service calls arrived with
// the question of each forecast, once all is built.
func newWeather(
	e environment, s *storage, store weather.Store, arrived func(weather.Question),
) (*weather.Service, *weather.Simulated) {
	o := weather.Options{
		Records:    s.store.Signals,
		Retention:  time.Duration(e.config.Signals.Retention),
		Speed:      barSpeed(e.config.Market),
		Now:        s.store.Client.Now,
		Log:        e.log,
		OnForecast: arrived,
	}
	source := weatherSource(e.config, weather.NewMetrics(e.registry))
	simulated, isSimulated := source.(*weather.Simulated)
	if !isSimulated {
		o.Store = store
	}
	service := weather.New(source, o)
	e.stops.Add("weather", service.Close)
	return service, simulated
}

// forecasts adapts the weather to lifecycle.Forecasts.
type forecasts struct{ weather *weather.Service }

// Turned implements lifecycle.Forecasts.
func (f forecasts) Turned(
	strategy string, d signal.Direction, o *signal.Outlook,
) (likelihood, weight float64, ok bool) {
	return f.weather.Likelihood(weather.Question{Strategy: strategy, Commodity: o.Commodity, Region: o.Region}, d)
}

// weatherSource returns the configured source of weather.
func weatherSource(c configs.Config, metrics *weather.Metrics) weather.Source {
	if c.Weather.Source == weather.SimulatedName {
		return weather.NewSimulated(feeder.DefaultSeed, c.Market.Speed)
	}
	return weather.NewOpenMeteo(weather.OpenMeteoOptions{
		APIKey:      string(c.Weather.APIKey),
		ForecastURL: c.Weather.ForecastURL,
		ArchiveURL:  c.Weather.ArchiveURL,
		Metrics:     metrics,
	})
}

// CheckWeather checks the configured source of weather by the forecast of one point.
func CheckWeather(ctx context.Context, c configs.Config) source.HealthCheck {
	start, at := time.Now(), weather.Points()[0]
	found := source.HealthCheck{Source: "weather " + c.Weather.Source}
	got, run, err := weatherSource(c, nil).Forecast(ctx, []*weather.Point{&at}, start)
	found.Took = time.Since(start)
	switch e, failed := errors.AsType[*signal.RunError](err); {
	case failed:
		found.Note = e.Message
		if e.Cause != nil {
			found.Note += ": " + e.Cause.Error()
		}
	case err != nil:
		found.Note = err.Error()
	default:
		found.Works, found.Age = true, start.Sub(run)
		found.Note = fmt.Sprintf("forecast for %s to %s", at.Name, got[at.Name].Last())
	}
	return found
}
