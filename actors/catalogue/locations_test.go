package catalogue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestAWalkByLocationsHasEverySignalOnce, in the order of lists, while others are created.
func TestAWalkByLocationsHasEverySignalOnce(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"below the index": 2000, "with the index": 2 * indexedRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, uint64(count)))
			start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
			m, events := history(r, count, start)
			log := &fakeLog{events: events}
			c := New(log, log, 1, options(start))
			last := events[len(events)-1].Position
			for range 12 {
				q := randomQuery(r, m)
				q.Offset, q.Limit = 0, len(m.signals)
				want, _ := m.list(q)
				q.Limit = 1 + r.IntN(200)
				var got []signal.Location
				for before := (signal.Location{}); ; before = got[len(got)-1] {
					page, _, err := c.Locations(t.Context(), q, before)
					if err != nil {
						t.Fatal(err)
					}
					if len(page) == 0 {
						break
					}
					got = append(got, page...)
					last.MS++
					other := m.signals[0]
					other.ID, other.CreatedAt = signal.NewSignalID(), last.Time()
					c.Publish(0, []signal.Event{eventOf(last, signal.SignalCreated, &other)})
					m.add(&other, last)
				}
				checkLocations(t, m, want, got, fmt.Sprintf("%+v", q))
			}
		})
	}
}

// add adds a signal that was created after the history was made.
func (m *model) add(l *signal.Listing, at signal.Position) {
	m.byID[l.ID] = len(m.signals)
	m.signals, m.initial, m.places = append(m.signals, *l), append(m.initial, l.Confidence), append(m.places, at)
}

func checkLocations(t *testing.T, m *model, want []signal.Listing, got []signal.Location, what string) {
	t.Helper()
	var wantIDs, gotIDs []signal.SignalID
	for _, l := range want {
		wantIDs = append(wantIDs, l.ID)
	}
	for _, l := range got {
		gotIDs = append(gotIDs, l.ID)
		i := m.byID[l.ID]
		if l.Created != m.places[i] || l.Closed.IsZero() != (m.signals[i].Status == signal.Open) {
			t.Errorf("%+v: created at %v and %s", l, m.places[i], m.signals[i].Status)
		}
	}
	if d := cmp.Diff(wantIDs, gotIDs); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestLocationsOfAnAccountWithoutSignals(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	c := New(log, log, 1, Options{})
	if at, n, err := c.Locations(t.Context(), Query{Account: acc, Limit: 5}, signal.Location{}); len(at) != 0 ||
		n != 0 || err != nil {
		t.Errorf("%v %d %v", at, n, err)
	}
}
