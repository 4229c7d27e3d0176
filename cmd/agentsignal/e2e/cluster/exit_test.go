package cluster

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestASuccessorSettlesAnExit kills the owner after an exit was requested. The first trade after the request comes
// while nobody owns the partition; a signal of the other node, which lives on, closes by it in the same way.
func TestASuccessorSettlesAnExit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	n := e2e.StartNodes(t, "stream")
	dead, alive := n.AccountOf(t, n.FirstID(t)), n.AccountOf(t, n.Second.NodeID())
	clients, ids, at := []*e2e.Client{dead, alive}, []string{}, time.Time{}
	var stopped string
	for _, c := range clients {
		id := n.Second.OwnSignal(t, accountOf(c))
		ids = append(ids, id)
		if c == dead {
			stopped = n.Second.OwnSignal(t, accountOf(c))
		}
	}
	e2e.Eventually(t, "the signals are watched", func() bool {
		return n.Second.Metric(t, "agentsignal_signals_open", `agent="own"`) >= 1
	})
	prices := e2e.NewMarket(t, n.Redis.Client())
	for i, c := range clients {
		if got := c.Close(ids[i]); got.Status != "open" || got.Requested == nil {
			t.Fatalf("it is %s", e2e.JsonOf(t, got))
		}
		at = n.Second.AwaitExit(t, accountOf(c), ids[i])
	}
	n.First.Kill()
	// The stop of another signal was touched before its exit; that trade comes late, as the others.
	late := time.Now()
	prices.TickAt("ACME", 100.5, at.Add(time.Millisecond))
	prices.TickAt("ACME", 103.5, at.Add(2*time.Millisecond))
	prices.TickAt("ACME", 89, late)
	e2e.Must(t, n.Second.Events().RequestExit(t.Context(), accountOf(dead), signal.SignalID(stopped)))
	prices.TickAt("ACME", 104, time.Now().Add(2*time.Millisecond))
	e2e.Eventually(t, "all are closed", func() bool {
		return dead.State(ids[0]).Status == "closed" && alive.State(ids[1]).Status == "closed" &&
			dead.State(stopped).Status == "closed"
	})
	want := at.Add(time.Millisecond).UTC().Format(signal.TimeLayout)
	for i, c := range clients {
		if got := c.State(ids[i]); *got.Reason != "agent_exit" || *got.Exit != 100.5 || *got.ClosedAt != want {
			t.Errorf("closed as %s, want at %s", e2e.JsonOf(t, got), want)
		}
	}
	if got := dead.State(stopped); *got.Reason != "stop_loss" || *got.Exit != 89 {
		t.Errorf("the stop was touched before the exit, and it closed as %s", e2e.JsonOf(t, got))
	}
}

// accountOf returns the account of a client.
func accountOf(c *e2e.Client) signal.AccountID {
	return signal.AccountID(e2e.Decode[struct {
		ID string `json:"account_id"`
	}](c.TB, c.Get("/v1/account").Ok(c.TB).Body).ID)
}
