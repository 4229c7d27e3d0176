package agent

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/actors/weather"
)

// Weather says what is forecast. See weather.Service.
type Weather interface {
	// Outlook answers a question by the newest forecast, or fails with a
	// *signal.RunError.
	Outlook(ctx context.Context, q weather.Question) (weather.Report, error)
}

// forecaster is the weather agent. The prices that it builds on are bars of a day,
// whatever timeframe is asked for.
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
	kept := f.prices.series(seriesKey{seen.Asset.Symbol, signal.D1, seen.Source, seen.Compression})
	series, _, err := kept.follow(&seen, signal.D1)
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
	levels, err := a.Levels(seen.Last.Price, seen.Asset.TickSize)
	if err != nil {
		return evaluation{}, err
	}
	extra := map[string]any{"source": seen.Source, "weather_source": report.Source, "region": report.Region,
		"forecast_at": report.Run.UTC().Format(signal.TimeLayout), "prior": a.Prior, "tau": report.Slope.Tau}
	if seen.Compression > 1 {
		extra["time_compression"] = seen.Compression
	}
	if seen.Proxy != "" {
		extra["proxy"] = seen.Proxy
	}
	if report.Attribution != "" {
		extra["attribution"] = report.Attribution
	}
	return evaluation{Direction: a.Direction, Confidence: a.Confidence, Levels: &levels, Metadata: slices.Clip(a.Metadata(r.Asset, levels, extra)),
		Lifetime: seen.Lifetime(f.prices.now(), strategy.Lifetime(signal.D1, r.Risk, seen.Compression), signal.D1), Timeframe: signal.D1,
		Weather: &signal.Outlook{Commodity: report.Commodity, Region: report.Region, Event: report.Event,
			ExpectedImpact: report.ExpectedImpact(base.Sigma), Likelihood: report.Likelihood(a.Direction)}}, nil
}

// assess puts the forecast on top of what an entry without an opinion is worth.
func assess(base strategy.Base, report *weather.Report) strategy.Assessment {
	a := base.Assessment(report.Strategy, report.Z, report.Direction())
	a.Confidence = signal.RoundConfidence(report.Confidence(base.Prior))
	if report.Slope.Fitted > 0 {
		a.Calibration = strategy.CalibrationFitted
	}
	a.Strength = decimals(report.Strength, 4)
	a.Indicators = []string{report.Driver, "anomaly_z"}
	a.Values = map[string]any{report.Driver: decimals(report.Value, 4), "anomaly_z": decimals(report.Z, 4)}
	a.Finding = report.Finding
	return a
}

func decimals(v float64, n int) float64 {
	scale := math.Pow10(n)
	return math.Round(v*scale) / scale
}

// linked returns the metadata of a signal with the identifier of its Weather signal.
func linked(metadata []byte, id signal.WeatherID) []byte {
	end := len(metadata) - 1
	b := make([]byte, 0, len(metadata)+64)
	b = append(b, metadata[:end]...)
	b = append(b, `,"weather_signal_id":"`...)
	b = append(b, id...)
	return append(b, `"}`...)
}
