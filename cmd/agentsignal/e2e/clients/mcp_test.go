package clients

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestToolsForModels uses every tool by the client of the SDK, and compares the answers with the API. What
// refuses them is tested in package http.
func TestToolsForModels(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	tools := newToolUser(trader)
	run := map[string]any{"agent_id": "trading", "asset": "BTC", "strategy": "momentum", "idempotency_key": "a"}
	first, text := tools.call("run_agent", run)
	made := e2e.Decode[e2e.WireSignal](t, firstSignal(t, trader.Get("/v1/signals?view=full").Ok(t)))
	if got := first["signal"].(map[string]any); got["signal_id"] != made.ID || got["source"] != "stream" ||
		got["simulated"] != false || got["sample"] == nil || len(got["confidence_interval"].([]any)) != 2 {
		t.Errorf("a run answers %v", got)
	}
	for _, part := range []string{made.ID, "95 % interval", "past entries", "0 closed signals", "source: stream, not simulated"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in: %s", part, text)
		}
	}
	if again, _ := tools.call("run_agent", run); again["replayed"] != true ||
		again["signal"].(map[string]any)["signal_id"] != made.ID {
		t.Errorf("a repeated run answers %v", again)
	}

	s.CloseAll(t, account.ID, []e2e.WireSignal{made})
	e2e.Eventually(t, "the signal has closed", func() bool {
		return strings.Contains(trader.Get("/v1/scorecard").Ok(t).Body, `"statistics":{"count":1,`) &&
			trader.Signals("status=closed").Total == 1
	})
	one, text := tools.call("get_signal", map[string]any{"signal_id": made.ID})
	if one["signal"].(map[string]any)["status"] != "closed" || !strings.Contains(text, "1 closed signals") ||
		!strings.Contains(text, "Closed by") {
		t.Errorf("the signal is %v: %s", one, text)
	}
	list, _ := tools.call("list_signals", map[string]any{"asset": "BTC", "status": "closed", "limit": 1})
	if list["total"] != 1.0 || list["signals"].([]any)[0].(map[string]any)["signal_id"] != made.ID {
		t.Errorf("the list is %v", list)
	}
	card, _ := tools.call("scorecard", map[string]any{"agent_id": "trading"})
	want := e2e.Decode[map[string]any](t, trader.Get("/v1/scorecard?agent_id=trading").Ok(t).Body)
	for _, name := range []string{"count", "hit_rate", "hit_rate_interval", "break_even", "break_even_net", "total_r"} {
		got, want := card["statistics"].(map[string]any)[name], want["statistics"].(map[string]any)[name]
		if e2e.JsonOf(t, got) != e2e.JsonOf(t, want) {
			t.Errorf("%s of the scorecard is %v, want %v", name, got, want)
		}
	}
	agents, _ := tools.call("list_agents", nil)
	if all := agents["agents"].([]any); len(all) != len(signal.Agents()) || e2e.JsonOf(t, all[0].(map[string]any)["evidence"]) !=
		strings.Replace(e2e.JsonOf(t, agents["evidence"]), "all of this account", "of this account: trading", 1) {
		t.Errorf("the agents are %v", agents)
	}
	assets, text := tools.call("list_assets", nil)
	if len(assets["assets"].([]any)) == 0 || !strings.Contains(text, "\nBTC, source stream\n") {
		t.Errorf("the assets are %v: %s", assets, text)
	}
	for name, answer := range map[string]map[string]any{"list_assets": assets, "run_agent": first, "get_signal": one,
		"list_signals": list, "scorecard": card, "list_agents": agents} {
		e := answer["evidence"].(map[string]any)
		if count := e["closed_signals"]; (count == 1.0) != (name != "run_agent") ||
			(e["hit_rate_low"] == nil) != (count == 0.0) || e["simulated"] != false ||
			!slices.Equal(e["sources"].([]any), []any{"stream"}) {
			t.Errorf("%s rests on %v", name, e)
		}
	}

	// A key that may not read signals gets its run nevertheless, and learns what is missing.
	runner, _ := s.Account(t, "agents:run")
	out, _ := newToolUser(runner).call("run_agent", run)
	if e := out["evidence"].(map[string]any); e["closed_signals"] != nil || e["simulated"] != false ||
		!strings.Contains(e["note"].(string), "signals:read") {
		t.Errorf("a run by a key that may only run rests on %v", e)
	}
	if n := s.Metric(t, "agentsignal_http_requests_total", `route="/mcp"`, `code="200"`); n < 8 {
		t.Errorf("%v requests are counted", n)
	}
}

// firstSignal returns the JSON of the first signal of a list.
func firstSignal(tb testing.TB, a e2e.Answer) string {
	tb.Helper()
	list := e2e.Decode[struct{ Signals []any }](tb, a.Body).Signals
	if len(list) == 0 {
		tb.Fatalf("no signal in %s", a.Body)
	}
	return e2e.JsonOf(tb, list[0])
}

// toolUser calls tools with the credential of a client.
type toolUser struct {
	tb testing.TB
	*mcp.ClientSession
}

func newToolUser(c *e2e.Client) toolUser {
	c.TB.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: c.URL + "/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: withToken{c}, Timeout: e2e.WaitLimit}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(c.TB.Context(), transport, nil)
	e2e.Must(c.TB, err)
	c.TB.Cleanup(func() { _ = session.Close() })
	return toolUser{c.TB, session}
}

// withToken sends requests with the credential of a client.
type withToken struct{ *e2e.Client }

// RoundTrip implements http.RoundTripper.
func (c withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.Token)
	return c.HTTP.Transport.RoundTrip(r)
}

// call returns the structured content and the text of a tool's answer.
func (u toolUser) call(name string, arguments any) (map[string]any, string) {
	u.tb.Helper()
	r, err := u.CallTool(u.tb.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	e2e.Must(u.tb, err)
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		u.tb.Fatalf("%s answers %s", name, text)
	}
	return r.StructuredContent.(map[string]any), text
}
