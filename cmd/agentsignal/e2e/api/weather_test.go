package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestWeatherRunsMakeTwoRecords: what a run answers is listed twice, filtered, read
// one by one, the same after a restart, and hidden from others.
func TestWeatherRunsMakeTwoRecords(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed = "simulated", 1 // no forecast comes in between
	s := e2e.Start(t, c)
	for _, asset := range []string{"natural_gas", "oil", "corn", "wheat"} {
		s.AwaitPrices(t, asset, signal.D1)
	}
	trader, _ := s.Account(t)
	stranger, _ := s.Account(t)
	first, ids := make(map[string]e2e.WireSignal), []string{}
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
		answer := trader.Post("/v1/agents/weather/run", e2e.RunBody(run.asset, run.strategy, members...)).Ok(t).Body
		got := e2e.Decode[e2e.WireSignal](t, answer)
		metadata := e2e.Decode[struct {
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
		list := trader.Weather("?limit=1")
		if len(list.Signals) != 1 || list.Total != len(first)+1 {
			t.Fatalf("right after a run the list is %+v", list)
		}
		w := list.Signals[0]
		if w.ID != metadata.WeatherID || w.Type != "weather_arbitrage" || w.Commodity != strings.ToLower(run.asset) ||
			w.Confidence != got.Confidence || w.Initial != got.Confidence || w.Direction != got.Direction ||
			w.CreatedAt != got.CreatedAt ||
			!strings.Contains(w.Impact, " % in 5 days (a scale; usual range ± ") &&
				!strings.HasPrefix(w.Impact, "no signal worth acting on (usual range in 5 days ± ") {
			t.Errorf("the run answers %+v, the list has %+v", got, w)
		}
		if want := run.region; w.Region != want && (want != "" || w.Region != "global") {
			t.Errorf("region is %q, want %q", w.Region, want)
		}
		if one := e2e.Decode[e2e.WireWeather](t, trader.Get("/v1/signals/weather/"+w.ID).Ok(t).Body); one != w {
			t.Errorf("one is %+v, in the list %+v", one, w)
		}
		first[w.ID] = got
		ids = append(ids, w.ID)
	}
	trader.Lists("agent_id=weather", 6)
	stranger.Get("/v1/signals/weather/"+ids[0]).Fails(t, "not_found")
	if p := stranger.Weather(""); p.Total != 0 {
		t.Errorf("a stranger sees %+v", p)
	}
	before := trader.Weather("")
	for query, want := range map[string]int{"?region=us": 2, "?region=global": 2, "?commodity=oil": 2,
		"?commodity=oil&region=us":    1,
		"?commodity=corn&region=asia": 0, "?offset=5": 6, "?since=" + before.Signals[0].CreatedAt: 0} {
		if p := trader.Weather(query); p.Total != want {
			t.Errorf("%s: total %d, want %d", query, p.Total, want)
		}
	}
	bySeverity := 0
	for _, severity := range signal.Severities {
		p := trader.Weather("?severity=" + severity)
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
	s.Stop(t)
	after := trader.At(e2e.Start(t, c).URL).Weather("")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
}

// TestForecastRunsRescoreOpenSignals: a run of the models takes effect when it arrives, not
// only when the bar of the day closes, also for signals made before a restart.
func TestForecastRunsRescoreOpenSignals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed = "simulated", 1800
	const bar = 48 * time.Second // of a day; a run comes every 12 s
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "natural_gas", signal.D1)
	trader, _ := s.Account(t)
	for _, region := range []string{"us", "eu", "asia", "global"} {
		body := e2e.RunBody("natural_gas", "energy_demand", `"risk_level":"high","parameters":{"region":"`+region+`"}`)
		e2e.Eventually(t, "a run", func() bool { // on a busy machine prices at this speed may be too old
			return trader.Post("/v1/agents/weather/run", body).Status == http.StatusOK
		})
	}
	s.Stop(t)
	again, restarted := e2e.Start(t, c), time.Now()
	trader = trader.At(again.URL)
	e2e.Eventually(t, "an update within a bar", func() bool {
		for _, w := range trader.Signals("status=open").Signals {
			at, err := time.Parse(time.RFC3339, trader.State(w.ID).UpdatedAt)
			e2e.Must(t, err)
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
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "natural_gas", signal.D1)
	trader, _ := s.Account(t)
	job := e2e.Decode[e2e.WireJob](t, trader.Post("/v1/agents/weather/run",
		e2e.RunBody("natural_gas", "commodity_impact", `"async":true`)).Ok(t).Body)
	ended := trader.Completed(job.ID)
	want := strings.Replace(ended.Signal.ID, "sig_", "wsig_", 1)
	if p := trader.Weather(""); p.Total != 1 || p.Signals[0].ID != want {
		t.Errorf("listed are %+v", p)
	}
	trader.Post("/v1/agents/weather/run", e2e.RunBody("BTC", "commodity_impact")).Fails(t, "invalid_request")
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
		c := e2e.TestConfig(t, "")
		c.Weather.Source, c.Weather.APIKey, c.Weather.ForecastURL = "open_meteo", "verysecret", server.URL
		found := service.CheckWeather(t.Context(), c)
		if found.Source != "weather open_meteo" || found.Works != (name == "answers") ||
			!strings.Contains(found.Note, test.want) || strings.Contains(found.Note, "verysecret") {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if found := service.CheckWeather(t.Context(), e2e.TestConfig(t, "")); found.Source != "weather simulated" || !found.Works ||
		found.Age > 6*time.Minute || !strings.HasPrefix(found.Note, "forecast for Chicago to ") {
		t.Errorf("simulated weather: %+v", found)
	}
}
