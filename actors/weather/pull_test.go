package weather

import (
	"context"
	"sync"
	"testing"
	"time"
)

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
				r, err := New(other, Options{Now: func() time.Time { return at }}).Outlook(t.Context(),
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
	if len(s.paths) != 0 || len(s.pulls) != 0 {
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
	for commodity, p := range s.pulls {
		if p.field == nil || p.field.archive != nil {
			t.Errorf("%s keeps its archive", commodity)
		}
	}
	if days > simulatedBehind+horizon+simulatedAhead {
		t.Errorf("it keeps %d days of a point", days)
	}
}
