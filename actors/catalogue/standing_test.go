package catalogue

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestStanding compares with a plain scan of the events up to a position.
func TestStanding(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 8))
	_, events := history(r, 3000, time.Now().Add(-time.Hour))
	o := options(time.Now())
	o.Retention = time.Duration(o.Now().UnixMilli()-events[len(events)/5].Position.MS) * time.Millisecond
	f := &fakeLog{}
	f.add(events...)
	c := New(f, f, 1, o)
	compared := 0
	for range 100 {
		upTo, limit := pick(r, events...).Position, 1+r.IntN(100)
		want := Standing{Counts: map[signal.AgentID]Count{}}
		created, closed := map[signal.SignalID]signal.Position{}, map[signal.SignalID]signal.Position{}
		for _, e := range events { // of later ones only the closings matter, without which a signal is open
			l := e.Listing
			switch {
			case e.Type == signal.SignalCreated && e.Position.MS > c.oldest():
				created[l.ID] = e.Position
			case e.Type == signal.SignalClosed && !created[l.ID].IsZero():
				closed[l.ID] = e.Position
			default:
				continue
			}
			if e.Position.Compare(upTo) > 0 {
				continue
			}
			want.Last = e.Position
			count := want.Counts[l.Agent]
			if e.Type == signal.SignalCreated {
				count.Open++
			} else {
				count.Open--
				count.Closed++
				want.Closed = append(want.Closed, signal.Location{ID: l.ID, Created: created[l.ID], Closed: e.Position})
			}
			want.Counts[l.Agent] = count
		}
		for id, at := range created {
			if at.Compare(upTo) <= 0 && closed[id].IsZero() {
				want.Open = append(want.Open, signal.Location{ID: id, Created: at})
			}
		}
		slices.SortFunc(want.Closed, func(x, y signal.Location) int { return y.Closed.Compare(x.Closed) })
		slices.SortFunc(want.Open, func(x, y signal.Location) int {
			return cmp.Or(y.Created.Compare(x.Created), cmp.Compare(y.ID, x.ID))
		})
		want.Closed, want.Open = want.Closed[:min(limit, len(want.Closed))], want.Open[:min(limit, len(want.Open))]
		got, err := c.Standing(t.Context(), acc, upTo, limit)
		for _, list := range [][]signal.Location{got.Closed, got.Open, want.Closed, want.Open} {
			compared += len(list)
		}
		if d := gocmp.Diff(want, got, gocmp.Transformer("list", func(l []signal.Location) []signal.Location {
			return append([]signal.Location{}, l...)
		})); err != nil || d != "" {
			t.Fatalf("up to %v, %v (-want +got):\n%s", upTo, err, d)
		}
	}
	if compared < 1000 {
		t.Errorf("only %d were compared", compared)
	}
	if got, err := c.Standing(t.Context(), "acc_other", events[0].Position, 5); err != nil || got.Counts != nil {
		t.Errorf("of another account: %v, %v", got, err)
	}
}
