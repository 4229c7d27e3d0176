package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
)

// newWeather returns the weather service and, if that is its source, the simulated weather.
// That moves simulated prices and has the seed and the speed of the simulated market. Its
// forecasts are not stored.
func newWeather(
	c configs.Config, store *persistence.Store, log *slog.Logger, metrics *weather.Metrics,
) (*weather.Service, *weather.Simulated) {
	o := weather.Options{
		Records:   store,
		Retention: time.Duration(c.Signals.Retention),
		Speed:     barSpeed(c.Market),
		Now:       store.Now,
		Log:       log,
	}
	source := weatherSource(c, metrics)
	if simulated, ok := source.(*weather.Simulated); ok {
		return weather.New(simulated, o), simulated
	}
	o.Store = store
	return weather.New(source, o), nil
}

// feed feeds the market. It first computes the climate, which takes a moment, so that prices
// do not wait for it once this node is the feeder.
func (p *process) feed(ctx context.Context) error {
	if p.climate != nil {
		p.climate.Warm(ctx, p.store.Now())
	}
	return p.feeder.Run(ctx)
}

// weatherSource returns the configured source of weather.
func weatherSource(c configs.Config, metrics *weather.Metrics) weather.Source {
	if c.Weather.Source == weather.SimulatedName {
		return weather.NewSimulated(c.Market.Seed, c.Market.Speed)
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
