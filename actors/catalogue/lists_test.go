package catalogue

import (
	"context"
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
			counts, err := c.Counts(t.Context(), acc, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, agent := range append(signal.AgentIDs(), "own", "momentum", "texts") {
				_, open := m.list(Query{Agent: agent, Status: signal.Open})
				_, closed := m.list(Query{Agent: agent, Status: signal.Closed})
				if got := counts[agent]; got != (Count{open, closed}) || open == 0 || closed == 0 {
					t.Errorf("%s: %+v, want %d and %d", agent, got, open, closed)
				}
			}
			if counts, err := c.Counts(t.Context(), "acc_other", nil); len(counts) != 0 || err != nil {
				t.Errorf("of another account: %v, %v", counts, err)
			}
			c.expire(start)
			if counts, _ := c.Counts(t.Context(), acc, nil); counts["trading"] != (Count{}) {
				t.Errorf("after the retention: %+v", counts)
			}
		})
	}
}

// expire moves the clock of c beyond the retention of what was created until an hour after start.
func (c *Catalogue) expire(start time.Time) {
	c.now = func() time.Time { return start.Add(c.retention + 2*time.Hour) }
}

// A filter has the names of assets and those of the account's signals, and any that is not close to one.
func TestSuggestAssetsForFilters(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	o := options(start)
	o.Suggest = func(_ context.Context, name string) []string { // all names look like an asset, but its own
		if name == "BTC" {
			return nil
		}
		return []string{"BTC"}
	}
	_, events := history(rand.New(rand.NewPCG(7, 7)), 1000, start)
	log := &fakeLog{events: events}
	c := New(log, log, 1, o)
	for name, refused := range map[string]bool{
		"BTC": false, "BTCC": true,
		"sol": false, "gold": false, "XAUUSD": false, "btcusdt": false, // of signals with prices
		"Standing Desk": false, "standing desks": true, // a subject of content
	} {
		if got := c.SuggestAssets(t.Context(), acc, nil, name); (len(got) > 0) != refused {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := c.SuggestAssets(t.Context(), "acc_other", nil, "standing desk"); len(got) != 1 {
		t.Errorf("the subject of another account: %q", got)
	}
	log.headErr = signal.Unavailable(nil)
	if got := c.SuggestAssets(t.Context(), acc, nil, "BTCC"); got != nil {
		t.Errorf("without lists: %q", got)
	}
}
