package weather

import (
	"testing"
	"time"
)

func TestTheHashOfAnInput(t *testing.T) {
	t.Parallel()
	at := distinct(pointsOf(gas))
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	read := func(seed uint64) (map[string]*Series, map[string]*Series) {
		source := NewSimulated(seed, 1)
		forecast, _, err := source.Forecast(t.Context(), at, now)
		if err != nil {
			t.Fatal(err)
		}
		archive, err := source.Archive(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return forecast, archive
	}
	forecast, archive := read(7)
	hash := func(q Question, day Date) string {
		h := inputHash(q, day, at, forecast, archive)
		if len(h) != 64 {
			t.Fatal(h)
		}
		return h
	}
	first := hash(gas, DateOf(now))
	forecast, archive = read(7)
	if h := hash(gas, DateOf(now)); h != first {
		t.Errorf("of the same input: %s and %s", first, h)
	}
	seen := map[string]string{first: "the first"}
	differs := func(what, h string) {
		if seen[h] != "" {
			t.Errorf("%s has the hash of %s", what, seen[h])
		}
		seen[h] = what
	}
	differs("another question", hash(Question{gas.Strategy, gas.Commodity, "eu"}, DateOf(now)))
	differs("another day", hash(gas, DateOf(now)+1))
	forecast[at[0].Name].Days[3].Mean++
	differs("another forecast", hash(gas, DateOf(now)))
	archive[at[0].Name].Days[300].Rain++
	differs("another archive", hash(gas, DateOf(now)))
}

// Hashes are published, so that the same input keeps its hash from one version to the next.
func TestTheHashOfAnInputStaysTheSame(t *testing.T) {
	t.Parallel()
	p := &Point{Name: "Chicago"}
	forecast := map[string]*Series{p.Name: {From: 20_778, Days: []Day{{-1.5, 2.25, -7, .5, 1, 40}, unknown}}}
	archive := map[string]*Series{p.Name: {From: 11_323, Days: []Day{{3, 5, 1, 0, .75, 25}}}}
	const want = "4b4ceb8a7e14cedd6deea7221fcde94604895bdc7fa5f17b3bd17e65248268db"
	if h := inputHash(gas, 20_778, []*Point{p}, forecast, archive); h != want {
		t.Errorf("the hash is %s", h)
	}
}
