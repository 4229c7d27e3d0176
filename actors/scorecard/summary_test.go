package scorecard

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestSummarySinceATime(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	const account = signal.AccountID("acc_1")
	other := func(s *signal.Signal) { s.Agent = "weather" }
	for i, exit := range []float64{101.5, 99, 101.5, 99, 100.25, 0} {
		change := other
		if i%2 == 0 {
			change = nil
		}
		r.add(account, i, change, exit)
	}
	ends := []time.Time{}
	for _, s := range r.list {
		if s.Closing != nil {
			ends = append(ends, s.Closing.At)
		}
	}
	now := func() time.Time { return morning.Add(time.Hour) }
	c := New(r, Options{Now: now, Cost: func(string) float64 { return .001 }})
	got, err := c.Summary(t.Context(), account, ends[2])
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[signal.AgentID]backtest.Reasons{}
	for _, s := range r.closed {
		x := reasons[s.Agent]
		x.Add(s.Closing.Reason)
		reasons[s.Agent] = x
	}
	if d := cmp.Diff(reasons, got.Reasons); d != "" || len(reasons) != 2 {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
	// 1.5, -1 and 0.25 R; entry and exit cost about 0.1 R each.
	if got.Closed != 3 || got.Wins != 2 || math.Abs(float64(got.R)-.75) > 1e-9 ||
		math.Abs(float64(got.R-got.RNet)-.6) > .01 {
		t.Errorf("%+v", got)
	}
	if got, err := c.Summary(t.Context(), account, morning.Add(2*time.Hour)); err != nil || got.Closed != 0 ||
		len(got.Reasons) != 2 {
		t.Errorf("later: %+v, %v", got, err)
	}
	r.fail = errors.New("away")
	if _, err := New(r, Options{}).Summary(t.Context(), account, morning); !errors.Is(err, r.fail) {
		t.Errorf("a failed read: %v", err)
	}
}
