package weather

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestFrostIsNamedWhereItOccurs checks that frost at one point does not name the event of
// another. Many winters have no day below -18 °C in early December, so one is a large anomaly.
func TestFrostIsNamedWhereItOccurs(t *testing.T) {
	t.Parallel()
	q := Question{"agriculture", "wheat", "us"}
	s := NewSimulated(1, 1)
	var at []*Point
	for _, station := range pointsOf(q) {
		at = append(at, station.Point)
	}
	archive, err := s.Archive(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	frosts := 0
	for start := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC); start.Month() < 12 ||
		start.Day() < 31; start = start.AddDate(0, 0, 1) {
		forecast := forecastOf(t, s, start, at...)
		o, err := outlookOf(q, DateOf(start), forecast, archive)
		if err != nil {
			t.Fatal(err)
		}
		if o.Event.Type != signal.Frost {
			continue
		}
		frosts++
		coldest := float32(100)
		for _, d := range forecast[o.Event.Location].Days {
			coldest = min(coldest, d.Min)
		}
		if coldest > -18 {
			t.Errorf("%s: frost at %s, where it is never below %v °C", DateOf(start), o.Event.Location, coldest)
		}
	}
	if frosts == 0 {
		t.Error("no run has a frost")
	}
}
