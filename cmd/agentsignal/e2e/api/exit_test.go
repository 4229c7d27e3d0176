package api

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// closing requests the exit of a signal, and returns its time and where the answer comes.
func closing(
	t *testing.T, s *e2e.Service, user *e2e.Client, account signal.AccountID, id string,
) (time.Time, <-chan e2e.WireExit) {
	t.Helper()
	answer := make(chan e2e.WireExit, 1)
	go func() {
		defer close(answer)
		if a, err := user.Try("POST", "/v1/signals/"+id+"/close", ""); err != nil || a.Status != 200 {
			t.Errorf("exit of %s: %v %d %s", id, err, a.Status, a.Body)
		} else {
			answer <- e2e.Decode[e2e.WireExit](t, a.Body)
		}
	}()
	return s.AwaitExit(t, account, id), answer
}

// text returns a time as answers have it.
func text(at time.Time) string { return at.UTC().Format(signal.TimeLayout) }

// TestAnAgentEndsItsSignal at the first trade after its request, however late the service gets that, and not at a
// level that a trade before the request has reached.
func TestAnAgentEndsItsSignal(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	prices := e2e.NewMarket(t, redis.Client())
	live := trader.Dial()
	live.Subscribe(`"channels":["signal.new","signal.updated","signal.closed","agent.status","system.notification"]`)
	for name, c := range map[string]struct {
		before, after float64 // trades around the request, which come after it; 0 for none
		reason        string
		exit          float64
		left          bool
	}{
		"the first trade after it":                  {100.5, 103.5, "agent_exit", 103.5, true},
		"the stop was touched, and the trade comes": {89.5, 103.5, "stop_loss", 89.5, false},
		"the first trade is beyond the stop":        {0, 88, "agent_exit", 88, true},
		"the first trade is beyond the target":      {0, 120, "agent_exit", 120, true},
	} {
		prices.Tick("ACME", "101.25")
		s.AwaitTrade(t, "ACME", 101.25)
		id := s.OwnSignal(t, account.ID)
		requested, answer := closing(t, s, trader, account.ID, id)
		closed := requested.Add(time.Millisecond)
		prices.TickAt("ACME", 101, requested.Add(-2*time.Millisecond))
		if c.before != 0 {
			prices.TickAt("ACME", c.before, requested)
		}
		if c.reason == "stop_loss" {
			closed = requested
		}
		prices.TickAt("ACME", c.after, requested.Add(time.Millisecond))
		prices.TickAt("ACME", 100, requested.Add(2*time.Millisecond))
		got := <-answer
		if got.Status != "closed" {
			t.Errorf("%s: it is answered %s", name, e2e.JsonOf(t, got))
			continue
		}
		if *got.Reason != c.reason || *got.Exit != c.exit || *got.ClosedAt != text(closed) || *got.Requested != text(requested) ||
			math.Abs(*got.R-(c.exit-100)/10) > 1e-9 {
			t.Errorf("%s: closed as %s, requested at %v", name, e2e.JsonOf(t, got), requested)
		}
		if more := string(got.MetadataText); !strings.Contains(more, `"exit_requested_at":"`+text(requested)+`"`) ||
			strings.Contains(more, `"life_left":`) != c.left {
			t.Errorf("%s: metadata %s", name, more)
		}
		// A repetition changes nothing.
		if again := trader.Close(id); e2e.JsonOf(t, again) != e2e.JsonOf(t, got) {
			t.Errorf("%s: again it is %s, was %s", name, e2e.JsonOf(t, again), e2e.JsonOf(t, got))
		}
		live.Await("the closing", func(m e2e.Message) bool {
			return m.Type == "signal.closed" && strings.Contains(string(m.Data), id)
		})
	}
	if all := e2e.Types(live.Events()); strings.Contains(all, "exit") || strings.Count(all, "signal.closed") != 4 {
		t.Errorf("clients receive %s", all)
	}
}

// An exit without a later trade leaves the signal open, and the same agent or another request does not move it.
func TestAnExitWaitsForATrade(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	id := s.OwnSignal(t, account.ID)
	first := trader.Close(id)
	if again := trader.Close(id); first.Status != "open" || first.Requested == nil || *again.Requested != *first.Requested {
		t.Errorf("answered %s, then %s", e2e.JsonOf(t, first), e2e.JsonOf(t, again))
	}
	requested, err := time.Parse(signal.TimeLayout, *first.Requested)
	e2e.Must(t, err)
	e2e.NewMarket(t, redis.Client()).TickAt("ACME", 99.5, requested.Add(time.Millisecond))
	e2e.Eventually(t, "it is closed", func() bool { return trader.State(id).Status == "closed" })
	if got := trader.State(id); *got.Reason != "agent_exit" || *got.Exit != 99.5 {
		t.Errorf("closed as %s", e2e.JsonOf(t, got))
	}
}

// TestExitsThatAreRefused also closes a text, which has no prices, at once.
func TestExitsThatAreRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	other, _ := s.Account(t)
	id := s.OwnSignal(t, account.ID)
	for _, foreign := range []string{id, string(signal.NewSignalID())} {
		other.Post("/v1/signals/"+foreign+"/close", "").Fails(t, "not_found")
	}
	trader.Post("/v1/signals/"+trader.Run("ACME", "momentum").ID+"/close", "").Fails(t, "not_closable")
	if open := trader.State(id); open.Status != "open" {
		t.Errorf("it is %s", e2e.JsonOf(t, open))
	}
	content := s.OwnSignal(t, account.ID, func(x *signal.Signal) { x.Asset, x.Levels = "standing desk", nil })
	if got := trader.Close(content); got.Status != "closed" || *got.Reason != "agent_exit" || got.Exit != nil ||
		*got.ClosedAt != *got.Requested {
		t.Errorf("without prices: %s", e2e.JsonOf(t, got))
	}
}
