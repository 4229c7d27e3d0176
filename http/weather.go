package http

import (
	"context"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Weather holds the weather signals. See catalogue.Catalogue.
type Weather interface {
	WeatherSignals(ctx context.Context, q catalogue.WeatherQuery) (items []signal.WeatherSignal, total int, err error)
	// WeatherSignal returns one signal of a view, or KindNotFound.
	WeatherSignal(ctx context.Context, account signal.AccountID, view *signal.View, id string) (signal.WeatherSignal, error)
}

// WeatherHandlers answer for weather signals.
type WeatherHandlers struct{ weather Weather }

// NewWeatherHandlers returns the handlers of weather signals. Their routes must precede those of
// SignalHandlers, among which weather would be the ID of a signal.
func NewWeatherHandlers(weather Weather) *WeatherHandlers { return &WeatherHandlers{weather} }

// Routes implements Resource.
func (h *WeatherHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/signals/weather", methods{"GET": seen(immediate(get(signal.SignalsRead, h.list,
			"region", "commodity", "severity", "limit", "offset", "since")))}),
		route("/v1/signals/weather/{id}", methods{"GET": seen(immediate(get(signal.SignalsRead, h.byID)))}),
	}
}

// list answers GET /v1/signals/weather.
func (h *WeatherHandlers) list(c *call) error {
	q := c.query
	p := q.Page()
	wanted := catalogue.WeatherQuery{
		Account:   c.principal.Account,
		View:      c.principal.View,
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
	items, total, err := h.weather.WeatherSignals(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, weatherList{views(items, viewWeather), total})
}

// byID answers GET /v1/signals/weather/{id}.
func (h *WeatherHandlers) byID(c *call) error {
	w, err := h.weather.WeatherSignal(c.r.Context(), c.principal.Account, c.principal.View, c.vars["id"])
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, viewWeather(&w))
}

type weatherList struct {
	Signals []weatherView `json:"signals"`
	Total   int           `json:"total"`
}

// weatherView is the Weather signal object of the specification.
type weatherView struct {
	ID             signal.WeatherID `json:"signal_id"`
	Type           string           `json:"type"`
	Commodity      string           `json:"commodity"`
	Region         string           `json:"region"`
	Direction      signal.Direction `json:"direction"`
	Confidence     number           `json:"confidence"`
	Initial        number           `json:"initial_confidence"`
	Event          weatherEventView `json:"weather_event"`
	ExpectedImpact string           `json:"expected_impact"`
	CreatedAt      instant          `json:"created_at"`
}

type weatherEventView struct {
	Type         string `json:"type"`
	Severity     string `json:"severity"`
	Location     string `json:"location"`
	ForecastDate string `json:"forecast_date"`
	Deviation    number `json:"temperature_deviation"`
}

func viewWeather(w *signal.WeatherSignal) weatherView {
	e := &w.Event
	return weatherView{
		ID:             w.ID,
		Type:           "weather_arbitrage",
		Commodity:      w.Commodity,
		Region:         w.Region,
		Direction:      w.Direction,
		Confidence:     number(signal.RoundConfidence(w.Confidence)),
		Initial:        number(signal.RoundConfidence(w.Initial)),
		Event:          weatherEventView{e.Type, e.Severity, e.Location, e.ForecastDate, number(e.Deviation)},
		ExpectedImpact: w.ExpectedImpact,
		CreatedAt:      instant(w.CreatedAt),
	}
}
