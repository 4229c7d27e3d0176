package console

import (
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// A user registers an agent, changes it, sees what its signals did beside where they break even, and removes it.
func TestConsoleAgents(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	person := trader.With(trader.Login(account.Email, e2e.Password).Access)
	b := newConsoleRelay(t, s.URL)
	page := openConsole(t, b.url, account.Email)
	act(t, page, `location.hash = "#/agents"`, `await shows("Trading Agent", "main")`, `await press("New agent")`,
		`await fill("#a-name", "My agent")`, `await fill("#a-id", "my_agent")`, `await fill("#a-strategies", "cross, reversal")`,
		`await fill("#a-stop", "2R")`, `if (find("#a-stop").checkValidity()) throw new Error("a stop in R is accepted")`,
		`await fill("#a-stop", "1.5%")`, `await fill("#a-target", "2R")`, `await fill("#a-timeframe", "5m")`,
		`await fill("#a-expires", "86400")`, `await press("Create")`,
		`await until("its page opens", () => location.hash === "#/agents/my_agent")`, `await shows("Submitting", "main")`)
	const want = `"strategies":["cross","reversal"],"status":"active","owner":"account"`
	made := person.Get("/v1/agents/my_agent").Ok(t).Body
	if !strings.Contains(made, want) ||
		!strings.Contains(made, `"defaults":{"timeframe":"5m","stop":{"percent":1.5},"target":{"r":2},"expires_in":86400}`) {
		t.Errorf("the agent is %s", made)
	}
	act(t, page, `await press("Edit…")`,
		`if (find("#a-stop").value !== "1.5%" || find("#a-expires").value !== "86400") throw new Error("other values")`,
		`await fill("#a-name", "Another name")`, `await fill("#a-strategies", "third_one")`, `await fill("#a-target", "")`,
		`await fill("#a-status", "beta")`, `await press("Save")`, `await shows("Another name", "h1")`,
		`await shows("third one", "main")`)
	made = person.Get("/v1/agents/my_agent").Ok(t).Body
	if !strings.Contains(made, `"strategies":["cross","reversal","third_one"],"status":"beta"`) ||
		!strings.Contains(made, `"defaults":{"timeframe":"5m","stop":{"percent":1.5},"expires_in":86400}`) {
		t.Errorf("changed, the agent is %s", made)
	}
	act(t, page, `location.hash = "#/run?agent=my_agent"`, `await shows("This agent submits its signals", "main")`)

	// 12 of 40 in profit, where 40 % are needed.
	b.change("GET /v1/scorecard", func(o map[string]any) {
		group := map[string]any{"agent_id": "my_agent", "strategy": "cross", "asset": "BTC", "timeframe": "1h",
			"risk_level": "low", "recorded": 0, "committed": 0,
			"statistics": map[string]any{"count": 40, "wins": 12, "total_r": -10., "break_even_net": 0.4}}
		o["groups"] = []any{group}
		o["strategies"] = []any{map[string]any{"agent_id": "my_agent", "strategy": "cross", "count": 40, "wins": 12,
			"expectancy_r": -0.25, "break_even_net": 0.4,
			"skill": -0.21, "skill_interval": map[string]any{"low": -0.62, "high": 0.19}, "skill_sample": 40}}
	})
	act(t, page, `location.hash = "#/agents"`, `await shows("−10.0 R", "main")`,
		`const row = [...document.querySelectorAll("main tr")].find((r) => r.innerText.includes("Another name")).innerText`,
		`if (!/40\s+30 %\s+40.0 %\s+−10.0 R\s+cross −0.21 −0.62 to \+0.19/.test(row)) throw new Error(row)`)

	// Its endpoint: the secret is shown once, then how it fares.
	act(t, page, `location.hash = "#/agents/my_agent"`, `await press("Set an endpoint")`,
		`await fill("#e-url", "https://agent.example.com/ask")`, `await press("Save")`,
		`await until("the secret is shown", () => /whsec_[A-Za-z0-9+/=]{40}/.test(find("dialog .secret")?.innerText))`,
		`await press("I have saved it")`, `await shows("no failure", "main")`,
		`if (has("whsec_")) throw new Error("the secret is shown again")`)
	a := person.Get("/v1/agents/my_agent").Ok(t)
	if !strings.Contains(a.Body, `"endpoint":{"url":"https://agent.example.com/ask"`) {
		t.Errorf("with an endpoint, it is %s", a.Body)
	}
	b.change("GET /v1/agents/my_agent", func(o map[string]any) {
		e, asked := o["endpoint"].(map[string]any)
		if !asked {
			return
		}
		e["health"] = map[string]any{"in_flight": 2, "waiting": 1, "failures": 5,
			"paused_until": "2099-01-01T00:00:00.000Z", "last_error": map[string]any{"error_code": "AGENT_TIMEOUT",
				"message": "it is too slow", "at": "2026-11-21T09:30:00.000Z"}}
	})
	act(t, page, `tick()`, `await shows("paused", "main")`, `await shows("AGENT_TIMEOUT: it is too slow", "main")`,
		`await shows("2, 1 waiting", "main")`,
		`location.hash = "#/run?agent=my_agent"`, `await shows("A run takes up to", "main")`,
		`location.hash = "#/agents/my_agent"`, `await press("Remove the endpoint")`, `await shows("It is not asked", "main")`)

	// An address for alerts: what was sent there is listed with what was understood of it.
	act(t, page, `location.hash = "#/agents/my_agent"`, `await press("New address")`,
		`await shows("{{strategy.market_position}}", "dialog")`, `await fill("#i-strategy", "reversal")`,
		`await shows('"strategy": "reversal"', "dialog")`)
	_, token, ok := strings.Cut(evaluate[string](t, page, `find("dialog .secret code").innerText`), "/v1/intake/")
	if !ok {
		t.Fatalf("the address has no token")
	}
	for _, alert := range []string{"byu BTCUSD", "flat BTCUSD"} {
		trader.Do("POST", "/v1/intake/"+token, alert, "Content-Type: text/plain")
	}
	act(t, page, `await press("I have saved both")`,
		`if (has("/v1/intake/", "main")) throw new Error("the token is shown again")`,
		`await press("Requests")`, `await shows("did you mean buy?", "main")`, `await shows("nothing open", "main")`,
		`await press("Revoke…")`, `await press("Revoke")`, `await shows("No address for alerts", "main")`)

	// What cannot be done is explained, and the form stays.
	act(t, page, `location.hash = "#/agents"`, `await press("New agent")`, `await fill("#a-name", "x")`,
		`await fill("#a-id", "trading")`,
		`await fill("#a-strategies", "cross")`, `await press("Create")`,
		`await shows("is an agent of the service", "dialog")`, `await press("Cancel")`)
	act(t, page, `location.hash = "#/agents/my_agent"`, `await press("Remove…")`, `await shows("never free again", "dialog")`,
		`await press("Remove")`, `await until("the list opens", () => location.hash === "#/agents")`,
		`await until("it is gone", () => !has("Another name", "main"))`,
		`location.hash = "#/agents/my_agent"`, `await shows("There is no such agent of yours", "main")`)
	person.Get("/v1/agents/my_agent").Fails(t, "not_found")
	act(t, page, `location.hash = "#/agents/trading"`, `await shows("There is no such agent of yours", "main")`,
		`sound()`)
}
