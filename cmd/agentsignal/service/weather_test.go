package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wireWeather is a Weather signal as it is answered.
type wireWeather struct {
	ID         string  `json:"signal_id"`
	Type       string  `json:"type"`
	Commodity  string  `json:"commodity"`
	Region     string  `json:"region"`
	Direction  string  `json:"direction"`
	Confidence float64 `json:"confidence"`
	Event      struct {
		Type, Severity, Location string
		ForecastDate             string  `json:"forecast_date"`
		Deviation                float64 `json:"temperature_deviation"`
	} `json:"weather_event"`
	Impact    string `json:"expected_impact"`
	CreatedAt string `json:"created_at"`
}

type weatherPage struct {
	Signals []wireWeather
	Total   int
}

func (c *client) weather(query string) weatherPage {
	c.tb.Helper()
	return decode[weatherPage](c.tb, c.get("/v1/signals/weather"+query).ok(c.tb).Body)
}

// TestWeatherRunsMakeTwoRecords: what a run answers is listed twice, filtered, read
// one by one, the same after a restart, and hidden from others.
func TestWeatherRunsMakeTwoRecords(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed = "simulated", 1 // no forecast comes in between
	s := start(t, c)
	for _, asset := range []string{"natural_gas", "oil", "corn", "wheat"} {
		s.awaitPrices(t, asset, signal.D1)
	}
	trader, _ := s.account(t)
	stranger, _ := s.account(t)
	first, ids := make(map[string]wireSignal), []string{}
	for _, run := range []struct{ asset, strategy, region, indicator string }{
		{"natural_gas", "energy_demand", "us", "degree_days"}, {"oil", "energy_demand", "", "degree_days"},
		{"corn", "agriculture", "eu", "crop_stress"},
		{"Wheat", "agriculture", "asia", "crop_stress"}, {"oil", "commodity_impact", "us", ""},
		{"CORN", "commodity_impact", "", "crop_stress"},
	} {
		members := []string{`"timeframe":"5m"`}
		if run.region != "" {
			members = append(members, `"parameters":{"region":"`+run.region+`"}`)
		}
		answer := trader.post("/v1/agents/weather/run", runBody(run.asset, run.strategy, members...)).ok(t).Body
		got := decode[wireSignal](t, answer)
		metadata := decode[struct {
			Metadata struct {
				Indicators []string
				WeatherID  string `json:"weather_signal_id"`
				Source     string
				Weather    string `json:"weather_source"`
			}
		}](t, answer).Metadata
		if metadata.WeatherID != strings.Replace(got.ID, "sig_", "wsig_", 1) || metadata.Source != "simulated" ||
			metadata.Weather != "simulated" ||
			len(metadata.Indicators) != 2 || run.indicator != "" && metadata.Indicators[0] != run.indicator ||
			metadata.Indicators[1] != "anomaly_z" {
			t.Errorf("the run answers %s", answer)
		}
		list := trader.weather("?limit=1")
		if len(list.Signals) != 1 || list.Total != len(first)+1 {
			t.Fatalf("right after a run the list is %+v", list)
		}
		w := list.Signals[0]
		if w.ID != metadata.WeatherID || w.Type != "weather_arbitrage" || w.Commodity != strings.ToLower(run.asset) ||
			w.Confidence != got.Confidence || w.Direction != got.Direction || w.CreatedAt != got.CreatedAt ||
			!strings.Contains(w.Impact, " % in 5 days (a scale; usual range ± ") {
			t.Errorf("the run answers %+v, the list has %+v", got, w)
		}
		if want := run.region; w.Region != want && (want != "" || w.Region != "global") {
			t.Errorf("region is %q, want %q", w.Region, want)
		}
		if one := decode[wireWeather](t, trader.get("/v1/signals/weather/"+w.ID).ok(t).Body); one != w {
			t.Errorf("one is %+v, in the list %+v", one, w)
		}
		first[w.ID] = got
		ids = append(ids, w.ID)
	}
	trader.lists("agent_id=weather", 6)
	stranger.get("/v1/signals/weather/"+ids[0]).fails(t, "not_found")
	if p := stranger.weather(""); p.Total != 0 {
		t.Errorf("a stranger sees %+v", p)
	}
	before := trader.weather("")
	for query, want := range map[string]int{"?region=us": 2, "?region=global": 2, "?commodity=oil": 2,
		"?commodity=oil&region=us":    1,
		"?commodity=corn&region=asia": 0, "?offset=5": 6, "?since=" + before.Signals[0].CreatedAt: 0} {
		if p := trader.weather(query); p.Total != want {
			t.Errorf("%s: total %d, want %d", query, p.Total, want)
		}
	}
	bySeverity := 0
	for _, severity := range signal.Severities {
		p := trader.weather("?severity=" + severity)
		for _, w := range p.Signals {
			if w.Event.Severity != severity {
				t.Errorf("severity %s: %+v", severity, w)
			}
		}
		bySeverity += p.Total
	}
	if bySeverity != 6 {
		t.Errorf("the severities have %d signals, want 6", bySeverity)
	}
	s.stop(t)
	after := trader.at(start(t, c).url).weather("")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
}

// TestForecastRunsRescoreOpenSignals: a run of the models takes effect when it arrives, not
// only when the bar of the day closes, also for signals made before a restart.
func TestForecastRunsRescoreOpenSignals(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed = "simulated", 1800
	const bar = 48 * time.Second // of a day; a run comes every 12 s
	s := start(t, c)
	s.awaitPrices(t, "natural_gas", signal.D1)
	trader, _ := s.account(t)
	for _, region := range []string{"us", "eu", "asia", "global"} {
		body := runBody("natural_gas", "energy_demand", `"risk_level":"high","parameters":{"region":"`+region+`"}`)
		eventually(t, "a run", func() bool { // on a busy machine prices at this speed may be too old
			return trader.post("/v1/agents/weather/run", body).Status == http.StatusOK
		})
	}
	s.stop(t)
	again, restarted := start(t, c), time.Now()
	trader = trader.at(again.url)
	eventually(t, "an update within a bar", func() bool {
		for _, w := range trader.signals("status=open").Signals {
			at, err := time.Parse(time.RFC3339, trader.state(w.ID).UpdatedAt)
			must(t, err)
			if at.After(restarted) && at.Sub(at.Truncate(bar)) > bar/6 { // a close is published sooner
				return true
			}
		}
		return false
	})
}

// TestWeatherJobs: a run as a job ends with both records, too.
func TestWeatherJobs(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	s := start(t, c)
	s.awaitPrices(t, "natural_gas", signal.D1)
	trader, _ := s.account(t)
	job := decode[wireJob](t, trader.post("/v1/agents/weather/run",
		runBody("natural_gas", "commodity_impact", `"async":true`)).ok(t).Body)
	ended := trader.completed(job.ID)
	want := strings.Replace(ended.Signal.ID, "sig_", "wsig_", 1)
	if p := trader.weather(""); p.Total != 1 || p.Signals[0].ID != want {
		t.Errorf("listed are %+v", p)
	}
	trader.post("/v1/agents/weather/run", runBody("BTC", "commodity_impact")).fails(t, "invalid_request")
}

// TestDoctorChecksTheWeather: a source that answers and one that does not.
func TestDoctorChecksTheWeather(t *testing.T) {
	t.Parallel()
	today := time.Now().UTC()
	tomorrow := today.AddDate(0, 0, 1).Format(time.DateOnly)
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"answers": {200, `{"latitude":41.9,"longitude":-87.6,` +
			`"daily":{"time":["` + today.Format(time.DateOnly) + `","` + tomorrow + `"],` +
			`"temperature_2m_mean":[1,2],"temperature_2m_max":[1,2],"temperature_2m_min":[1,null],` +
			`"precipitation_sum":[0,0],"et0_fao_evapotranspiration":[1,1],"wind_gusts_10m_max":[30,31]}}`,
			"forecast for Chicago to " + tomorrow},
		"old": {200, `{"latitude":41.9,"longitude":-87.6,"daily":{"time":["2026-11-01"],"temperature_2m_mean":[1],` +
			`"temperature_2m_max":[1],"temperature_2m_min":[1],` +
			`"precipitation_sum":[0],"et0_fao_evapotranspiration":[1],"wind_gusts_10m_max":[30]}}`,
			"for Chicago of 2026-11-01"},
		"refuses": {400, `{"error":true,"reason":"The API key is invalid"}`, "The API key is invalid"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("apikey") != "verysecret" {
				t.Error("asked without the key")
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		t.Cleanup(server.Close)
		c := testConfig(t, "")
		c.Weather.Source, c.Weather.APIKey, c.Weather.ForecastURL = "open_meteo", "verysecret", server.URL
		found := CheckWeather(t.Context(), c)
		if found.Source != "weather open_meteo" || found.Works != (name == "answers") ||
			!strings.Contains(found.Note, test.want) || strings.Contains(found.Note, "verysecret") {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if found := CheckWeather(t.Context(), testConfig(t, "")); found.Source != "weather simulated" || !found.Works ||
		found.Age > 6*time.Minute || !strings.HasPrefix(found.Note, "forecast for Chicago to ") {
		t.Errorf("simulated weather: %+v", found)
	}
}
