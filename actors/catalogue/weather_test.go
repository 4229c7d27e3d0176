package catalogue

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// weatherHistory makes events of weather signals among others, clustered in time. It also
// returns the plain list with which the catalogue must agree, oldest first.
func weatherHistory(r *rand.Rand, n int, start time.Time) ([]signal.WeatherSignal, []signal.Event) {
	var all []signal.WeatherSignal
	var events []signal.Event
	closed := map[signal.WeatherID]bool{}
	p := signal.Position{MS: start.UnixMilli()}
	for len(events) < n {
		if r.IntN(3) == 0 {
			p = signal.Position{MS: p.MS + int64(1+r.IntN(50))}
		}
		p.Seq++
		if len(all) > 0 && r.IntN(4) == 0 {
			w := &all[r.IntN(len(all))]
			w.Confidence = float64(r.IntN(10001)) / confScale
			l := weatherListing(w)
			events = append(events, eventOf(p, signal.SignalUpdated, &l))
			if r.IntN(2) == 0 && !closed[w.ID] {
				closed[w.ID] = true
				p.Seq++
				events = append(events, eventOf(p, signal.SignalClosed, &l))
			}
			if closed[w.ID] {
				w.Confidence = w.Initial
			}
			continue
		}
		w := signal.WeatherSignal{
			ID: signal.NewSignalID().Weather(), Direction: pick(r, signal.Long, signal.Short),
			Confidence: float64(r.IntN(10001)) / confScale, CreatedAt: p.Time(),
			Outlook: signal.Outlook{
				Commodity: pick(r, "natural_gas", "wheat", "corn", "oil"),
				Region:    pick(r, "us", "eu", "asia", "global"), Likelihood: r.Float64(), ExpectedImpact: "+1 %",
				Event: signal.WeatherEvent{Type: signal.Storm, Severity: pick(r, signal.Severities...),
					Location: "Houston", ForecastDate: "2026-11-24"},
			},
		}
		w.Initial = w.Confidence
		l, o := weatherListing(&w), w.Outlook
		e := eventOf(p, signal.SignalCreated, &l)
		e.Weather = &o
		events, all = append(events, e), append(all, w)
		if r.IntN(5) == 0 { // another agent's
			other := l
			other.ID, other.Agent, other.Strategy = signal.NewSignalID(), "trading", "momentum"
			p.Seq++
			events = append(events, eventOf(p, signal.SignalCreated, &other))
		}
	}
	return all, events
}

func weatherListing(w *signal.WeatherSignal) signal.Listing {
	id, _ := signal.ParseWeatherID(string(w.ID))
	return signal.Listing{ID: id, Agent: "weather", Asset: w.Commodity, Strategy: "commodity_impact",
		Direction: w.Direction, Confidence: w.Confidence, Status: signal.Open, CreatedAt: w.CreatedAt}
}

// wanted returns the page of q from the plain list.
func wanted(all []signal.WeatherSignal, q WeatherQuery) ([]signal.WeatherSignal, int) {
	found := []signal.WeatherSignal{}
	for _, w := range all {
		if (q.Region == "" || q.Region == w.Region) && (q.Commodity == "" || q.Commodity == w.Commodity) &&
			(q.Severity == "" || q.Severity == w.Event.Severity) && (q.Since.IsZero() || w.CreatedAt.After(q.Since)) {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(a, b signal.WeatherSignal) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	total := len(found)
	from := min(q.Offset, total)
	return found[from:min(from+q.Limit, total)], total
}

func TestWeatherListsEqualAPlainList(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795253400000).UTC()
	r := rand.New(rand.NewPCG(1, 2))
	all, events := weatherHistory(r, 600, now.Add(-time.Hour))
	log := &fakeLog{}
	log.add(events[:300]...)
	c := New(log, log, 1, Options{Now: func() time.Time { return now }})
	if _, _, err := c.WeatherSignals(t.Context(), WeatherQuery{Account: acc, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	c.Publish(0, events[290:]) // some of it a second time, as after a reconnect
	log.add(events[300:]...)
	restarted := New(log, log, 1, Options{Now: func() time.Time { return now }})
	for name, c := range map[string]*Catalogue{"followed": c, "built": restarted} {
		for range 300 {
			q := WeatherQuery{Account: acc, Limit: 1 + r.IntN(40), Offset: pick(r, 0, 0, 7, 1000),
				Region: pick(r, "", "", "us", "global"), Commodity: pick(r, "", "", "corn", "oil"),
				Severity: pick(r, "", "", "low", "extreme")}
			if r.IntN(3) == 0 {
				q.Since = all[r.IntN(len(all))].CreatedAt
			}
			want, wantTotal := wanted(all, q)
			got, total, err := c.WeatherSignals(t.Context(), q)
			if err != nil || total != wantTotal {
				t.Fatalf("%s: %+v: total %d, %v; want %d", name, q, total, err, wantTotal)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %+v (-want +got):\n%s", name, q, diff)
			}
		}
		one := all[r.IntN(len(all))]
		got, err := c.WeatherSignal(t.Context(), acc, nil, string(one.ID))
		if diff := cmp.Diff(one, got); err != nil || diff != "" {
			t.Errorf("%s: one (-want +got):\n%s%v", name, diff, err)
		}
	}
}

func TestMissingWeatherSignals(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795253400000).UTC()
	all, events := weatherHistory(rand.New(rand.NewPCG(3, 4)), 50, now.Add(-time.Hour))
	log := &fakeLog{}
	log.add(events...)
	clock := now
	c := New(log, log, 1, Options{Retention: time.Hour, Now: func() time.Time { return clock }})
	id := string(all[len(all)-1].ID)
	trading := string(events[0].Listing.ID)
	for _, e := range events {
		if e.Listing.Agent == "trading" {
			trading = strings.Replace(string(e.Listing.ID), "sig_", "wsig_", 1)
		}
	}
	for name, missing := range map[string]struct {
		account signal.AccountID
		id      string
	}{
		"another account's": {"acc_01M7YQ1WTVKN9DZNWV9NV456V2", id},
		"no id":             {acc, "wsig_1"},
		"signal":            {acc, strings.TrimPrefix(id, "w")},
		"unknown":           {acc, string(signal.NewSignalID().Weather())},
		"another agent's":   {acc, trading},
		"lower case":        {acc, strings.ToLower(id)},
	} {
		w, err := c.WeatherSignal(t.Context(), missing.account, nil, missing.id)
		if signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if _, total, err := c.WeatherSignals(t.Context(), WeatherQuery{Account: acc, Limit: 1}); err != nil || total == 0 {
		t.Errorf("total %d, %v", total, err)
	}
	clock = now.Add(2 * time.Hour)
	if _, err := c.WeatherSignal(t.Context(), acc, nil, id); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("past retention: %v", err)
	}
	items, total, err := c.WeatherSignals(t.Context(), WeatherQuery{Account: acc, Limit: 10})
	if err != nil || total != 0 || items == nil || len(items) != 0 {
		t.Errorf("past retention: %v, %d, %v", items, total, err)
	}
	c.Trim()
	c.Publish(0, []signal.Event{eventOf(signal.Position{MS: clock.UnixMilli()}, signal.AccountDeleted, nil)})
	items, total, err = c.WeatherSignals(t.Context(), WeatherQuery{Account: acc, Limit: 10})
	if err != nil || total != 0 || items == nil {
		t.Errorf("of a deleted account: %v, %d, %v", items, total, err)
	}
}
