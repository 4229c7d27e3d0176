package market

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// endByExit returns what ends an alert with an exit, searched in all trades.
func endByExit(a *alerts.Alert, ticks []marketdata.Tick) (end string, at marketdata.Tick) {
	for _, t := range ticks {
		switch {
		case t.Time <= a.Since:
		case t.Time > a.Expires:
			return "expired", marketdata.Tick{Price: at.Price, Time: a.Expires}
		case t.Time > a.Exit:
			return "exited", t
		case t.Price <= a.Lower || t.Price >= a.Upper:
			return "reached", t
		}
		at = t
	}
	return "", marketdata.Tick{}
}

// ended is how an alert ended as its Ref counts it: by messages about its exit alone, once.
type ended struct {
	How string
	At  marketdata.Tick
}

func endsByExit(t *testing.T, list []alerts.Alert, got markettest.Messages) map[engine.Ref]ended {
	t.Helper()
	ends := map[engine.Ref]ended{}
	for _, a := range list {
		for _, m := range got[a.Ref] {
			var end ended
			switch m := m.(type) {
			case alerts.Reached:
				if m.Exit == a.Exit {
					end = ended{"reached", m.Tick}
				}
			case alerts.Exited:
				end = ended{"exited", m.Tick}
			case alerts.Expired:
				if m.Exit == a.Exit {
					end = ended{"expired", marketdata.Tick{Price: m.Price, Time: m.At}}
				}
			}
			if end.How == "" {
				continue
			}
			if before := ends[a.Ref]; before.How != "" {
				t.Errorf("%+v ended as %+v, and then as %+v", a, before, end)
			}
			ends[a.Ref] = end
		}
	}
	return ends
}

// An exit ends an alert alike whether the asset's actor hears of it at once, after later trades, or adds the alert
// only then, as a new owner does.
func TestExitsEndEqually(t *testing.T) {
	t.Parallel()
	refs := markettest.Refs(t, 300)
	for seed := range uint64(5) {
		w, rng := walkMarket(seed, 600), rand.New(rand.NewPCG(seed, 5))
		list := w.someAlerts(refs, seed)
		want, how := map[engine.Ref]ended{}, map[string]int{}
		for i := range list {
			a := &list[i]
			a.Exit = a.Since + rng.Int64N(60_000)
			if end, at := endByExit(a, w.ticks); end != "" {
				want[a.Ref] = ended{How: end, At: at}
				how[end]++
			}
		}
		if how["reached"] < 20 || how["exited"] < 20 || how["expired"] < 5 {
			t.Fatalf("seed %d: ended by %v: choose other levels", seed, how)
		}
		for name, delay := range map[string]func() int64{
			"at once": func() int64 { return 0 }, "after trades": func() int64 { return rng.Int64N(2000) },
		} {
			got := markettest.Messages{}
			a := w.actorAt(w.ticks[0].Time-1, 1<<40, 1<<20)
			a.alerts.notify = got.Notify
			a.alerts.add(nil)
			hears := map[int]int64{}
			for i := range list {
				hears[i] = list[i].Exit + delay()
			}
			begun := map[int]bool{}
			for _, tick := range w.ticks {
				for i, x := range list {
					if !begun[i] && x.Since < tick.Time {
						begun[i], x.Exit = true, 0
						addNow(a, x)
					}
					if at, ok := hears[i]; ok && begun[i] && at < tick.Time {
						delete(hears, i)
						addNow(a, list[i])
					}
				}
				a.alerts.set.Tick(tick)
				a.alerts.accepted = append(a.alerts.accepted, tick)
			}
			for i := range hears {
				addNow(a, list[i])
			}
			if diff := cmp.Diff(want, endsByExit(t, list, got), sameRef); diff != "" {
				t.Errorf("seed %d, heard of %s (-want +got):\n%s", seed, name, diff)
			}
		}
		got := markettest.Messages{}
		a := w.actorAt(w.ticks[len(w.ticks)-1].Time, 1<<40, 1<<20)
		a.alerts.notify = got.Notify
		a.alerts.add(nil)
		a.alerts.add(entriesOf(list))
		if diff := cmp.Diff(want, endsByExit(t, list, got), sameRef); diff != "" {
			t.Errorf("seed %d, by a new owner (-want +got):\n%s", seed, diff)
		}
	}
}

// addNow adds an alert as the actor does when no bars are missing.
func addNow(a *assetActor, alert alerts.Alert) {
	a.alerts.addPending([]alerts.Alert{alert})
	pending := a.alerts.pending
	a.alerts.pending = nil
	a.alerts.add(pending)
}

// An alert that was watched live is not replayed when it gets an exit: bars may have prices that no trade had.
func TestAnExitContinuesTheAlert(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"at once": false, "after trades": true} {
		w, ref := walkMarket(3, 60), markettest.Refs(t, 1)[0]
		a, got := w.actorAt(w.ticks[0].Time, 0, 1<<20), markettest.Messages{}
		a.alerts.notify = got.Notify
		a.alerts.add(nil)
		alert := alerts.Alert{Ref: ref, Lower: 1, Upper: 5000, Since: w.ticks[0].Time, Expires: 1 << 40, Frame: signal.M1}
		addNow(a, alert)
		trade := func(tick marketdata.Tick) {
			a.alerts.set.Tick(tick)
			a.alerts.accepted = append(a.alerts.accepted, tick)
		}
		middle := len(w.ticks) / 2
		for _, tick := range w.ticks[1:middle] {
			trade(tick)
		}
		a.alerts.accepted = a.alerts.accepted[middle-10:] // the rest is no longer kept
		a.prices.frames[prices.M1].bars = w.bars[0]
		w.bars[0][5].Low = 0.5 // below the level
		alert.Exit = w.ticks[middle-1].Time
		if late {
			trade(w.ticks[middle])
		}
		addNow(a, alert)
		if !late {
			trade(w.ticks[middle])
		}
		if len(got[ref]) == 0 {
			t.Fatalf("%s: it has not ended", name)
		}
		if m, ok := got[ref][0].(alerts.Exited); !ok || m.Tick != w.ticks[middle] || len(got[ref]) != 1 || m.Span.Low < 500 {
			t.Errorf("%s: notified of %+v", name, got[ref])
		}
	}
}
