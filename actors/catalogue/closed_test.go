package catalogue

import (
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestClosedSignalsAreListedByInitialConfidence checks that a list does not select winners: a
// target is close when confidence is high. It asks a catalogue that has followed the closings,
// with and without bitmaps, one that was built after them, and one that was built before them.
func TestClosedSignalsAreListedByInitialConfidence(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1_800_000_000_000).UTC()
	for name, others := range map[string]int{"few": 0, "many": indexedRows} {
		p := signal.Position{MS: start.UnixMilli()}
		var events []signal.Event
		add := func(kind signal.EventType, l signal.Listing, confidence float64) {
			p = p.Plus(1)
			l.Confidence = confidence
			events = append(events, eventOf(p, kind, &l))
		}
		signalOf := func() signal.Listing {
			return signal.Listing{ID: signal.NewSignalID(), Agent: "trading", Asset: "BTC", Strategy: "momentum",
				Direction: signal.Long, CreatedAt: start}
		}
		for range others {
			add(signal.SignalCreated, signalOf(), .1)
		}
		winner, loser, open := signalOf(), signalOf(), signalOf()
		add(signal.SignalCreated, winner, .42)
		add(signal.SignalCreated, loser, .44)
		add(signal.SignalCreated, open, .45)
		created := len(events)
		add(signal.SignalUpdated, winner, .6)
		add(signal.SignalUpdated, loser, .3)
		add(signal.SignalUpdated, winner, .9)
		add(signal.SignalUpdated, open, .8)
		updated := len(events)
		add(signal.SignalClosed, winner, .9)
		add(signal.SignalClosed, loser, .3)

		check := func(how string, c *Catalogue) {
			t.Helper()
			for _, x := range []struct {
				status  signal.Status
				minimum float64
				want    int
			}{
				{signal.Closed, .7, 0},
				{signal.Closed, .43, 1},
				{signal.Closed, .42, 2},
				{signal.Open, .8, 1},
				{signal.Closed, .4321, 1},
			} {
				q := Query{Account: acc, Limit: 1, Status: x.status, MinConfidence: x.minimum}
				if _, got, err := c.List(t.Context(), q); err != nil || got != x.want {
					t.Errorf("%s, %s: %s from %v on: %d, %v; want %d", name, how, x.status, x.minimum, got, err, x.want)
				}
			}
			items, _, _ := c.List(t.Context(), Query{Account: acc, Limit: 3})
			wanted := map[signal.SignalID]float64{winner.ID: .42, loser.ID: .44, open.ID: .8}
			for _, l := range items {
				if l.Confidence != wanted[l.ID] {
					t.Errorf("%s, %s: listed with %v, want %v", name, how, l.Confidence, wanted[l.ID])
				}
			}
		}
		for _, read := range []int{0, created, updated, len(events)} {
			c := New(&fakeLog{}, &fakeLog{events: events[:read]}, 1, options(start))
			total(t, c)
			// A cached set must follow as well.
			c.List(t.Context(), Query{Account: acc, Limit: 1, Status: signal.Closed, MinConfidence: .4321})
			c.Publish(0, events[read:])
			check(fmt.Sprintf("built after %d events", read), c)
			c.Publish(0, events[created:]) // as after a reconnect
			check(fmt.Sprintf("built after %d events, some repeated", read), c)
		}
	}
}

// TestInitialConfidencesAreForgotten checks that they are kept no longer than needed.
func TestInitialConfidencesAreForgotten(t *testing.T) {
	t.Parallel()
	var r rows
	for range 2 * blockRows {
		r.add(row{conf: 4000, created: r.pack(signal.Position{MS: 1}, r.next, 0)})
	}
	for n := range r.next {
		r.rescore(n, 5000)
	}
	for n := uint32(0); n < r.next; n += 2 {
		r.close(n, signal.Position{MS: 2})
	}
	if len(r.initial) != blockRows {
		t.Errorf("%d are kept of %d open signals", len(r.initial), blockRows)
	}
	if r.drop(blockRows); len(r.initial) != blockRows/2 {
		t.Errorf("%d are kept of %d open signals", len(r.initial), blockRows/2)
	}
}
