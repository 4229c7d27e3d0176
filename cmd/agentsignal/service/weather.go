package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
)

// newWeather returns the weather service and, if that is its source, the simulated weather.
// That moves simulated prices and has the seed and the speed of the simulated market. Its
// forecasts are not stored.
func (p *process) newWeather(store weather.Store) (*weather.Service, *weather.Simulated) {
	c := p.config
	o := weather.Options{
		Records:   p.store.Signals,
		Retention: time.Duration(c.Signals.Retention),
		Speed:     barSpeed(c.Market),
		Now:       p.store.Client.Now,
		Log:       p.log,
		// The weather is built first, because agents ask it; it is asked when all is built.
		OnForecast: func(q weather.Question) {
			p.lifecycle.ForecastArrived(q.Strategy, q.Commodity, q.Region)
		},
	}
	source := weatherSource(c, weather.NewMetrics(p.registry))
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
		p.climate.Warm(ctx, p.store.Client.Now())
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
