package weather

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// OpenMeteoName is the name of Open-Meteo as a source.
const OpenMeteoName = "open_meteo"

// The servers of Open-Meteo: those of the free service, which is not for commercial use,
// and those for customers, who have a key.
const (
	openMeteoForecast    = "https://api.open-meteo.com"
	openMeteoArchive     = "https://archive-api.open-meteo.com"
	openMeteoForecastFor = "https://customer-api.open-meteo.com"
	openMeteoArchiveFor  = "https://customer-archive-api.open-meteo.com"
)

// variables are the requested values, in the order of Day.
var variables = [dayValues]string{"temperature_2m_mean", "temperature_2m_max", "temperature_2m_min",
	"precipitation_sum", "et0_fao_evapotranspiration", "wind_gusts_10m_max"}

// units are the required units of the values.
var units = [dayValues]string{"°C", "°C", "°C", "mm", "mm", "km/h"}

// OpenMeteoOptions are the optional parts of an OpenMeteo.
type OpenMeteoOptions struct {
	APIKey      string // empty: the free service
	ForecastURL string // scheme and host; the default depends on APIKey
	ArchiveURL  string
	Metrics     *Metrics // or nil
}

const (
	// refreshAge is the age at which a forecast is requested again.
	refreshAge = time.Hour
	// freeRate and freeBurst are the limits of the free service per minute. Its limits of
	// 5,000 calls an hour and 10,000 a day are respected once it reports that they are
	// exceeded.
	freeRate  = 10
	freeBurst = 600
	// callValues is the number of values of a point that count as one call: 10 variables
	// of 14 days.
	callValues = 10 * 14
)

// callsOf returns the number of calls that a request counts for in the free service.
// Thirty years of one point are 470.
func callsOf(points, days int) int { return points * ((days*dayValues + callValues - 1) / callValues) }

// OpenMeteo is the source Open-Meteo.
type OpenMeteo struct {
	o OpenMeteoOptions
	// The servers have separate limits and failures: forecasts continue when the
	// archive's limit of the day is used up.
	forecast, archive *fetch.Client
	// one is held during a request: the service accepts one at a time from an address.
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
	rest := func(body []byte) time.Duration { return restFor(reasonOf(body), time.Now()) }
	client := fetch.Options{Name: OpenMeteoName, Rate: freeRate, Burst: freeBurst, Rest: rest, Done: o.Metrics.asked}
	return &OpenMeteo{o: o, forecast: fetch.New(client), archive: fetch.New(client), one: make(chan struct{}, 1)}
}

// restFor returns how long not to ask the service, from the reason of its refusal; 0 if
// the reason does not require it. Limits are reset with each minute, hour and day.
func restFor(reason string, now time.Time) time.Duration {
	const busy = 2 * time.Second // too many requests from this address are under way
	if strings.HasPrefix(reason, "Too many concurrent requests") {
		return busy
	}
	const day = 24 * time.Hour
	for name, window := range map[string]time.Duration{"Minutely": time.Minute, "Hourly": time.Hour, "Daily": day} {
		if strings.HasPrefix(reason, name+" API request limit exceeded") {
			return now.Truncate(window).Add(window + time.Second).Sub(now)
		}
	}
	return 0
}

// Name implements Source.
func (m *OpenMeteo) Name() string { return OpenMeteoName }

// Attribution implements Source: the data are CC BY 4.0.
func (m *OpenMeteo) Attribution() string { return "Weather data by Open-Meteo.com (CC BY 4.0)" }

// Newest implements Source. Answers do not contain the time of the model run, so the time
// of the request stands for it.
func (m *OpenMeteo) Newest(now, known time.Time) time.Time {
	if now.Sub(known) < refreshAge {
		return known
	}
	return now
}

// Forecast implements Source. The forecast of a point that begins too early for a run within the last staleAfter
// is missing, with STALE_DATA.
func (m *OpenMeteo) Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error) {
	const days = horizon + 2 // more, to last until the next forecast even if that is late
	all, err := m.ask(ctx, m.forecast, m.o.ForecastURL+"/v1/forecast", at, days,
		url.Values{"forecast_days": {strconv.Itoa(days)}})
	for name, s := range all {
		if s.From < DateOf(now.Add(-staleAfter)) {
			delete(all, name)
			m.o.Metrics.missed(missingStale)
			err = &signal.RunError{Code: signal.StaleData, Retryable: true, RetryAfter: stalePause,
				Message: fmt.Sprintf("the weather service gives a forecast for %s of %s", name, s.From), Cause: err}
		}
	}
	return all, now, err
}

const (
	// stalePause is the pause after an outdated forecast.
	stalePause = 10 * time.Minute
	// missingPause is the pause after an answer without some of the points, which are then asked for alone.
	missingPause = time.Minute
)

// Archive implements Source.
func (m *OpenMeteo) Archive(ctx context.Context, at []*Point) (map[string]*Series, error) {
	from, to := firstOf(archiveFrom), firstOf(archiveTo+1)-1
	return m.ask(ctx, m.archive, m.o.ArchiveURL+"/v1/archive", at, int(to-from)+1,
		url.Values{"start_date": {from.String()}, "end_date": {to.String()}})
}

// ask returns the weather of some points, by name, and of those that it could read also if it fails for others.
// days is the number of days requested.
func (m *OpenMeteo) ask(ctx context.Context, client *fetch.Client, address string, at []*Point, days int,
	values url.Values) (map[string]*Series, error) {
	select {
	case m.one <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.one }()
	var latitudes, longitudes []string
	for _, p := range at {
		latitudes = append(latitudes, strconv.FormatFloat(p.lat, 'f', 2, 64))
		longitudes = append(longitudes, strconv.FormatFloat(p.lon, 'f', 2, 64))
	}
	values.Set("latitude", strings.Join(latitudes, ","))
	values.Set("longitude", strings.Join(longitudes, ","))
	values.Set("daily", strings.Join(variables[:], ","))
	values.Set("timezone", "GMT")
	cost := callsOf(len(at), days)
	if m.o.APIKey != "" {
		values.Set("apikey", m.o.APIKey)
		cost = 1 // a customer's calls are not counted by the minute
	}
	answer, err := client.Get(ctx, fetch.Request{URL: address + "?" + values.Encode(), Cost: cost})
	if err != nil {
		return nil, m.failed(err)
	}
	found, missing, err := decodeOpenMeteo(answer.Body, at)
	for _, f := range missing {
		m.o.Metrics.missed(f.reason)
		err = errors.Join(err, f)
	}
	switch {
	case len(found) == 0:
		return nil, m.failed(client.Undecodable(err))
	case err != nil:
		e := unavailable(errors.New(m.redacted(err.Error())))
		e.RetryAfter = missingPause
		return found, e
	}
	return found, nil
}

// failed returns the error of a run that needs the weather, given the error of its
// request.
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
		failure.Retryable = false // such as an unknown variable: a retry does not help
	}
	return failure
}

// redacted returns text without the key, which is part of the addresses in errors.
func (m *OpenMeteo) redacted(text string) string {
	if m.o.APIKey == "" {
		return text
	}
	return strings.NewReplacer(url.QueryEscape(m.o.APIKey), "***", m.o.APIKey, "***").Replace(text)
}

// reasonOf returns the reason in the body of an error.
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

// place is the answer for one point.
type place struct {
	Error     bool              `json:"error"`
	Reason    string            `json:"reason"`
	Latitude  *float64          `json:"latitude"`
	Longitude *float64          `json:"longitude"`
	Units     map[string]string `json:"daily_units"`
	Daily     *struct {
		Time []string   `json:"time"`
		Mean []*float64 `json:"temperature_2m_mean"`
		Max  []*float64 `json:"temperature_2m_max"`
		Min  []*float64 `json:"temperature_2m_min"`
		Rain []*float64 `json:"precipitation_sum"`
		ET0  []*float64 `json:"et0_fao_evapotranspiration"`
		Gust []*float64 `json:"wind_gusts_10m_max"`
	} `json:"daily"`
}

// missingPoint reports that an answer has nothing of a point.
type missingPoint struct {
	name   string
	reason missingReason
	cause  string
}

func (f *missingPoint) Error() string { return "decode weather of " + f.name + ": " + f.cause }

// notNumbers matches strings, so that nothing in them is replaced, and what the service writes for a number that it
// does not know. JSON has no such tokens.
var notNumbers = regexp.MustCompile(`"(?s:[^"\\]|\\.)*"|[-+]?(?i:nan|inf(?:inity)?)\b`)

// decodeOpenMeteo decodes an answer for some points, in their order: an object for one
// point, a list for more. Each is decoded alone. A null and what is not a number are missing values.
func decodeOpenMeteo(body []byte, at []*Point) (found map[string]*Series, missing []*missingPoint, err error) {
	if !json.Valid(body) {
		body = notNumbers.ReplaceAllFunc(body, func(token []byte) []byte {
			if token[0] == '"' {
				return token
			}
			return []byte("null")
		})
	}
	places := []json.RawMessage{body}
	if len(at) != 1 || bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		if err := json.Unmarshal(body, &places); err != nil {
			return nil, nil, fmt.Errorf("decode weather: %w", err)
		}
	}
	if len(places) != len(at) {
		return nil, nil, fmt.Errorf("decode weather: %d places instead of %d", len(places), len(at))
	}
	found = make(map[string]*Series, len(at))
	for i, q := range at {
		var p place
		if err := json.Unmarshal(places[i], &p); err != nil {
			missing = append(missing, &missingPoint{q.Name, missingMalformed, fmt.Sprintf("decode: %v", err)})
		} else if s, reason, err := p.series(q); err != nil {
			missing = append(missing, &missingPoint{q.Name, reason, err.Error()})
		} else {
			found[q.Name] = s
		}
	}
	return found, missing, nil
}

// gridSize is an upper bound of the distance of a model's grid points, in degrees.
const gridSize = 1

// at reports whether p, which has coordinates, can be the answer for a point, which is that of the nearest grid
// point.
func (p *place) at(q *Point) bool {
	return math.Abs(*p.Latitude-q.lat) <= gridSize && math.Abs(*p.Longitude-q.lon) <= gridSize
}

// series validates an answer for a point and returns its days, or why it has no usable ones.
func (p *place) series(q *Point) (*Series, missingReason, error) {
	switch {
	case p.Error:
		return nil, missingError, fmt.Errorf("the service reports %.200q", p.Reason)
	case p.Latitude == nil || p.Longitude == nil:
		return nil, missingPlace, errors.New("there are no coordinates")
	case !p.at(q):
		return nil, missingPlace, errors.New("it is that of another place")
	case p.Daily == nil || len(p.Daily.Time) == 0:
		return nil, missingDays, errors.New("there are no days")
	}
	d := p.Daily
	s := &Series{Days: make([]Day, len(d.Time))}
	for i, text := range d.Time {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, missingDays, fmt.Errorf("%.20q is no date", text)
		}
		if i == 0 {
			s.From = DateOf(t)
		} else if DateOf(t) != s.From+Date(i) {
			return nil, missingDays, fmt.Errorf("%s does not follow on the day before", text)
		}
	}
	for v, column := range [dayValues][]*float64{d.Mean, d.Max, d.Min, d.Rain, d.ET0, d.Gust} {
		if len(column) != len(s.Days) {
			return nil, missingValues, fmt.Errorf("%s has %d values for %d days", variables[v], len(column), len(s.Days))
		}
		if unit, ok := p.Units[variables[v]]; ok && unit != units[v] {
			return nil, missingValues, fmt.Errorf("%s is in %.20q", variables[v], unit)
		}
		for i, x := range column {
			*s.Days[i].value(v) = possible(x, v)
		}
	}
	return s, "", nil
}

// bounds are the possible values on earth, by kind.
var bounds = [dayValues][2]float64{{-95, 65}, {-95, 65}, {-95, 65}, {0, 2000}, {-1, 50}, {0, 500}}

// possible returns a value, or missing if it is null or impossible.
func possible(x *float64, v int) float32 {
	if x == nil || math.IsNaN(*x) || *x < bounds[v][0] || *x > bounds[v][1] {
		return missing
	}
	return float32(*x)
}
