package cluster

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestAChangedAgentIsKnownOnEveryNode: a node that remembers an agent submits as the agent is now.
func TestAChangedAgentIsKnownOnEveryNode(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream,simulated")
	n.Second.AwaitPrices(t, "BTC", signal.M1)
	there, _, _ := n.Second.User(t)
	here := there.At(n.First.URL)
	if a := there.Post("/v1/agents",
		`{"id":"my_agent","name":"My agent","category":"trading","strategies":["cross"]}`); a.Status != 201 {
		t.Fatal(a.Body)
	}
	submit := func(strategy string) e2e.Answer {
		return here.Post("/v1/agents/my_agent/signals", `{"asset":"BTC","strategy":"`+strategy+`","direction":"long"}`)
	}
	change := func(body string) { there.Do("PATCH", "/v1/agents/my_agent", body).Ok(t) }
	e2e.Eventually(t, "the first node has prices", func() bool { return submit("cross").Status == 200 })
	submit("reversal").Fails(t, "invalid_request")
	change(`{"strategies":["reversal"]}`)
	submit("reversal").Ok(t)
	change(`{"defaults":{"target":{"r":7}}}`)
	x := e2e.Decode[e2e.WireSignal](t, submit("cross").Ok(t).Body)
	if r := (*x.Target - *x.Entry) / (*x.Entry - *x.Stop); math.Abs(r-7) > 0.01 {
		t.Errorf("the target is %v R away, want 7: %+v", r, x)
	}
	if a := there.Do("DELETE", "/v1/agents/my_agent", ""); a.Status != 204 {
		t.Fatal(a.Body)
	}
	submit("cross").Fails(t, "not_found")
}
