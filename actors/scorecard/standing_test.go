package scorecard

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// TestStandingAsOfAPosition compares with the statistics of a log that ends there.
func TestStandingAsOfAPosition(t *testing.T) {
	t.Parallel()
	const cost = 0.001
	random := rand.New(rand.NewPCG(8, 4))
	whole := &fakeRecords{}
	for i := range 500 {
		whole.add("acc_1", i, func(s *signal.Signal) {
			s.Agent = []signal.AgentID{"trading", "mine", "hers", "small"}[min(i%5, 3)]
		}, 98.5+3*random.Float64())
	}
	o := Options{Cost: func(string) float64 { return cost }, Now: clock}
	cards := New(whole, o)
	for _, end := range []int{0, 1, 2, 3, 99, 500, 731, 1000} {
		got, err := cards.Standing(t.Context(), "acc_1", signal.Position{MS: int64(end)}, []signal.AgentID{"mine", "trading",
			"none"})
		if err != nil {
			t.Fatal(err)
		}
		part := &fakeRecords{list: whole.list[:end]}
		part.closed = whole.closed[:end/2]
		of := func(agents ...signal.AgentID) backtest.Statistics {
			return part.want(func(s *signal.Signal) bool {
				for _, a := range agents {
					if s.Agent == a {
						return true
					}
				}
				return len(agents) == 0
			}, cost)
		}
		want := Standing{All: of(), Rest: of("hers", "small"), Agents: map[signal.AgentID]backtest.Statistics{
			"mine": of("mine"), "trading": of("trading"), "none": of("none")}, Curve: got.Curve}
		if d := cmp.Diff(text(t, want), text(t, got)); d != "" {
			t.Errorf("%d entries (-want +got):\n%s", end, d)
		}
		if n := min(end/2, MaxPoints); len(got.Curve) != n {
			t.Fatalf("%d entries: %d points, want %d", end, len(got.Curve), n)
		}
		if n := len(got.Curve); n > 0 {
			last, all := got.Curve[n-1], got.All
			if math.Abs(last.RNet-float64(all.TotalR)) > 1e-9 || math.Abs(last.R-float64(all.MeanR)*float64(all.Count)) > 1e-9 {
				t.Errorf("%d entries: the curve ends with %+v, and the sum is %v", end, last, all.TotalR)
			}
		}
	}
}

// The curve has the sums in the order of the ends, which is not that of the log.
func TestCurveByHand(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	for i, exit := range []float64{101, 99, 102} { // 1 R, -1 R, 2 R
		r.add("acc_1", 10-i, nil, 0)
		s := r.list[i]
		closing := strategy.Close(s, strategy.Exit{Reason: signal.Expired, Price: exit},
			morning.Add(time.Duration(60-i)*time.Minute))
		r.closed = append(r.closed, &signal.Signal{ID: s.ID, Account: "acc_1", Closing: &closing})
	}
	r.list = append(r.list, r.closed...)
	got, err := New(r, Options{Cost: func(string) float64 { return 0.0005 }, Now: clock}).Standing(t.Context(), "acc_1",
		signal.Position{MS: 6}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sums []float64
	for i, p := range got.Curve {
		if want := morning.Add(time.Duration(58+i) * time.Minute); !p.At.Equal(want) {
			t.Errorf("point %d is of %v, want %v", i, p.At, want)
		}
		sums = append(sums, math.Round(p.R*1e6)/1e6, math.Round(p.RNet*1e6)/1e6)
	}
	// Costs of a signal are 0.0005 of entry and exit, over 1 R of 1.
	if d := cmp.Diff([]float64{2, 1.899, 1, 0.7995, 2, 1.699}, sums); d != "" {
		t.Errorf("sums (-want +got):\n%s", d)
	}
}
