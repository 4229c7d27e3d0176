package scorecard

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestAViewIsAsAnAccountOfItsSignals: its card and its summary are those of an account that has nothing else.
func TestAViewIsAsAnAccountOfItsSignals(t *testing.T) {
	t.Parallel()
	none := signal.Names{}
	for _, v := range []*signal.View{
		nil, signal.NewView(none, none, none), signal.NewView(signal.NamesOf(), none, none),
		signal.NewView(signal.NamesOf("mine", "other"), none, none), signal.NewView(none, signal.NamesOf("btc", "tables"), none),
		signal.NewView(none, none, signal.NamesOf("alpha", "momentum")),
		signal.NewView(signal.NamesOf("trading", "texts"), signal.NamesOf("ETH", "BTC"), signal.NamesOf("momentum", "alpha")),
	} {
		whole, part := &fakeRecords{}, &fakeRecords{}
		r := rand.New(rand.NewPCG(1, 3))
		for i := range 300 {
			made := signal.Signal{Agent: pick(r, signal.AgentID("trading"), "mine", "other", "texts"),
				Asset:    pick(r, "BTC", "btc", "XBT", "ETH", "Tables"),
				Strategy: pick(r, "momentum", "alpha", "beta")}
			exit := 99 + 2.5*r.Float64()
			change := func(s *signal.Signal) {
				s.Agent, s.Asset, s.Strategy = made.Agent, made.Asset, made.Strategy
				if !s.Agent.BuiltIn() {
					s.Reach, s.Metadata = &signal.Reach{}, []byte(`{"base_probability":0.4,"claimed_confidence":0.6}`)
				}
			}
			texts := made.Agent == "texts"
			for _, log := range []*fakeRecords{whole, part} {
				if log == part && !v.Sees(made.Agent, named(made.Asset, texts), made.Strategy) {
					continue
				}
				if !texts {
					log.add("acc_1", i, change, exit)
					continue
				}
				log.add("acc_1", i, func(s *signal.Signal) { change(s); s.Levels = nil }, 0)
				id := log.list[len(log.list)-1].ID
				log.list = append(log.list, &signal.Signal{ID: id, Account: "acc_1",
					Closing: &signal.Closing{Reason: signal.AgentExit, At: morning}})
			}
		}
		o := Options{Now: clock, Cost: func(string) float64 { return .001 },
			Name: func(asset string) string { return named(asset, false) }}
		got, err := New(whole, o).Card(t.Context(), Query{Account: "acc_1", View: v})
		want, err2 := New(part, o).Card(t.Context(), Query{Account: "acc_1"})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		got.Recorded, want.Recorded = Recorded{}, Recorded{} // of the places of leaves, which differ
		for _, card := range []Card{got, want} {
			for i := range card.Groups {
				card.Groups[i].Recorded = Recorded{}
			}
		}
		if d := cmp.Diff(text(t, want), text(t, got)); d != "" {
			t.Errorf("card of %v (-want +got):\n%s", v, d)
		}
		sums, err := New(whole, o).Summary(t.Context(), "acc_1", v, morning.Add(3*time.Hour))
		wanted, err2 := New(part, o).Summary(t.Context(), "acc_1", nil, morning.Add(3*time.Hour))
		if d := cmp.Diff(wanted, sums); d != "" || err != nil || err2 != nil {
			t.Errorf("summary of %v: %v, %v (-want +got):\n%s", v, err, err2, d)
		}
		if v == nil && (len(got.Strategies) == 0 || sums.Closed == 0 || sums.Reasons["texts"] == (backtest.Reasons{})) {
			t.Errorf("there is nothing to compare: %+v", sums)
		}
	}
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// named returns the name of an asset by its spelling. A text has its subject.
func named(asset string, content bool) string {
	if asset == "XBT" && !content {
		return "BTC"
	}
	return asset
}
