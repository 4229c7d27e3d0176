package signals

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestWeatherEntriesAreThoseOfAllAccounts(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 1)
	byWeather := func(metadata string) func(*signal.Signal) {
		return func(s *signal.Signal) {
			s.Agent, s.Weather = "weather", &signal.Outlook{Commodity: "corn", Region: "us", Likelihood: .875}
			s.Metadata = []byte(metadata)
		}
	}
	first := b.create(signal.NewAccountID(), 1, byWeather(`{"prior":0.4,"tau":0.02}`))
	other := b.create(signal.NewAccountID(), 2)
	b.create(signal.NewAccountID(), 3, byWeather(`{"tau":0.02}`)) // of before priors were stored
	b.create(signal.NewAccountID(), 4, byWeather(`{"prior":"high"}`))
	var got []string
	created := map[signal.Position]int{}
	note := func(e *signal.WeatherEntry) {
		if e.Created.IsZero() {
			created[e.Position] = len(got)
			got = append(got, fmt.Sprintf("%v %s %v %v", e.Position.Time(), e.Commodity, e.Likelihood, e.Prior))
			return
		}
		n, ok := created[e.Created]
		if at := e.Position.Time(); at.Before(first.CreatedAt) || at.After(b.store.Now()) {
			t.Errorf("closed at %v", at)
		}
		got = append(got, fmt.Sprint("closed ", n, ok, e.Won))
	}
	upTo, err := b.store.EachWeatherEntry(t.Context(), 0, signal.Position{}, note)
	want := []string{fmt.Sprintf(`%v corn 0.875 0.4`, first.CreatedAt)}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("entries (-want +got): %v\n%s", err, d)
	}
	got = nil
	b.close(other)
	b.close(first)
	if _, err := b.store.EachWeatherEntry(t.Context(), 0, upTo, note); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"closed 0 false true", "closed 0 true true"}, got); d != "" {
		t.Errorf("entries behind %v (-want +got):\n%s", upTo, d)
	}
}
