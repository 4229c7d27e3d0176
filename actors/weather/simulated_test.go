package weather

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"
)

func forecastOf(t *testing.T, s *Simulated, at time.Time, p ...*Point) map[string]*Series {
	t.Helper()
	got, run, err := s.Forecast(t.Context(), p, at)
	if err != nil || run.After(at) {
		t.Fatalf("forecast of %v at %v: %v", run, at, err)
	}
	return got
}

func TestSimulatedWeatherIgnoresTheOrderOfCalls(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 3, 8, 0, 0, 0, time.UTC)
	one, other := NewSimulated(5, 60), NewSimulated(5, 60)
	if _, err := one.Archive(t.Context(), []*Point{&points[3]}); err != nil {
		t.Fatal(err)
	}
	forecastOf(t, one, at.AddDate(-1, 0, 0), &points[9])
	forecastOf(t, one, at.AddDate(3, 0, 0), &points[9], &points[0]) // far ahead: paths are drawn again
	a, b := forecastOf(t, one, at, &points[0], &points[9]), forecastOf(t, other, at, &points[9], &points[0])
	for _, p := range []*Point{&points[0], &points[9]} {
		if !sameSeries(a[p.Name], b[p.Name]) {
			t.Errorf("%s differs", p.Name)
		}
	}
	if sameSeries(a[points[0].Name], forecastOf(t, NewSimulated(6, 60), at, &points[0])[points[0].Name]) {
		t.Error("another seed has the same weather")
	}
}

func TestSimulatedRuns(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	fast, slow := NewSimulated(1, 60), NewSimulated(1, 1)
	if !fast.Newest(at.Add(5*time.Minute), at).Equal(at) || !fast.Newest(at.Add(6*time.Minute), at).After(at) {
		t.Error("at 60 times real time the next run is not after six minutes")
	}
	if got := slow.Newest(at, at); !got.Equal(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)) {
		t.Errorf("in real time the newest run is of %v", got)
	}
	p := &points[0]
	before, after, later := forecastOf(t, slow, at, p)[p.Name], forecastOf(t, slow, at.Add(6*time.Hour), p)[p.Name],
		forecastOf(t, slow, at.AddDate(0, 0, 4), p)[p.Name]
	if sameSeries(before, after) {
		t.Error("a new run has the same forecast")
	}
	if before.From != DateOf(at) || later.From != DateOf(at)+4 {
		t.Errorf("forecasts begin on %s and %s", before.From, later.From)
	}
}

// TestSimulatedClimate compares the drawn weather with its parameters.
func TestSimulatedClimate(t *testing.T) {
	t.Parallel()
	s := NewSimulated(3, 60)
	at := []*Point{&points[0], &points[1], &points[12]} // two of one region, one of another
	archive, err := s.Archive(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	anomalies := make([][]float64, len(at))
	for i, p := range at {
		path := archive[p.Name]
		if path.From.String() != "1991-01-01" || path.Last().String() != "2020-12-31" {
			t.Fatalf("the archive is from %s to %s", path.From, path.Last())
		}
		var winter, summer []float64
		wet, days := 0.0, 0.0
		for k := range path.Days {
			w := &path.Days[k]
			day, _ := (path.From + Date(k)).calendar()
			v := float64(w.Mean) - p.normalMean(day)
			anomalies[i] = append(anomalies[i], v)
			switch monthOf(day) {
			case 1:
				winter = append(winter, v)
			case 7:
				summer = append(summer, v)
			}
			if days++; w.Rain > 0 {
				wet++
			}
			if w.Max < w.Mean || w.Min > w.Mean || w.ET0 < 0 || w.Gust < 0 || w.Rain < 0 {
				t.Fatalf("%s: a day is %+v", p.Name, w)
			}
		}
		if a, b := deviationOf(winter), deviationOf(summer); math.Abs(a-4.5) > .45 || math.Abs(b-2.5) > .25 {
			t.Errorf("%s: anomalies deviate by %.2f in January and %.2f in July", p.Name, a, b)
		}
		if r := correlation(anomalies[i][1:], anomalies[i][:len(anomalies[i])-1]); math.Abs(r-.70) > .03 {
			t.Errorf("%s: the correlation of consecutive days is %.3f", p.Name, r)
		}
		if math.Abs(wet/days-p.wet) > .04 {
			t.Errorf("%s: %.2f of the days are wet, want %.2f", p.Name, wet/days, p.wet)
		}
	}
	if r := correlation(anomalies[0], anomalies[1]); math.Abs(r-.6) > .05 {
		t.Errorf("the correlation within a region is %.3f", r)
	}
	if r := correlation(anomalies[0], anomalies[2]); math.Abs(r) > .05 {
		t.Errorf("the correlation between regions is %.3f", r)
	}
}

// TestSimulatedForecastsErr checks that the error grows with the days, up to that of the
// climate.
func TestSimulatedForecastsErr(t *testing.T) {
	t.Parallel()
	s := NewSimulated(4, 1)
	p := &points[4]
	var errs [horizon][]float64
	start := time.Date(2010, 1, 5, 0, 0, 0, 0, time.UTC)
	for n := range 1500 {
		at := start.AddDate(0, 0, n)
		f := forecastOf(t, s, at, p)[p.Name]
		truth := s.path(p, DateOf(at), DateOf(at)+horizon)
		for k := range errs {
			errs[k] = append(errs[k], float64(f.Days[k].Mean-truth.At(DateOf(at)+Date(k)).Mean))
		}
	}
	for _, k := range []int{0, 2, 4} { // below the minimum spread of the climate
		if got, want := deviationOf(errs[k]), 1+.35*float64(k); math.Abs(got-want) > .12*want {
			t.Errorf("on day %d forecasts err by %.2f, want %.2f", k, got, want)
		}
	}
	if got := deviationOf(errs[horizon-1]); got < 2.5 || got > 4.5 {
		t.Errorf("on the last day forecasts err by %.2f", got)
	}
}

func correlation(a, b []float64) float64 {
	ma, mb := mean(a), mean(b)
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

// TestAnomaliesEqualThoseOfRuns checks that the anomaly behind a simulated
// price is that of a run at the same time, whatever the order of calls.
func TestAnomaliesEqualThoseOfRuns(t *testing.T) {
	t.Parallel()
	strategies := map[string]string{"natural_gas": "energy_demand", "corn": "agriculture", "wheat": "agriculture"}
	start := time.Date(2026, 8, 30, 22, 0, 0, 0, time.UTC) // wheat does not grow, corn does
	one, other := NewSimulated(2, 60), NewSimulated(2, 60)
	var group sync.WaitGroup
	for commodity, strategy := range strategies {
		group.Go(func() {
			for _, after := range []time.Duration{0, time.Minute, 7 * time.Minute, 3 * time.Hour, 30 * time.Hour,
				6 * time.Minute} {
				at := start.Add(after)
				r, err := New(archived{other}, Options{Now: func() time.Time { return at }}).Outlook(t.Context(),
					Question{strategy, commodity, Global})
				if err != nil {
					t.Error(err)
					return
				}
				if got := one.Anomaly(commodity, at); got != r.Z || got == 0 {
					t.Errorf("%s after %v: %v moves the price, a run has %v", commodity, after, got, r.Z)
				}
			}
		})
	}
	group.Wait()
	if one.Anomaly("oil", start) != 0 || one.Anomaly("BTC", start) != 0 {
		t.Error("weather moves what it should not")
	}
}

func TestWarmStopsWithItsContext(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	ended, end := context.WithCancel(t.Context())
	end()
	s := NewSimulated(1, 1)
	s.Warm(ended, at)
	if len(s.paths) != 0 || len(s.effects) != 0 {
		t.Errorf("after its context has ended Warm computes %d paths", len(s.paths))
	}
	s.Warm(t.Context(), at)
	if until := DateOf(s.Newest(at, time.Time{})) + horizon; len(s.paths) != len(points) || s.until < until {
		t.Errorf("Warm computes %d paths until %d, want %d until %d", len(s.paths), s.until, len(points), until)
	}
	if one := NewSimulated(1, 1); s.Anomaly("corn", at) != one.Anomaly("corn", at) {
		t.Error("the anomaly differs where Warm came first")
	}
	days := 0 // that it keeps: of the present, not of the archive of 30 years
	for _, path := range s.paths {
		days = max(days, len(path.Days))
	}
	for commodity, p := range s.effects {
		if p.field == nil || p.field.archive != nil {
			t.Errorf("%s keeps its archive", commodity)
		}
	}
	if days > simulatedBehind+horizon+simulatedAhead {
		t.Errorf("it keeps %d days of a point", days)
	}
}
