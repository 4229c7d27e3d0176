package http_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The health of an agent is part of it where one agent is read. Where it does not come, the agent is shown without.
func TestHealthOfAnAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		for _, id := range []signal.AgentID{"healthy", "failing", "unknown", "submits"} {
			a := signal.Agent{Account: accountID, ID: id, Name: "Mine", Category: signal.Trading, Status: signal.AgentActive,
				Strategies: []string{"cross"}, CreatedAt: morning}
			if id != "submits" {
				a.Endpoint = &signal.Endpoint{URL: "https://agent.example/", Secret: "whsec_x"}
			}
			f.ownAgents.list = append(f.ownAgents.list, a)
		}
		s := newServer(t, f)
		for id, want := range map[string]string{
			"healthy": `"health":{"in_flight":0,"waiting":0,"failures":0,"paused_until":null,"last_error":null}}`,
			"failing": `"failures":5,"paused_until":"2026-11-21T09:30:00.000Z","last_error":{"error_code":"AGENT_TIMEOUT"`,
			"unknown": `"endpoint":{"url":"https://agent.example/","health":null}`,
			"submits": `"endpoint":null`,
		} {
			a := do(t, s, "GET", "/v1/agents/"+id, "")
			if a.Status != 200 || !strings.Contains(a.Body, want) || strings.Contains(a.Body, "whsec_") {
				t.Errorf("%s is shown as %d %s, want %s", id, a.Status, a.Body, want)
			}
		}
		if a := do(t, s, "GET", "/v1/agents", ""); strings.Contains(a.Body, "health\":") {
			t.Errorf("a list has %s", a.Body)
		}
	})
}
