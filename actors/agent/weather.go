package agent

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/actors/weather"
)

// Weather provides outlooks on the weather. See weather.Service.
type Weather interface {
	// Outlook answers a question by the newest forecast. The error is a *signal.RunError.
	Outlook(ctx context.Context, q weather.Question) (weather.Report, error)
}

// forecaster is the weather agent. It builds on daily bars, whatever the timeframe of the
// request.
type forecaster struct {
	weather Weather
	prices  *trader
}

// Evaluate implements evaluator.
func (f *forecaster) Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error) {
	seen, err := f.prices.market.Series(ctx, r.Asset, signal.D1)
	if err != nil {
		return evaluation{}, err
	}
	_, series, _, err := f.prices.follow(ctx, &seen, signal.D1)
	if err != nil {
		return evaluation{}, err
	}
	base, err := series.Base(r.Risk)
	if err != nil {
		return evaluation{}, err
	}
	report, err := f.weather.Outlook(ctx, weather.Question{Strategy: r.Strategy, Commodity: strings.ToLower(r.Asset),
		Region: cmp.Or(r.Parameters.Region, weather.Global)})
	if err != nil {
		return evaluation{}, err
	}
	a := assess(base, &report)
	e, err := f.prices.complete(r, &seen, a)
	if err != nil {
		return evaluation{}, err
	}
	e.Timeframe, e.Lifetime = signal.D1, seen.Lifetime(f.prices.now(), e.Lifetime, signal.D1)
	e.Weather = &signal.Outlook{Commodity: report.Commodity, Region: report.Region, Event: report.Event,
		ExpectedImpact: report.ExpectedImpact(base.Sigma), Likelihood: report.Likelihood(a.Direction)}
	return e, nil
}

// assess adjusts the prior of an entry by the forecast.
func assess(base strategy.Base, report *weather.Report) strategy.Assessment {
	a := base.Assessment(report.Strategy, report.Z, report.Direction())
	a.Confidence = signal.RoundConfidence(report.Confidence(base.Prior))
	a.Strength = decimals(report.Strength, 4)
	a.Indicators = []string{report.Driver, "anomaly_z"}
	a.Values = map[string]any{report.Driver: decimals(report.Value, 4), "anomaly_z": decimals(report.Z, 4)}
	a.Finding = report.Finding
	a.Extra = map[string]any{"weather_source": report.Source, "region": report.Region,
		"forecast_at": report.Run.UTC().Format(signal.TimeLayout), "prior": a.Prior, "tau": report.Slope.Tau}
	if report.Input != "" {
		a.Extra["input_hash"] = report.Input
	}
	a.Calibration, a.Quiet = strategy.CalibrationAssumed, report.Quiet()
	if n := report.Slope.Fitted; n > 0 {
		a.Calibration, a.Closed = strategy.CalibrationFitted, n
		a.Extra["tau_signals"] = n
	}
	if report.Attribution != "" {
		a.Extra["attribution"] = report.Attribution
	}
	return a
}

func decimals(v float64, n int) float64 {
	scale := math.Pow10(n)
	return math.Round(v*scale) / scale
}

// linked returns metadata with the identifier of the Weather signal added.
func linked(metadata []byte, id signal.WeatherID) []byte {
	end := len(metadata) - 1
	b := make([]byte, 0, len(metadata)+64)
	b = append(b, metadata[:end]...)
	b = append(b, `,"weather_signal_id":"`...)
	b = append(b, id...)
	return append(b, `"}`...)
}
