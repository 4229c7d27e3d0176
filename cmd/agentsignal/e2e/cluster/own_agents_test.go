package cluster

import (
	"strings"
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
	submitted := func(strategy, timeframe string) {
		t.Helper()
		e2e.Eventually(t, "the first node has prices", func() bool { return submit(strategy).Status == 200 })
		if a := submit(strategy).Ok(t); !strings.Contains(a.Body, `"timeframe":"`+timeframe+`"`) {
			t.Errorf("want %s: %s", timeframe, a.Body)
		}
	}
	change := func(body string) { there.Do("PATCH", "/v1/agents/my_agent", body).Ok(t) }
	submitted("cross", "1h")
	submit("reversal").Fails(t, "invalid_request")
	change(`{"strategies":["reversal"]}`)
	submit("reversal").Ok(t)
	change(`{"defaults":{"timeframe":"1m"}}`)
	submitted("cross", "1m")
	if a := there.Do("DELETE", "/v1/agents/my_agent", ""); a.Status != 204 {
		t.Fatal(a.Body)
	}
	submit("cross").Fails(t, "not_found")
}
