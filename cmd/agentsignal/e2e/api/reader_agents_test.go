package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// agentsOf returns the ids of the agents that a caller sees.
func (w *world) agentsOf(c *caller) []string {
	ids := []string{}
	for _, a := range w.agents {
		if w.ofAgents(c, "agent_id", a["id"].(string)) {
			ids = append(ids, a["id"].(string))
		}
	}
	return ids
}

// agent returns what a caller sees of an agent, from what the account sees.
func (w *world) agent(c *caller, a map[string]any) map[string]any {
	shown, strategies := map[string]any{}, []any{}
	for name, value := range a {
		if name != "created_at" && name != "defaults" && name != "endpoint" {
			shown[name] = value
		}
	}
	for _, s := range a["strategies"].([]any) {
		if w.hasStrategy(c, a["id"].(string), s.(string)) {
			strategies = append(strategies, s)
		}
	}
	shown["strategies"] = strategies
	return shown
}

func (w *world) checkAgents(c *caller) string {
	w.Helper()
	want := []any{}
	for _, a := range w.agents {
		if w.ofAgents(c, "agent_id", a["id"].(string)) {
			want = append(want, w.agent(c, a))
		}
	}
	got := e2e.Decode[map[string]any](w, w.get(c, "/v1/agents?limit=100").Ok(w).Body)
	w.equal(c, "agents", map[string]any{"agents": want, "total": float64(len(want))}, got)
	return "200"
}

func (w *world) checkAgent(c *caller) string {
	w.Helper()
	in, out := "", ""
	for _, id := range []string{"trading", "weather", "seo", "hers", "zebra_agent", "quartz_texts", "former_agent"} {
		path := "/v1/agents/" + id
		a, whole := w.get(c, path), w.callers[0].Get(path)
		if !w.ofAgents(c, "agent_id", id) {
			out = fmt.Sprint(a.Status)
			unknown := "/v1/agents/" + strings.Repeat("q", len(id)) // as long as the other
			w.equal(c, path, withoutPath(w.get(c, unknown), unknown), withoutPath(a, path))
			continue
		}
		in = fmt.Sprint(a.Status)
		want, got := w.agent(c, e2e.Decode[map[string]any](w, whole.Ok(w).Body)), e2e.Decode[map[string]any](w, a.Ok(w).Body)
		schema := got["input_schema"].(map[string]any)["properties"].(map[string]any)["strategy"].(map[string]any)
		w.equal(c, path+", the schema", want["strategies"], schema["enum"])
		delete(want, "input_schema")
		delete(got, "input_schema")
		w.equal(c, path, want, got)
	}
	return strings.Trim(in+"/"+out, "/")
}

type wireAssets struct{ Assets []map[string]any }

func (w *world) checkAssets(c *caller) string {
	w.Helper()
	want := []map[string]any{}
	for _, a := range e2e.Decode[wireAssets](w, w.callers[0].Get("/v1/assets").Ok(w).Body).Assets {
		if c.view.hasAsset(a["asset"].(string)) {
			want = append(want, a)
		}
	}
	w.equal(c, "assets", wireAssets{want}, e2e.Decode[wireAssets](w, w.get(c, "/v1/assets").Ok(w).Body))
	return "200"
}

func (w *world) checkBars(c *caller) string {
	w.Helper()
	in, out := "", ""
	for _, asset := range []string{"BTC", "btcusdt", "ETH", "wheat"} {
		path := "/v1/assets/" + asset + "/bars"
		a := w.get(c, path)
		if c.view.hasAsset(map[string]string{"btcusdt": "BTC"}[asset]) || c.view.hasAsset(asset) {
			in = fmt.Sprint(a.Status)
			w.equal(c, path, w.callers[0].Get(path).Ok(w).Body, a.Ok(w).Body)
			continue
		}
		out = fmt.Sprint(a.Status)
		unknown := "/v1/assets/" + strings.Repeat("Q", len(asset)) + "/bars"
		w.equal(c, path, withoutPath(w.get(c, unknown), unknown), withoutPath(a, path))
	}
	return strings.Trim(in+"/"+out, "/")
}

// tool calls a tool and returns its structured answer, and its text.
func (w *world) tool(c *caller, name, arguments string) (map[string]any, string, bool) {
	w.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
	a := c.Do(http.MethodPost, "/mcp", body, "Accept: application/json, text/event-stream", "Content-Type: application/json",
		"MCP-Protocol-Version: 2025-06-18", "X-Request-Id: req-1")
	w.leaks(c, arguments, a)
	answer := e2e.Decode[struct {
		Result struct {
			IsError    bool
			Content    []struct{ Text string }
			Structured map[string]any `json:"structuredContent"`
		}
	}](w, a.Ok(w).Body).Result
	text := ""
	for _, part := range answer.Content {
		text += part.Text + "\n"
	}
	return answer.Structured, text, answer.IsError
}

// checkTools compares every tool with what the view has.
func (w *world) checkTools(c *caller) string {
	w.Helper()
	signals := c.who != "agents:read"
	if c.who != "signals:read" {
		got, _, _ := w.tool(c, "list_agents", `{}`)
		ids := []string{}
		for _, a := range got["agents"].([]any) {
			ids = append(ids, a.(map[string]any)["id"].(string))
		}
		w.equal(c, "list_agents", w.agentsOf(c), ids)
	}
	for name, arguments := range map[string]string{"run_agent": `{"agent_id":"trading","asset":"BTC","strategy":"momentum"}`,
		"submit_signal": `{"agent_id":"zebra_agent","asset":"BTC","strategy":"zebra_up","direction":"long"}`,
		"close_signal":  `{"signal_id":"` + w.signals[0].ID + `"}`} {
		if _, text, failed := w.tool(c, name, arguments); !failed || !strings.Contains(text, "insufficient_scope") {
			w.Errorf("%s by %s: %s", name, c.name, text)
		}
	}
	if !signals {
		if _, text, failed := w.tool(c, "list_signals", `{}`); !failed || !strings.Contains(text, "insufficient_scope") {
			w.Errorf("list_signals by %s: %s", c.name, text)
		}
		return "200"
	}
	closed := 0
	for _, x := range w.visible(c) {
		if x.Exit != nil {
			closed++
		}
	}
	evidence := func(name string, got map[string]any) {
		w.Helper()
		e, _ := got["evidence"].(map[string]any)
		w.equal(c, name+", evidence", []any{float64(closed), "all of this account that the key sees"},
			[]any{e["closed_signals"], e["of"]})
	}
	got, _, _ := w.tool(c, "list_signals", `{"limit":100}`)
	var ids, want []string
	for _, x := range got["signals"].([]any) {
		ids = append(ids, x.(map[string]any)["signal_id"].(string))
	}
	for _, x := range w.visible(c) {
		want = append(want, x.ID)
	}
	w.equal(c, "list_signals", want, ids)
	w.equal(c, "list_signals, total", float64(len(want)), got["total"])
	evidence("list_signals", got)
	got, _, _ = w.tool(c, "scorecard", `{}`)
	w.equal(c, "scorecard", []any{float64(closed), w.shown(c)}, []any{got["statistics"].(map[string]any)["count"], got["view"]})
	evidence("scorecard", got)
	got, _, _ = w.tool(c, "list_assets", `{}`)
	shown := e2e.Decode[wireAssets](w, w.get(c, "/v1/assets").Ok(w).Body).Assets
	w.equal(c, "list_assets", len(shown), len(got["assets"].([]any)))
	evidence("list_assets", got)
	id := func(id string) string { return `{"signal_id":"` + id + `"}` }
	_, none, _ := w.tool(c, "get_signal", id(w.unknown["signal"]))
	for _, x := range w.signals {
		got, text, failed := w.tool(c, "get_signal", id(x.ID))
		if w.has(c, x.Agent, x.Asset, x.Strategy) {
			if failed || got["signal"].(map[string]any)["signal_id"] != x.ID {
				w.Errorf("get_signal by %s: %s", c.name, text)
			}
			continue
		}
		// The path of the document is that of no signal, too.
		w.equal(c, "get_signal", none, strings.ReplaceAll(text, x.ID, w.unknown["signal"]))
	}
	return "200"
}
