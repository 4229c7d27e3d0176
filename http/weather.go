package http

import (
	"context"
	"net/http"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Weather holds the weather signals.
type Weather interface {
	WeatherSignals(ctx context.Context, q catalogue.WeatherQuery) (items []signal.WeatherSignal, total int, err error)
	// WeatherSignal returns one, or KindNotFound.
	WeatherSignal(ctx context.Context, account signal.AccountID, id string) (signal.WeatherSignal, error)
}

// noWeather is the Weather of a service whose weather agent makes no signals.
type noWeather struct{}

func (noWeather) WeatherSignals(context.Context, catalogue.WeatherQuery) ([]signal.WeatherSignal, int, error) {
	return nil, 0, nil
}

func (noWeather) WeatherSignal(context.Context, signal.AccountID, string) (signal.WeatherSignal, error) {
	return signal.WeatherSignal{}, signal.NotFound("weather signal")
}

// listWeather answers GET /v1/signals/weather.
func (s *Server) listWeather(c *call) error {
	q := c.query
	p := q.Page()
	wanted := catalogue.WeatherQuery{
		Account:   c.principal.Account,
		Region:    request.Option(q, "region", agent.Regions),
		Commodity: request.Option(q, "commodity", agent.Commodities),
		Severity:  request.Option(q, "severity", signal.Severities),
		Since:     q.Since(),
		Limit:     p.Limit,
		Offset:    p.Offset,
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	items, total, err := s.o.Weather.WeatherSignals(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 64+512*len(items)), `{"signals":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendWeather(b, &items[i])
	}
	b = append(b, `],"total":`...)
	b = strconv.AppendInt(b, int64(total), 10)
	return c.json(http.StatusOK, append(b, '}'))
}

// weatherSignal answers GET /v1/signals/weather/{id}.
func (s *Server) weatherSignal(c *call) error {
	if err := c.faults.Err(); err != nil {
		return err
	}
	w, err := s.o.Weather.WeatherSignal(c.r.Context(), c.principal.Account, c.vars["id"])
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendWeather(nil, &w))
}

// appendWeather adds the Weather signal object of the specification.
func appendWeather(b []byte, w *signal.WeatherSignal) []byte {
	b = append(b, `{"signal_id":`...)
	b = signal.AppendText(b, string(w.ID))
	b = append(b, `,"type":"weather_arbitrage","commodity":`...)
	b = signal.AppendText(b, w.Commodity)
	b = append(b, `,"region":`...)
	b = signal.AppendText(b, w.Region)
	b = append(b, `,"direction":"`...)
	b = append(b, w.Direction...)
	b = append(b, `","confidence":`...)
	b = signal.AppendConfidence(b, w.Confidence)
	b = append(b, `,"weather_event":{"type":`...)
	b = signal.AppendText(b, w.Event.Type)
	b = append(b, `,"severity":`...)
	b = signal.AppendText(b, w.Event.Severity)
	b = append(b, `,"location":`...)
	b = signal.AppendText(b, w.Event.Location)
	b = append(b, `,"forecast_date":`...)
	b = signal.AppendText(b, w.Event.ForecastDate)
	b = append(b, `,"temperature_deviation":`...)
	b = signal.AppendPrice(b, w.Event.Deviation)
	b = append(b, `},"expected_impact":`...)
	b = signal.AppendText(b, w.ExpectedImpact)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, w.CreatedAt)
	return append(b, '}')
}
