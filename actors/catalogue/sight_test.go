package catalogue

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// randomView returns a view of everything, of some and of nothing, in each of its members.
func randomView(r *rand.Rand) *signal.View {
	some := func(names ...string) signal.Names {
		if r.IntN(2) == 0 {
			return signal.Names{}
		}
		var list []string
		for _, name := range names {
			if r.IntN(2) == 0 {
				list = append(list, name)
			}
		}
		return signal.NamesOf(list...)
	}
	return signal.NewView(some("trading", "weather", "seo", "own", "momentum", "texts", "none"),
		some("btc", "ETH", "standing desk", "ÄPFEL", "XAUUSD", "gold", "none"),
		some("momentum", "own", "alpha", "blog_post", "breakout", "agriculture"))
}

// sees reports whether a view has a signal. Its assets are those of the catalogue, whatever a signal calls them.
func sees(v *signal.View, s signal.Listing) bool {
	asset := s.Asset
	if s.Entry != nil {
		asset = catalogueName(asset)
	}
	return v.Sees(s.Agent, asset, s.Strategy)
}

func TestCountsOfAView(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"below the index": 2000, "with the index": 2 * indexedRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(11, uint64(count)))
			start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
			m, events := history(r, count, start)
			log := &fakeLog{events: events}
			o := options(start)
			o.Retention = 24*time.Hour - m.signals[count/4].CreatedAt.Sub(start)
			c := New(log, log, 1, o)
			for range 20 {
				v := randomView(r)
				got, err := c.Counts(t.Context(), acc, v)
				if err != nil {
					t.Fatal(err)
				}
				want := map[signal.AgentID]Count{}
				for _, s := range m.signals {
					if n := want[s.Agent]; sees(v, s) && s.CreatedAt.After(m.signals[count/4].CreatedAt) {
						if s.Status == signal.Open {
							n.Open++
						} else {
							n.Closed++
						}
						want[s.Agent] = n
					}
				}
				for agent, n := range got {
					if n == (Count{}) {
						delete(got, agent)
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", v, d)
				}
			}
		})
	}
}

// A view keeps its signals apart from those of strategies and assets that come after its set was cached.
func TestCachedViewsSeeWhatIsNew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	_, events := history(rand.New(rand.NewPCG(12, 12)), 2*indexedRows, now)
	log := &fakeLog{events: events}
	c := New(log, log, 1, options(now))
	v := signal.NewView(signal.NamesOf("newcomer"), signal.NamesOf("NEW"), signal.NamesOf("first"))
	q := Query{Account: acc, View: v, Limit: 10}
	if _, n, err := c.List(t.Context(), q); n != 0 || err != nil {
		t.Fatalf("%d signals, %v", n, err)
	}
	at, price := events[len(events)-1].Position, 1.5
	for _, l := range []signal.Listing{
		{Agent: "newcomer", Strategy: "first", Asset: "new"}, {Agent: "newcomer", Strategy: "second", Asset: "new"},
		{Agent: "newcomer", Strategy: "first", Asset: "other"}, {Agent: "other", Strategy: "first", Asset: "new"},
	} {
		at.Seq++
		l.ID, l.Entry = signal.NewSignalID(), &price
		c.Publish(0, []signal.Event{eventOf(at, signal.SignalCreated, &l)})
	}
	if got, n, err := c.List(t.Context(), q); n != 1 || err != nil || got[0].Strategy != "first" || got[0].Asset != "new" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWeatherOfAView(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795253400000).UTC()
	r := rand.New(rand.NewPCG(13, 2))
	all, events := weatherHistory(r, 200, now.Add(-time.Hour))
	log := &fakeLog{events: events}
	c := New(log, log, 1, Options{Now: func() time.Time { return now }})
	none := signal.Names{}
	for _, v := range []*signal.View{
		signal.NewView(none, none, none), signal.NewView(signal.NamesOf("weather"), signal.NamesOf("Wheat", "oil"), none),
		signal.NewView(signal.NamesOf("trading"), none, none), signal.NewView(none, none, signal.NamesOf("momentum")),
		signal.NewView(none, none, signal.NamesOf("commodity_impact")), signal.NewView(none, signal.NamesOf(), none),
	} {
		var seen []signal.WeatherSignal
		for _, w := range all {
			got, err := c.WeatherSignal(t.Context(), acc, v, string(w.ID))
			if !v.Sees("weather", w.Commodity, "commodity_impact") {
				if signal.KindOf(err) != signal.KindNotFound {
					t.Errorf("%s sees %s: %v", v, w.ID, err)
				}
				continue
			}
			seen = append(seen, w)
			if d := cmp.Diff(w, got); d != "" || err != nil {
				t.Errorf("%s (-want +got):\n%s%v", v, d, err)
			}
		}
		q := WeatherQuery{Account: acc, View: v, Limit: 7, Offset: 3, Region: pick(r, "", "us")}
		want, wantTotal := wanted(seen, q)
		got, total, err := c.WeatherSignals(t.Context(), q)
		if d := cmp.Diff(want, got); d != "" || total != wantTotal || err != nil {
			t.Errorf("%s: total %d, want %d, %v (-want +got):\n%s", v, total, wantTotal, err, d)
		}
	}
}

// Suggestions of a view know nothing of assets and signals that it does not have.
func TestSuggestAssetsOfAView(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	o := options(start)
	o.Suggest = func(context.Context, string) []string { return []string{"ETH"} } // all names look like this asset
	_, events := history(rand.New(rand.NewPCG(14, 7)), 1000, start)
	log := &fakeLog{events: events}
	c := New(log, log, 1, o)
	none := signal.Names{}
	for _, x := range []struct {
		view    *signal.View
		name    string
		refused bool
	}{
		{nil, "standing desk", false}, {nil, "other desk", true},
		{signal.NewView(none, none, none), "standing desk", false}, {signal.NewView(none, none, none), "other desk", true},
		{signal.NewView(signal.NamesOf("seo"), none, none), "standing desk", false},
		{signal.NewView(signal.NamesOf("none"), none, none), "standing desk", true}, // as one that does not exist
		{signal.NewView(none, none, signal.NamesOf()), "standing desk", true},
		{signal.NewView(none, signal.NamesOf("BTC"), none), "standing desk", false},
		{signal.NewView(none, signal.NamesOf("BTC"), none), "other desk", false},
		{signal.NewView(none, signal.NamesOf(), none), "BTC", false},
	} {
		if got := c.SuggestAssets(t.Context(), acc, x.view, x.name); (len(got) > 0) != x.refused {
			t.Errorf("%v, %s: %q", x.view, x.name, got)
		}
	}
}
