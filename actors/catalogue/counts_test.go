package catalogue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestCountsAreTheTotalsOfLists(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"below the index": 1000, "with the index": 2 * indexedRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
			m, events := history(rand.New(rand.NewPCG(5, uint64(count))), count, start)
			log := &fakeLog{events: events}
			c := New(log, log, 1, options(start))
			counts, err := c.Counts(t.Context(), acc)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range signal.Agents() {
				_, open := m.list(Query{Agent: a.ID, Status: signal.Open})
				_, closed := m.list(Query{Agent: a.ID, Status: signal.Closed})
				if got := counts[a.ID]; got != (Count{open, closed}) || open == 0 || closed == 0 {
					t.Errorf("%s: %+v, want %d and %d", a.ID, got, open, closed)
				}
			}
			if counts, err := c.Counts(t.Context(), "acc_other"); len(counts) != 0 || err != nil {
				t.Errorf("of another account: %v, %v", counts, err)
			}
			c.expire(start)
			if counts, _ := c.Counts(t.Context(), acc); counts["trading"] != (Count{}) {
				t.Errorf("after the retention: %+v", counts)
			}
		})
	}
}

// expire moves the clock of c beyond the retention of what was created until an hour after start.
func (c *Catalogue) expire(start time.Time) {
	c.now = func() time.Time { return start.Add(c.retention + 2*time.Hour) }
}
