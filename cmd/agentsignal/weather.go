package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
)

// newWeather returns who answers questions about the weather, and how it moves simulated
// prices: nil if it does not. The simulated weather follows the seed and the speed of the
// simulated market, and has nothing to keep.
func newWeather(c configs.Config, store *persistence.Store, log *slog.Logger) (*weather.Service, func(string, time.Time) float64) {
	o := weather.Options{Records: store, Retention: time.Duration(c.Signals.Retention), Speed: barSpeed(c.Market), Now: store.Now, Log: log}
	if c.Weather.Source == weather.SimulatedName {
		source := weather.NewSimulated(c.Market.Seed, c.Market.Speed)
		return weather.New(source, o), source.Anomaly
	}
	o.Store = store
	return weather.New(openMeteo(c), o), nil
}

// forecasts is the weather as open signals ask for it.
type forecasts struct{ weather *weather.Service }

// Turned implements lifecycle.Forecasts.
func (f forecasts) Turned(strategy string, d signal.Direction, o *signal.Outlook) (likelihood, weight float64, ok bool) {
	return f.weather.Likelihood(weather.Question{Strategy: strategy, Commodity: o.Commodity, Region: o.Region}, d)
}

// feed feeds the market. The climate, which takes a moment to compute, is there before
// this node may become the feeder: prices must not wait for it later.
func (p *process) feed(ctx context.Context) error {
	if p.pull != nil {
		for _, commodity := range agent.Commodities {
			p.pull(commodity, p.store.Now())
		}
	}
	return p.feeder.Run(ctx)
}

func openMeteo(c configs.Config) *weather.OpenMeteo {
	return weather.NewOpenMeteo(weather.OpenMeteoOptions{APIKey: string(c.Weather.APIKey),
		ForecastURL: c.Weather.ForecastURL, ArchiveURL: c.Weather.ArchiveURL})
}

// examineWeather asks the configured source of weather for the forecast of a point;
// nothing where it is simulated.
func examineWeather(ctx context.Context, c configs.Config) []market.Checkup {
	if c.Weather.Source == weather.SimulatedName {
		return nil
	}
	start, at := time.Now(), weather.Points()[0]
	found := market.Checkup{Source: c.Weather.Source}
	got, _, err := openMeteo(c).Forecast(ctx, []*weather.Point{&at}, start)
	found.Took = time.Since(start)
	switch e, failed := errors.AsType[*signal.RunError](err); {
	case failed:
		found.Note = fmt.Sprintf("%s: %v", e.Message, e.Cause)
	case err != nil:
		found.Note = err.Error()
	default:
		found.Works, found.Note = true, fmt.Sprintf("forecast for %s to %s", at.Name, got[at.Name].Last())
	}
	return []market.Checkup{found}
}
