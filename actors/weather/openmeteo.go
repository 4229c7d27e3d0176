package weather

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// OpenMeteoName is the name of Open-Meteo as a source.
const OpenMeteoName = "open_meteo"

// The servers of Open-Meteo: without a key for what is not commercial, with one for
// customers.
const (
	openMeteoForecast    = "https://api.open-meteo.com"
	openMeteoArchive     = "https://archive-api.open-meteo.com"
	openMeteoForecastFor = "https://customer-api.open-meteo.com"
	openMeteoArchiveFor  = "https://customer-archive-api.open-meteo.com"
)

// variables are what is asked for, in the order of Day.
var variables = [dayValues]string{"temperature_2m_mean", "temperature_2m_max", "temperature_2m_min", "precipitation_sum",
	"et0_fao_evapotranspiration", "wind_gusts_10m_max"}

// units are what the values must be in.
var units = [dayValues]string{"°C", "°C", "°C", "mm", "mm", "km/h"}

// OpenMeteoOptions are the parts of an OpenMeteo that may be left out.
type OpenMeteoOptions struct {
	APIKey      string // empty: the free service, which is not for commercial use
	ForecastURL string // scheme and host; default by APIKey
	ArchiveURL  string
	// Refresh is the age at which a forecast is asked for again; default 1 h.
	Refresh time.Duration
	// Client asks; default one that keeps within the limits of the free service.
	Client *fetch.Client
	// Done is told of every request and how it ended, see fetch.Options. It may be nil.
	Done func(source, result string)
}

// OpenMeteo asks Open-Meteo.
type OpenMeteo struct {
	o      OpenMeteoOptions
	client *fetch.Client
	// one is held during a request: the service takes one at a time from an address.
	one chan struct{}
}

// NewOpenMeteo returns a source that asks Open-Meteo.
func NewOpenMeteo(o OpenMeteoOptions) *OpenMeteo {
	forecast, archive := openMeteoForecast, openMeteoArchive
	if o.APIKey != "" {
		forecast, archive = openMeteoForecastFor, openMeteoArchiveFor
	}
	o.ForecastURL = strings.TrimRight(cmp.Or(o.ForecastURL, forecast), "/")
	o.ArchiveURL = strings.TrimRight(cmp.Or(o.ArchiveURL, archive), "/")
	o.Refresh = cmp.Or(o.Refresh, time.Hour)
	if o.Client == nil {
		// 600 a minute and 5,000 an hour are allowed; a long archive counts for many.
		o.Client = fetch.New(fetch.Options{Name: OpenMeteoName, Rate: 1, Burst: 5, Done: o.Done})
	}
	return &OpenMeteo{o: o, client: o.Client, one: make(chan struct{}, 1)}
}

// Name implements Source.
func (m *OpenMeteo) Name() string { return OpenMeteoName }

// Attribution implements Source: the data are CC BY 4.0.
func (m *OpenMeteo) Attribution() string { return "Weather data by Open-Meteo.com (CC BY 4.0)" }

// Newest implements Source. Answers do not tell when a model ran, so the time of the
// request stands for it.
func (m *OpenMeteo) Newest(now, known time.Time) time.Time {
	if now.Sub(known) < m.o.Refresh {
		return known
	}
	return now
}

// Forecast implements Source.
func (m *OpenMeteo) Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error) {
	// Two days more, so that it serves until the next one comes, be that late.
	all, err := m.ask(ctx, m.o.ForecastURL+"/v1/forecast", at, url.Values{"forecast_days": {strconv.Itoa(horizon + 2)}})
	return all, now, err
}

// Archive implements Source.
func (m *OpenMeteo) Archive(ctx context.Context, at []*Point) (map[string]*Series, error) {
	return m.ask(ctx, m.o.ArchiveURL+"/v1/archive", at,
		url.Values{"start_date": {firstOf(archiveFrom).String()}, "end_date": {(firstOf(archiveTo+1) - 1).String()}})
}

// ask returns the weather of some points, by name.
func (m *OpenMeteo) ask(ctx context.Context, address string, at []*Point, values url.Values) (map[string]*Series, error) {
	select {
	case m.one <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.one }()
	var latitudes, longitudes []string
	for _, p := range at {
		latitudes = append(latitudes, strconv.FormatFloat(p.Latitude, 'f', 2, 64))
		longitudes = append(longitudes, strconv.FormatFloat(p.Longitude, 'f', 2, 64))
	}
	values.Set("latitude", strings.Join(latitudes, ","))
	values.Set("longitude", strings.Join(longitudes, ","))
	values.Set("daily", strings.Join(variables[:], ","))
	values.Set("timezone", "GMT")
	if m.o.APIKey != "" {
		values.Set("apikey", m.o.APIKey)
	}
	answer, err := m.client.Get(ctx, fetch.Request{URL: address + "?" + values.Encode()})
	if err != nil {
		return nil, m.failed(err)
	}
	list, err := decodeOpenMeteo(answer.Body, len(at))
	if err != nil {
		return nil, m.failed(m.client.Undecodable(err))
	}
	all := make(map[string]*Series, len(at))
	for i, p := range at {
		all[p.Name] = list[i]
	}
	return all, nil
}

// failed returns the error of a run that needs what err has kept from us.
func (m *OpenMeteo) failed(err error) error {
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return err
	}
	failure := &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: e.RetryAfter,
		Message: "the weather service does not answer", Cause: errors.New(m.redacted(e.Error()))}
	if e.Status != 0 {
		failure.Message = "the weather service answers with status " + strconv.Itoa(e.Status)
	}
	if e.Kind == fetch.Content || e.Kind == fetch.Large {
		failure.Message = "the weather service gives no usable answer"
	}
	if reason := reasonOf(e.Body); reason != "" {
		failure.Cause = errors.New(m.redacted(e.Error() + ": " + reason))
	}
	if e.Kind == fetch.Refused && e.Status == http.StatusBadRequest {
		failure.Retryable = false // such as an unknown variable: asking again does not help
	}
	return failure
}

// redacted returns text without the key, which addresses in errors show.
func (m *OpenMeteo) redacted(text string) string {
	if m.o.APIKey == "" {
		return text
	}
	return strings.NewReplacer(url.QueryEscape(m.o.APIKey), "***", m.o.APIKey, "***").Replace(text)
}

// reasonOf returns what the body of an error says.
func reasonOf(body []byte) string {
	var e struct {
		Error  bool   `json:"error"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(body, &e) != nil || !e.Error {
		return ""
	}
	return e.Reason
}

// place is an answer for one point.
type place struct {
	Error  bool              `json:"error"`
	Reason string            `json:"reason"`
	Units  map[string]string `json:"daily_units"`
	Daily  *struct {
		Time []string   `json:"time"`
		Mean []*float64 `json:"temperature_2m_mean"`
		Max  []*float64 `json:"temperature_2m_max"`
		Min  []*float64 `json:"temperature_2m_min"`
		Rain []*float64 `json:"precipitation_sum"`
		ET0  []*float64 `json:"et0_fao_evapotranspiration"`
		Gust []*float64 `json:"wind_gusts_10m_max"`
	} `json:"daily"`
}

// decodeOpenMeteo reads an answer for n points: one object for one, a list for more.
// A null is a value that is missing.
func decodeOpenMeteo(body []byte, n int) ([]*Series, error) {
	places := make([]place, 1)
	var err error
	if n == 1 && !strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 64)])), "[") {
		err = json.Unmarshal(body, &places[0])
	} else {
		err = json.Unmarshal(body, &places)
	}
	if err != nil {
		return nil, fmt.Errorf("decode weather: %w", err)
	}
	if len(places) != n {
		return nil, fmt.Errorf("decode weather: %d places instead of %d", len(places), n)
	}
	list := make([]*Series, n)
	for i := range places {
		if list[i], err = places[i].series(); err != nil {
			return nil, fmt.Errorf("decode weather of place %d: %w", i, err)
		}
	}
	return list, nil
}

// series checks an answer and returns its days.
func (p *place) series() (*Series, error) {
	switch {
	case p.Error:
		return nil, errors.New(p.Reason)
	case p.Daily == nil || len(p.Daily.Time) == 0:
		return nil, errors.New("there are no days")
	}
	d := p.Daily
	s := &Series{Days: make([]Day, len(d.Time))}
	for i, text := range d.Time {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, fmt.Errorf("%.20q is no date", text)
		}
		if i == 0 {
			s.From = DateOf(t)
		} else if DateOf(t) != s.From+Date(i) {
			return nil, fmt.Errorf("%s does not follow on the day before", text)
		}
	}
	for v, column := range [dayValues][]*float64{d.Mean, d.Max, d.Min, d.Rain, d.ET0, d.Gust} {
		if len(column) != len(s.Days) {
			return nil, fmt.Errorf("%s has %d values for %d days", variables[v], len(column), len(s.Days))
		}
		if unit, ok := p.Units[variables[v]]; ok && unit != units[v] {
			return nil, fmt.Errorf("%s is in %.20q", variables[v], unit)
		}
		for i, x := range column {
			*s.Days[i].value(v) = possible(x, v)
		}
	}
	return s, nil
}

// bounds are what weather on earth can be, by value.
var bounds = [dayValues][2]float64{{-95, 65}, {-95, 65}, {-95, 65}, {0, 2000}, {-1, 50}, {0, 500}}

// possible returns a value, which is missing if it is null or impossible.
func possible(x *float64, v int) float32 {
	if x == nil || math.IsNaN(*x) || *x < bounds[v][0] || *x > bounds[v][1] {
		return missing
	}
	return float32(*x)
}
