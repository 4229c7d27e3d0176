package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// fakeWeather returns report and err.
type fakeWeather struct {
	report weather.Report
	err    error
	asked  weather.Question
}

func (f *fakeWeather) Outlook(_ context.Context, q weather.Question) (weather.Report, error) {
	f.asked = q
	r := f.report
	r.Question = q
	return r, f.err
}

func coldReport(z float64) weather.Report {
	event := signal.WeatherEvent{Type: signal.ColdSnap, Severity: "high", Location: "Chicago",
		ForecastDate: "2026-11-24", Deviation: -7.4}
	return weather.Report{Source: "open_meteo", Attribution: "by Open-Meteo", Slope: weather.Slope{Tau: .02},
		Run: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC),
		Outlook: weather.Outlook{Driver: weather.DegreeDays, Z: z, Value: 20, Normal: 16, Strength: .93125,
			Finding: "heating demand 25 % above normal in us", Event: event}}
}

func weatherRequest() signal.RunRequest {
	return signal.RunRequest{Account: signal.NewAccountID(), Agent: "weather", Asset: "Natural_Gas",
		Strategy: "energy_demand", Timeframe: signal.M5, Risk: signal.HighRisk,
		Parameters: signal.Parameters{Region: "us"}}
}

// dayBars returns a market that expects questions for daily bars only.
func dayBars(t *testing.T) *fakeMarket {
	return &fakeMarket{series: func(_ context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error) {
		if tf != signal.D1 {
			t.Errorf("bars of %s are requested", tf)
		}
		s := history()
		s.Asset.Symbol = "natural_gas"
		return s, nil
	}}
}

func TestWeatherRun(t *testing.T) {
	t.Parallel()
	for _, z := range []float64{1.6, 1, .99, 0, -.99, -2.5} {
		w := &fakeWeather{report: coldReport(z)}
		withBench(t, Options{Weather: w}, func(t *testing.T, b *bench) {
			b.market.series = dayBars(t).series
			req := weatherRequest()
			got, err := b.agents.Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			question := weather.Question{Strategy: "energy_demand", Commodity: "natural_gas", Region: "us"}
			if w.asked != question {
				t.Errorf("the question is %+v", w.asked)
			}
			series := strategy.NewSeries(signal.D1).WithTick(.001)
			must(t, series.Sync(historyOfTests))
			base, err := series.Base(signal.HighRisk)
			if err != nil {
				t.Fatal(err)
			}
			likelihood := .5 * math.Erfc(-math.Abs(z)/1.2*.8/.6/math.Sqrt2)
			if math.Abs(z) < 1 {
				likelihood = .5
			}
			s := got.Signal
			direction := signal.Long
			if z < 0 {
				direction = signal.Short
			}
			want := signal.RoundConfidence(base.Prior + .02*(likelihood-.5))
			if s.Confidence != want || s.FirstConfidence != want {
				t.Errorf("confidence is %v and was %v, want %v", s.Confidence, s.FirstConfidence, want)
			}
			if s.Direction != direction || s.Timeframe != signal.D1 || s.Asset != "Natural_Gas" ||
				!strategy.Ordered(direction, *s.Levels) {
				t.Errorf("signal is %+v", s)
			}
			if got, want := math.Abs(s.Levels.Entry-s.Levels.Stop), 2.5*base.ATR; math.Abs(got-want) > .01 {
				t.Errorf("the stop is %v away, want %v", got, want)
			}
			if got, want := s.ExpiresAt.Sub(s.CreatedAt), 20*24*time.Hour/60; got != want {
				t.Errorf("it lives for %v, want %v", got, want)
			}
			if o := s.Weather; o == nil || o.Commodity != "natural_gas" || o.Region != "us" ||
				math.Abs(o.Likelihood-likelihood) > 1e-12 || o.Event != w.report.Event || o.ExpectedImpact == "" {
				t.Errorf("weather is %+v", o)
			}
			if n := len(b.log.all()); n != 1 {
				t.Errorf("%d appends for one run", n)
			}
			checkWeatherMetadata(t, s, z)
			checkWeatherEntries(t, s, &base, math.Abs(z) < 1)
		})
	}
}

// TestAWeatherSignalLivesWhileItsFundIsTraded checks that ten days are ten sessions.
func TestAWeatherSignalLivesWhileItsFundIsTraded(t *testing.T) {
	t.Parallel()
	withBench(t, Options{Weather: &fakeWeather{report: coldReport(1)}}, func(t *testing.T, b *bench) {
		seen := history()
		seen.Session, seen.Compression = sessions.Exchange, 1
		b.market.series = at(&seen).series
		req := weatherRequest()
		req.Risk = signal.MediumRisk
		got, err := b.agents.Run(t.Context(), req) // on Saturday, 1 January 2000
		if want := time.Date(2000, 1, 14, 21, 0, 0, 0, time.UTC); err != nil || !got.Signal.ExpiresAt.Equal(want) {
			t.Errorf("it expires at %v, want %v (%v)", got.Signal.ExpiresAt, want, err)
		}
	})
}

func checkWeatherMetadata(t *testing.T, s *signal.Signal, z float64) {
	t.Helper()
	var m map[string]any
	must(t, json.Unmarshal(s.Metadata, &m))
	for name, want := range map[string]any{"weather_signal_id": "w" + string(s.ID), "source": "simulated",
		"weather_source": "open_meteo", "attribution": "by Open-Meteo", "region": "us", "time_compression": 60.0,
		"calibration": "assumed", "tau": .02, "tau_signals": nil, "strength": .9313,
		"forecast_at": "2026-11-21T06:00:00.000Z", "measure": "probability", "comparable_share": nil,
		"indicators": []any{"degree_days", "anomaly_z"},
		"values":     map[string]any{"degree_days": 20.0, "anomaly_z": z}} {
		if diff := cmp.Diff(want, m[name]); diff != "" {
			t.Errorf("metadata.%s (-want +got):\n%s", name, diff)
		}
	}
	if prior, _ := m["prior"].(float64); prior < .3 || prior > .5 {
		t.Errorf("metadata.prior is %v", m["prior"])
	}
	if text, _ := m["reasoning"].(string); text == "" {
		t.Error("there is no reasoning")
	}
}

// checkWeatherEntries checks that sample, interval, expected_r and reasoning are of the same
// entries as the confidence: those of base.
func checkWeatherEntries(t *testing.T, s *signal.Signal, base *strategy.Base, quiet bool) {
	t.Helper()
	var m struct {
		Sample    float64
		Interval  [2]float64 `json:"confidence_interval"`
		ExpectedR float64    `json:"expected_r"`
		Reasoning string
	}
	must(t, json.Unmarshal(s.Metadata, &m))
	half := 1.96 * math.Sqrt(s.Confidence*(1-s.Confidence)/base.Entries)
	if math.Abs(m.Sample-base.Entries) > .05 || math.Abs(m.Interval[0]-(s.Confidence-half)) > 1e-3 ||
		math.Abs(m.Interval[1]-(s.Confidence+half)) > 1e-3 {
		t.Errorf("sample %v, interval %v, want %v entries and ± %.4f", m.Sample, m.Interval, base.Entries, half)
	}
	if want := s.Confidence*base.Win - (1-s.Confidence)*base.Loss; math.Abs(m.ExpectedR-want) > 1e-3 {
		t.Errorf("expected_r is %v, want %v", m.ExpectedR, want)
	}
	want := fmt.Sprintf("Estimate %.0f %%: past entries, worth %.0f independent ones, put it at %.0f %%, and the forecast "+
		"changes that by %+.1f points, which is assumed and not measured; ", 100*s.Confidence, m.Sample, 100*base.Prior,
		100*(s.Confidence-base.Prior))
	if quiet {
		want = fmt.Sprintf("Estimate %.0f %%: no signal worth acting on, since the weather is less than one deviation "+
			"from normal: past entries, worth %.0f independent ones, put it at %.0f %%, and the forecast adds nothing; ",
			100*s.Confidence, m.Sample, 100*base.Prior)
		if prior := signal.RoundConfidence(base.Prior); s.Confidence != prior {
			t.Errorf("confidence is %v, want the prior %v", s.Confidence, prior)
		}
		if !strings.HasPrefix(s.Weather.ExpectedImpact, "no signal worth acting on (") {
			t.Errorf("the expected impact is %q", s.Weather.ExpectedImpact)
		}
	}
	if !strings.Contains(m.Reasoning, want) {
		t.Errorf("reasoning %q lacks %q", m.Reasoning, want)
	}
}

func TestMetadataOfAFittedSlope(t *testing.T) {
	t.Parallel()
	w := &fakeWeather{report: coldReport(2)}
	w.report.Slope = weather.Slope{Tau: .4, Fitted: 212}
	withBench(t, Options{Weather: w}, func(t *testing.T, b *bench) {
		b.market.series = dayBars(t).series
		got, err := b.agents.Run(t.Context(), weatherRequest())
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Calibration, Reasoning string
			Tau, Prior             float64
			Signals                int `json:"tau_signals"`
		}
		must(t, json.Unmarshal(got.Signal.Metadata, &m))
		want := m.Prior + .4*(got.Signal.Weather.Likelihood-.5)
		if m.Calibration != "fitted" || m.Tau != .4 || math.Abs(got.Signal.Confidence-want) > 1e-4 ||
			m.Signals != 212 || !strings.Contains(m.Reasoning, " points, as fitted to 212 closed signals; ") {
			t.Errorf("confidence %v, want %v; metadata %+v", got.Signal.Confidence, want, m)
		}
	})
}

func TestWeatherRunsThatFail(t *testing.T) {
	t.Parallel()
	stale := &signal.RunError{Code: signal.StaleData, Retryable: true, Message: "old"}
	withBench(t, Options{Weather: &fakeWeather{err: stale}}, func(t *testing.T, b *bench) {
		b.market.series = dayBars(t).series
		if _, err := b.agents.Run(t.Context(), weatherRequest()); !errors.Is(err, stale) {
			t.Errorf("the run fails with %v", err)
		}
		b.market.series = failing(&signal.RunError{Code: signal.DataUnavailable}).series
		if _, err := b.agents.Run(t.Context(), weatherRequest()); signal.KindOf(err) != signal.KindRunFailed {
			t.Errorf("without prices it fails with %v", err)
		}
	})
}

// TestWeatherRunOnRedis checks that one append stores both records, and that the answer
// equals them.
func TestWeatherRunOnRedis(t *testing.T) {
	t.Parallel()
	o := Options{Market: dayBars(t), Weather: &fakeWeather{report: coldReport(1.6)}}
	n := startNode(t, redistest.New(t).URL(), "n1", o, time.Minute)
	req, store := weatherRequest(), n.store
	got, err := n.agents.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	p := store.Client.Partition(req.Account)
	var scanned []signal.LogEntry
	if err := store.Signals.ScanSignals(t.Context(), p, func(e signal.LogEntry) error {
		scanned = append(scanned, e)
		return nil
	}); err != nil || len(scanned) != 1 {
		t.Fatalf("scanned are %+v, %v", scanned, err)
	}
	if diff := cmp.Diff(got.Signal.Weather, scanned[0].Weather); diff != "" {
		t.Errorf("weather (-answered +scanned):\n%s", diff)
	}
	stored, err := store.Signals.SignalByID(t.Context(), req.Account, got.Signal.ID, scanned[0].Position,
		signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	// Initial is not part of what is read back of a signal.
	if diff := cmp.Diff(got.Signal, stored, cmpopts.IgnoreFields(signal.Signal{}, "Initial")); diff != "" {
		t.Errorf("signal (-answered +stored):\n%s", diff)
	}
	for _, e := range n.events(t, req.Account) {
		if e.Type == signal.SignalCreated {
			// The signal of the event has all that its actor needs.
			opened, ok := e.Opened()
			opened.Metadata = got.Signal.Metadata
			if diff := cmp.Diff(got.Signal, &opened); diff != "" || !ok {
				t.Errorf("signal (-answered +event):\n%s", diff)
			}
		} else if e.Weather != nil {
			t.Errorf("%s has weather", e.Type)
		}
	}
	open, err := store.Signals.OpenSignalsOf(t.Context(), p, []signal.SignalID{got.Signal.ID})
	if err != nil || len(open) != 1 {
		t.Fatalf("open are %+v, %v", open, err)
	}
	want := &signal.Outlook{Commodity: "natural_gas", Region: "us", Likelihood: got.Signal.Weather.Likelihood}
	if diff := cmp.Diff(want, open[0].Weather); diff != "" {
		t.Errorf("weather of the open signal (-want +got):\n%s", diff)
	}
}
