package weather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// answerFor makes the answer of Open-Meteo for the points and days of a request.
func answerFor(r *http.Request, from Date, n int) string {
	q := r.URL.Query()
	latitudes, longitudes := strings.Split(q.Get("latitude"), ","), strings.Split(q.Get("longitude"), ",")
	var places []string
	for i, latitude := range latitudes {
		var days, columns []string
		for k := range n {
			days = append(days, strconv.Quote((from + Date(k)).String()))
		}
		for v, name := range variables {
			var values []string
			for k := range n {
				if k == 1 && v == 3 {
					values = append(values, "null")
					continue
				}
				values = append(values, fmt.Sprintf("%.1f", float64(v+10*i)+float64(k)/10))
			}
			columns = append(columns, fmt.Sprintf("%q:[%s]", name, strings.Join(values, ",")))
		}
		places = append(places, fmt.Sprintf(`{"latitude":%s,"longitude":%s,"generationtime_ms":0.06,`+
			`"utc_offset_seconds":0,"timezone":"GMT","timezone_abbreviation":"GMT","elevation":182.0,`+
			`"daily_units":{"time":"iso8601","temperature_2m_mean":"°C","wind_gusts_10m_max":"km/h"},`+
			`"daily":{"time":[%s],%s}}`, latitude, longitudes[i], strings.Join(days, ","), strings.Join(columns, ",")))
	}
	if len(places) == 1 {
		return places[0]
	}
	return "[" + strings.Join(places, ",") + "]"
}

func points2() []*Point { return []*Point{&points[0], &points[1]} }

func newFixture(t *testing.T, o OpenMeteoOptions, handle http.HandlerFunc) *OpenMeteo {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	o.ForecastURL, o.ArchiveURL = server.URL, server.URL+"/"
	return NewOpenMeteo(o)
}

// answering returns a handler that answers with 16 days.
func answering(from Date) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { sendJSON(w, 200, answerFor(r, from, 16)) }
}

func sendJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func TestOpenMeteoRequests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	from := day(t, "2026-11-21")
	m := newFixture(t, OpenMeteoOptions{APIKey: "k&y"}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q := r.URL.Query()
		line := r.URL.Path
		for _, name := range []string{"latitude", "longitude", "daily", "timezone", "forecast_days", "start_date",
			"end_date", "apikey"} {
			line += " " + q.Get(name)
		}
		asked = append(asked, line)
		mu.Unlock()
		sendJSON(w, 200, answerFor(r, from, 16))
	})
	now := from.Time().Add(9 * time.Hour)
	got, run, err := m.Forecast(t.Context(), points2(), now)
	if err != nil || !run.Equal(now) {
		t.Fatal(run, err)
	}
	s := got["New York"]
	if s == nil || s.From != from || len(s.Days) != 16 {
		t.Fatalf("forecast is %+v", got)
	}
	if d := s.Days[2]; d != (Day{10.2, 11.2, 12.2, 13.2, 14.2, 15.2}) {
		t.Errorf("day is %+v", d)
	}
	if d := got["Chicago"].Days[1]; !math.IsNaN(float64(d.Rain)) || d.Mean != .1 {
		t.Errorf("a day with a null is %+v", d)
	}
	if _, err := m.Archive(t.Context(), points2()[:1]); err != nil {
		t.Fatal(err)
	}
	daily := strings.Join(variables[:], ",")
	want := []string{"/v1/forecast 41.88,40.71 -87.63,-74.01 " + daily + " GMT 16   k&y",
		"/v1/archive 41.88 -87.63 " + daily + " GMT  1991-01-01 2020-12-31 k&y"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if m.Newest(now.Add(59*time.Minute), now) != now || m.Newest(now.Add(time.Hour), now) == now {
		t.Error("a forecast is not requested again after exactly an hour")
	}
}

func TestOpenMeteoServers(t *testing.T) {
	t.Parallel()
	free, paid := NewOpenMeteo(OpenMeteoOptions{}), NewOpenMeteo(OpenMeteoOptions{APIKey: "k"})
	got := []string{free.o.ForecastURL, free.o.ArchiveURL, paid.o.ForecastURL, paid.o.ArchiveURL}
	want := []string{"https://api.open-meteo.com", "https://archive-api.open-meteo.com",
		"https://customer-api.open-meteo.com", "https://customer-archive-api.open-meteo.com"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if !strings.Contains(free.Attribution(), "Open-Meteo") || !strings.Contains(free.Attribution(), "CC BY 4.0") {
		t.Error(free.Attribution())
	}
}

func TestOpenMeteoOneRequestAtATime(t *testing.T) {
	t.Parallel()
	var now, peak atomic.Int32
	m := newFixture(t, OpenMeteoOptions{APIKey: "k"}, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if n > peak.Load() {
			peak.Store(n)
		}
		time.Sleep(2 * time.Millisecond)
		sendJSON(w, 200, answerFor(r, 0, 16))
	})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if _, err := m.Archive(t.Context(), []*Point{&points[i]}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if peak.Load() != 1 {
		t.Errorf("%d requests at once", peak.Load())
	}
}

func TestOpenMeteoFailures(t *testing.T) {
	t.Parallel()
	// respond answers every request alike, changed as it answers after a change, replaced
	// after replacements.
	respond := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { sendJSON(w, status, body) }
	}
	changed := func(change func(good string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { sendJSON(w, 200, change(answerFor(r, 20000, 16))) }
	}
	replaced := func(old, replacement string) http.HandlerFunc {
		return changed(func(good string) string { return strings.ReplaceAll(good, old, replacement) })
	}
	for name, test := range map[string]struct {
		handle    http.HandlerFunc
		retryable bool
		tries     int32
		after     time.Duration
		cause     string
	}{
		"limited, for long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			sendJSON(w, 429, `{"error":true,"reason":"Hourly API request limit exceeded."}`)
		}, true, 1, 120 * time.Second, "Hourly API request limit exceeded."},
		"limited, with a status of its own": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			sendJSON(w, 400, `{"error":true,"reason":"Too many concurrent requests"}`)
		}, true, 1, time.Minute, "Too many concurrent requests"},
		"unknown variable": {respond(400, `{"error":true,"reason":"Cannot initialize temperature_3m"}`),
			false, 1, 0, "Cannot initialize temperature_3m"},
		"server error": {respond(503, `{}`), true, 3, 0, "503"},
		"page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>maintenance</html>")
		}, true, 1, 0, "content"},
		"page that calls itself JSON": {respond(200, "<!DOCTYPE html><html>"), true, 1, 0, "HTML"},
		"cut":                         {changed(func(good string) string { return good[:300] }), true, 1, 0, "decode"},
		"cut on the way": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5000")
			sendJSON(w, 200, answerFor(r, 20000, 16)[:300])
		}, true, 3, 0, "EOF"},
		"dropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true, 3, 0, "network"},
		"too few places": {changed(func(good string) string { return "[" + good[1:len(good)/2] + "]" }),
			true, 1, 0, ""},
		"one place for two": {respond(200, `[{"daily":{"time":["2026-01-01"]}}]`),
			true, 1, 0, "1 places instead of 2"},
		"no list for two": {respond(200, `{"daily":{"time":["2026-01-01"]}}`), true, 1, 0, "decode"},
		"another order": {changed(strings.NewReplacer(`"latitude":41.88`, `"latitude":40.71`,
			`"longitude":-87.63`, `"longitude":-74.01`).Replace),
			true, 1, missingPause, "of Chicago: it is that of another place"},
		"a value missing": {replaced(`"wind_gusts_10m_max":[5.0,`, `"wind_gusts_10m_max":[`),
			true, 1, missingPause, "wind_gusts_10m_max has 15 values for 16 days"},
		"an error under 200": {respond(200, `[{"error":true,"reason":"busy"},{}]`), true, 1, 0, "busy"},
		"empty places":       {respond(200, `[{},{}]`), true, 1, 0, "no coordinates"},
		"a variable missing": {replaced("et0_fao", "et1_fao"), true, 1, 0, "et0_fao_evapotranspiration has 0 values"},
		"days out of order": {replaced(Date(20003).String(), Date(20004).String()),
			true, 1, 0, "does not follow"},
		"bad date":          {replaced(Date(20003).String(), "x"), true, 1, 0, "no date"},
		"other units":       {replaced("km/h", "mp/h"), true, 1, 0, "mp/h"},
		"text for a number": {replaced("null", `"12"`), true, 1, 0, "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			m := newFixture(t, OpenMeteoOptions{APIKey: "secret"}, func(w http.ResponseWriter, r *http.Request) {
				tries.Add(1)
				test.handle(w, r)
			})
			_, _, err := m.Forecast(t.Context(), points2(), Date(20000).Time())
			e, ok := errors.AsType[*signal.RunError](err)
			if !ok {
				t.Fatalf("the error is %v", err)
			}
			if e.Code != signal.DataUnavailable || e.Retryable != test.retryable || e.RetryAfter != test.after ||
				tries.Load() != test.tries {
				t.Errorf("%+v after %d tries", e, tries.Load())
			}
			if !strings.Contains(e.Cause.Error(), test.cause) || strings.Contains(e.Cause.Error()+e.Message, "secret") {
				t.Errorf("the cause is %v", e.Cause)
			}
		})
	}
}

// TestOpenMeteoPlacesAreDecodedAlone checks that what is wrong with one place costs that place only, and is
// counted by its reason.
func TestOpenMeteoPlacesAreDecodedAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, replacement string // in the answer for New York; an empty old is all of it
		reason           missingReason
		cause            string
	}{
		"an error": {"", `{"error":true,"reason":"no data here"}`, missingError, "no data here"},
		"coordinates that are -nan": {`"latitude":40.71,"longitude":-74.01`, `"latitude":-nan,"longitude":-nan`,
			missingPlace, "no coordinates"},
		"coordinates that are null":    {`"latitude":40.71`, `"latitude":null`, missingPlace, "no coordinates"},
		"no coordinates":               {`"longitude":-74.01,`, ``, missingPlace, "no coordinates"},
		"coordinates of another place": {`"latitude":40.71`, `"latitude":12.3`, missingPlace, "another place"},
		"null":                         {"", `null`, missingPlace, "no coordinates"},
		"no days":                      {`"daily"`, `"hourly"`, missingDays, "no days"},
		"a day twice":                  {Date(20003).String(), Date(20002).String(), missingDays, "does not follow"},
		"a column that is not there":   {`"et0_fao`, `"et1_fao`, missingValues, "has 0 values"},
		"another unit":                 {"km/h", "mp/h", missingValues, "mp/h"},
		"a text for a number":          {"null", `"12"`, missingMalformed, "decode"},
		"a text":                       {"", `"busy"`, missingMalformed, "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := NewMetrics(prometheus.NewRegistry())
			m := newFixture(t, OpenMeteoOptions{Metrics: metrics}, func(w http.ResponseWriter, r *http.Request) {
				var places []json.RawMessage
				if err := json.Unmarshal([]byte(answerFor(r, 20000, 16)), &places); err != nil {
					t.Error(err)
				}
				answer := test.replacement
				if test.old != "" {
					answer = strings.Replace(string(places[1]), test.old, test.replacement, 1)
				}
				sendJSON(w, 200, fmt.Sprintf("[%s,%s,%s]", places[0], answer, places[2]))
			})
			at := []*Point{&points[0], &points[1], &points[2]}
			got, run, err := m.Forecast(t.Context(), at, Date(20000).Time())
			if len(got) != 2 || got["Chicago"] == nil || got["Boston"] == nil || run.IsZero() {
				t.Errorf("the forecasts are %v of %v", got, run)
			}
			e, _ := errors.AsType[*signal.RunError](err)
			if e == nil || e.Code != signal.DataUnavailable || !e.Retryable || e.RetryAfter != missingPause ||
				!strings.Contains(e.Cause.Error(), "New York: ") || !strings.Contains(e.Cause.Error(), test.cause) {
				t.Errorf("the error is %+v", e)
			}
			for _, reason := range missingReasons {
				want := 0.0
				if reason == test.reason {
					want = 1
				}
				if n := testutil.ToFloat64(metrics.missing[reason]); n != want {
					t.Errorf("%v points are counted as missing by %s, want %v", n, reason, want)
				}
			}
		})
	}
}

// TestNaNIsAMissingValue checks the tokens that the service writes where a number is not known. They are not JSON.
func TestNaNIsAMissingValue(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"nan", "-nan", "NaN", "inf", "-inf", "Infinity", "null"} {
		m := newFixture(t, OpenMeteoOptions{}, func(w http.ResponseWriter, r *http.Request) {
			answer := strings.Replace(answerFor(r, 20000, 16), "[0.0,", "["+token+",", 1)
			sendJSON(w, 200, strings.ReplaceAll(answer, `"timezone":"GMT"`, `"timezone":"\"nan inf\" \\"`))
		})
		got, _, err := m.Forecast(t.Context(), points2(), Date(20000).Time())
		if err != nil || len(got) != 2 {
			t.Errorf("%s: %v, %v", token, got, err)
			continue
		}
		first := got["Chicago"].Days[0]
		if !math.IsNaN(float64(first.Mean)) || first.Max != 1 || got["New York"].Days[0].Mean != 10 {
			t.Errorf("%s: the days are %+v and %+v", token, first, got["New York"].Days[0])
		}
	}
}

// TestAnOutdatedPlaceIsMissingAlone checks a service whose servers are not equally up to date.
func TestAnOutdatedPlaceIsMissingAlone(t *testing.T) {
	t.Parallel()
	now := day(t, "2026-11-21").Time().Add(18 * time.Hour)
	m := newFixture(t, OpenMeteoOptions{}, func(w http.ResponseWriter, r *http.Request) {
		fresh, old := answerFor(r, DateOf(now), 16), answerFor(r, DateOf(now)-2, 16)
		var places, outdated []json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(fresh), &places), json.Unmarshal([]byte(old), &outdated)); err != nil {
			t.Error(err)
		}
		sendJSON(w, 200, fmt.Sprintf("[%s,%s]", places[0], outdated[1]))
	})
	got, run, err := m.Forecast(t.Context(), points2(), now)
	e, _ := errors.AsType[*signal.RunError](err)
	if len(got) != 1 || got["Chicago"] == nil || run.IsZero() || e == nil || e.Code != signal.StaleData {
		t.Errorf("%v of %v, %v", got, run, err)
	}
}

// TestOpenMeteoRecovers checks that transient failures are counted and followed by retries.
func TestOpenMeteoRecovers(t *testing.T) {
	t.Parallel()
	for result, fail := range map[string]http.HandlerFunc{
		"server_error": func(w http.ResponseWriter, _ *http.Request) { sendJSON(w, 502, "") },
		"rate_limited": func(w http.ResponseWriter, _ *http.Request) {
			sendJSON(w, 429, `{"error":true,"reason":"Too many concurrent requests"}`)
		},
	} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			metrics := NewMetrics(prometheus.NewRegistry())
			m := newFixture(t, OpenMeteoOptions{Metrics: metrics}, func(w http.ResponseWriter, r *http.Request) {
				if tries.Add(1) == 1 {
					fail(w, r)
					return
				}
				sendJSON(w, 200, answerFor(r, DateOf(time.Now()), 16))
			})
			if got, _, err := m.Forecast(t.Context(), points2(), time.Now()); err != nil || len(got) != 2 {
				t.Errorf("%v, %v", got, err)
			}
			for _, counted := range []string{"ok", result} {
				if n := testutil.ToFloat64(metrics.asks.WithLabelValues(OpenMeteoName, counted)); n != 1 {
					t.Errorf("%v tries are counted as %s", n, counted)
				}
			}
		})
	}
}

// TestOpenMeteoLimits checks that no request is sent while a limit is in effect.
func TestOpenMeteoLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 30, 45, 0, time.UTC)
	tomorrow := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for reason, want := range map[string]time.Duration{
		"Minutely API request limit exceeded. Please try again in one minute.":   16 * time.Second,
		"Hourly API request limit exceeded. Please try again in the next hour.":  29*time.Minute + 16*time.Second,
		"Daily API request limit exceeded. Please try again tomorrow.":           tomorrow.Add(time.Second).Sub(now),
		"Too many concurrent requests":                                           2 * time.Second,
		"Cannot initialize WeatherVariable from invalid String value Daily rain": 0,
		"": 0,
	} {
		if got := restFor(reason, now); got != want {
			t.Errorf("%q: %s, want %s", reason, got, want)
		}
	}
	asked := map[string]int{}
	m := newFixture(t, OpenMeteoOptions{}, func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		if strings.HasSuffix(r.URL.Path, "archive") {
			sendJSON(w, 429, `{"error":true,"reason":"Daily API request limit exceeded. Please try again tomorrow."}`)
			return
		}
		sendJSON(w, 200, answerFor(r, DateOf(time.Now()), 16))
	})
	for range 2 {
		_, err := m.Archive(t.Context(), points2()[:1])
		if e, _ := errors.AsType[*signal.RunError](err); e == nil || !e.Retryable || e.RetryAfter <= 0 ||
			e.RetryAfter > 24*time.Hour+time.Second {
			t.Errorf("the archive: %v", err)
		}
	}
	if _, _, err := m.Forecast(t.Context(), points2(), time.Now()); err != nil {
		t.Errorf("forecasts are held up by archives: %v", err)
	}
	if asked["/v1/archive"] != 1 || asked["/v1/forecast"] != 1 {
		t.Errorf("asked %v", asked)
	}
}

// TestArchivesCountForManyCalls checks that a second archive of thirty years waits for the
// limit of the free service, and that a customer's does not.
func TestArchivesCountForManyCalls(t *testing.T) {
	t.Parallel()
	if got := callsOf(1, 10958); got != 470 {
		t.Errorf("thirty years count for %d calls", got)
	}
	if got := callsOf(17, 16); got != 17 {
		t.Errorf("a forecast of 17 points counts for %d calls", got)
	}
	for key, waits := range map[string]bool{"": true, "k": false} {
		m := newFixture(t, OpenMeteoOptions{APIKey: key}, answering(0))
		if _, err := m.Archive(t.Context(), points2()[:1]); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if waits {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		_, err := m.Archive(ctx, points2()[1:])
		cancel()
		if waits != errors.Is(err, context.Canceled) || !waits && err != nil {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// TestOpenMeteoOutdatedForecasts checks that an outdated run is refused and requested again
// only after a pause.
func TestOpenMeteoOutdatedForecasts(t *testing.T) {
	t.Parallel()
	noon := day(t, "2026-11-21").Time().Add(12 * time.Hour)
	for begins, stale := range map[string]bool{"2026-11-21": false, "2026-11-20": true, "2026-11-19": true} {
		m := newFixture(t, OpenMeteoOptions{}, answering(day(t, begins)))
		_, _, err := m.Forecast(t.Context(), points2(), noon.Add(time.Minute))
		e, _ := errors.AsType[*signal.RunError](err)
		if stale != (e != nil && e.Code == signal.StaleData && e.Retryable) || !stale && err != nil {
			t.Errorf("a forecast that begins on %s: %v", begins, err)
		}
		_, _, err = m.Forecast(t.Context(), points2(), noon.Add(-time.Minute))
		if (err != nil) != (begins == "2026-11-19") {
			t.Errorf("before noon, a forecast that begins on %s: %v", begins, err)
		}
	}
}

func TestOpenMeteoStopsWithItsContext(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	m := newFixture(t, OpenMeteoOptions{}, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	defer close(block)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := m.Forecast(ctx, points2(), time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestImpossibleWeatherIsMissing(t *testing.T) {
	t.Parallel()
	const body = `[{"latitude":41.9,"longitude":-87.6,
		"daily":{"time":["2026-01-01"],"temperature_2m_mean":[99999],"temperature_2m_max":[-300],
		"temperature_2m_min":[null],"precipitation_sum":[-1],"et0_fao_evapotranspiration":[99999],
		"wind_gusts_10m_max":[501]}}]`
	found, missing, err := decodeOpenMeteo([]byte(body), points2()[:1]) // one place may be a list, too
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	for v := range dayValues {
		if got := *found["Chicago"].Days[0].value(v); !math.IsNaN(float64(got)) {
			t.Errorf("%s is %v", variables[v], got)
		}
	}
}

// FuzzDecode checks that no answer causes a panic and that accepted ones are complete.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"latitude":41.9,"longitude":-87.6,
		"daily":{"time":["2026-01-01"],"temperature_2m_mean":[1],"temperature_2m_max":[1],
		"temperature_2m_min":[null],"precipitation_sum":[0],"et0_fao_evapotranspiration":[1],
		"wind_gusts_10m_max":[5]}}`), 1)
	f.Add([]byte(`[{"error":true,"reason":"x"}]`), 1)
	f.Add([]byte(`[{},null]`), 2)
	f.Add([]byte(`[{"latitude":-nan,"longitude":inf},"\"-nan"]`), 2)
	f.Add([]byte(`[{"latitude":41.9,"longitude":-87.6,"daily":{"time":["2026-01-01","2026-01-02"],`+
		`"temperature_2m_mean":[1]}},{"latitude":1e9}]`), 2)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		n = 1 + (n%3+3)%3
		found, missing, err := decodeOpenMeteo(body, []*Point{&points[0], &points[1], &points[2]}[:n])
		if err == nil && len(found)+len(missing) != n {
			t.Errorf("%d series and %d faults for %d places", len(found), len(missing), n)
		}
		for _, s := range found {
			if len(s.Days) == 0 {
				t.Errorf("an empty series was accepted")
			}
		}
		if rest := restFor(reasonOf(body), time.Now()); rest < 0 || rest > 25*time.Hour {
			t.Errorf("the pause is %s", rest)
		}
	})
}

// TestAnEscapedKeyIsNotShown: a service may quote the request that it refuses, with the key as it is in an address.
func TestAnEscapedKeyIsNotShown(t *testing.T) {
	t.Parallel()
	m := newFixture(t, OpenMeteoOptions{APIKey: "se+cret/k&y"}, func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, http.StatusBadRequest, fmt.Sprintf(`{"error":true,"reason":%q}`, "refused: "+r.URL.RawQuery))
	})
	_, _, err := m.Forecast(t.Context(), points2(), Date(20000).Time())
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok || !strings.Contains(e.Cause.Error(), "apikey=***") || strings.Contains(e.Cause.Error()+e.Message, "cret") {
		t.Errorf("the cause is %v, want one without the key", err)
	}
}
