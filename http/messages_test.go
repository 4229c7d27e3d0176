package http_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFaultsStateWhatIsAllowed checks the texts of faults: each has the name of the
// member, its rule and, if there are few, all allowed values.
func TestFaultsStateWhatIsAllowed(t *testing.T) {
	t.Parallel()
	const events = "signal.created, signal.updated, signal.closed, agent.started, agent.completed, agent.error, " +
		"webhook.test, log.checkpoint"
	const asset = "asset is required and must be a name such as BTC: GET /v1/assets lists all"
	const assets = "assets is required and must be a list of 1 to 50 names such as BTC: GET /v1/assets lists all"
	const agents = "agent_id is required and must be one of: trading, weather, seo"
	const everyStrategy = "strategy is required and must be one of: momentum, mean_reversion, breakout, sentiment, " +
		"commodity_impact, energy_demand, " +
		"agriculture, blog_post, product_description, meta_tags"
	tests := map[string]struct {
		path, body string
		want       []string
	}{
		"trading": {"/v1/agents/trading/run", `{}`,
			[]string{asset, "strategy is required and must be one of: momentum, mean_reversion, breakout, sentiment"}},
		"weather": {"/v1/agents/weather/run", `{}`,
			[]string{"asset is required and must be one of: natural_gas, wheat, corn, oil",
				"strategy is required and must be one of: commodity_impact, energy_demand, agriculture"}},
		"content": {"/v1/agents/seo/run", `{"strategy":null}`,
			[]string{"asset is required and must be a subject such as standing desk",
				"strategy is required and must be one of: blog_post, product_description, meta_tags"}},
		"unknown agent": {"/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"x"}`,
			[]string{"must be one of: momentum, mean_reversion, breakout, sentiment, " +
				"commodity_impact, energy_demand, agriculture, blog_post, product_description, meta_tags"}},
		"scan": {"/v1/agents/trading/scan", `{}`,
			[]string{assets, "strategy is required and must be one of: momentum, mean_reversion, breakout, sentiment"}},
		"empty scan": {"/v1/agents/trading/scan", `{"assets":[],"strategy":"momentum"}`,
			[]string{"must be a list of 1 to 50 names such as BTC: GET /v1/assets lists all"}},
		"backtest": {"/v1/backtests", `{}`, []string{agents, asset, everyStrategy}},
		"backtest of an agent": {"/v1/backtests", `{"agent_id":"trading","asset":"BTC"}`,
			[]string{"strategy is required and must be one of: momentum, mean_reversion, breakout, sentiment"}},
		"schedule": {"/v1/schedules", `{}`, []string{agents, assets, everyStrategy,
			`every is required and must be "bar" or minutes from "1m" to "1440m"`}},
		"webhook": {"/v1/webhooks", `{}`,
			[]string{"url is required and must be an absolute URL that begins with https://",
				"events is required and must be a list of some of: " + events}},
		"webhook of nothing": {"/v1/webhooks", `{"url":"https://example.com/","events":[]}`,
			[]string{"must be a list of some of: " + events}},
		"webhook of a text": {"/v1/webhooks", `{"url":"https://example.com/","events":"signal.created"}`,
			[]string{"must be a list of some of: " + events}},
		"login": {"/v1/auth/login", `{}`, []string{"email is required and must be that of the account",
			"password is required and must be that of the account"}},
		"refresh": {"/v1/auth/refresh", `{}`,
			[]string{"refresh_token is required and must be the one of the last login or refresh"}},
		"register": {"/v1/auth/register", `{}`,
			[]string{"email is required and must be an email address such as name@example.com",
				"password is required and must have 12 to 128 characters"}},
		"password": {"/v1/auth/password", `{}`, []string{"current_password is required and must be the one in force",
			"new_password is required and must have 12 to 128 characters"}},
		"key": {"/v1/auth/api-key", `{"scopes":[]}`, []string{"name is required and must have 1 to 100 characters",
			"must be a list of some of: agents:read, agents:run, signals:read, webhooks:manage"}},
		"scopes of a text": {"/v1/auth/api-key", `{"name":"k","scopes":"agents:read"}`,
			[]string{"must be a list of some of: agents:read, agents:run, signals:read, webhooks:manage"}},
		"misspelt member": {"/v1/agents/trading/run",
			`{"asset":"BTC","strategy":"momentum","Timeframe":"1h","risk_levle":"low"}`,
			[]string{"there is no such member; the nearest one is timeframe",
				"there is no such member; the nearest one is risk_level"}},
		"unknown member": {"/v1/agents/trading/run",
			`{"asset":"BTC","strategy":"momentum","tf":"1h","parameters":{"zone":"us"}}`,
			[]string{"there is no such member; there are region, keywords, features, locale",
				"there is no such member; there are asset, strategy, timeframe, risk_level, async, parameters"}},
		"member of an empty body": {"/v1/webhooks/whk_01M7YQ1WJ9KX5V8WQ8KXDH917J/rotate-secret", `{"secrets":"x"}`,
			[]string{"there is no such member; the nearest one is secret"}},
		"no body": {"/v1/agents/trading/run", ` `, []string{"a body is required and must be a JSON object"}},
	}
	s := newServer(t, &fakes{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := do(t, s, "POST", test.path, test.body, "Authorization: Bearer jwt")
			var got []string
			for _, e := range a.problem(t).Errors {
				got = append(got, e.Detail)
			}
			if d := cmp.Diff(test.want, got); a.Status != 400 || d != "" {
				t.Errorf("%d, details (-want +got):\n%s", a.Status, d)
			}
		})
	}
}

// TestProblemsStateWhatToDo checks the texts of errors that concern no single value.
func TestProblemsStateWhatToDo(t *testing.T) {
	t.Parallel()
	const run = "/v1/agents/trading/run"
	large := strings.Repeat("x", 1<<20+1)
	const documents = "no such path: GET /v1/openapi.json lists all, /docs shows them"
	tests := map[string]struct {
		method, target, body, header string
		status                       int
		want                         string
	}{
		"agent": {"GET", "/v1/agents/tradng", "", "", 404, "no such agent: there are trading, weather, seo"},
		"run of an agent": {"POST", "/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"momentum"}`, "", 404,
			"no such agent: there are trading, weather, seo"},
		"path without version": {"GET", "/signals", "", "", 404, "no such path: did you mean /v1/signals?"},
		"slash at the end":     {"GET", "/v1/signals/", "", "", 404, "no such path: did you mean /v1/signals?"},
		"doubled slash":        {"GET", "/v1//signals", "", "", 404, "no such path: did you mean /v1/signals?"},
		"case":                 {"GET", "/v1/SIGNALS", "", "", 404, "no such path: did you mean /v1/signals?"},
		"singular":             {"GET", "/v1/signal", "", "", 404, "no such path: did you mean /v1/signals?"},
		"another version":      {"GET", "/v2/signals", "", "", 404, "no such path: did you mean /v1/signals?"},
		"with a variable": {"POST", "/agents/trading/runs", "{}", "", 404,
			"no such path: did you mean /v1/agents/{id}/run?"},
		"probe":                    {"GET", "/v1/healthz", "", "", 404, "no such path: did you mean /healthz?"},
		"nothing like it":          {"GET", "/v1/portfolio/positions", "", "", 404, documents},
		"root of the version":      {"GET", "/v1", "", "", 404, documents},
		"a path longer than any":   {"GET", "/v1/signals" + strings.Repeat("s", 4000), "", "", 404, documents},
		"a page that is not there": {"GET", "/docs/nosuch.js", "", "", 404, documents},
		"signal": {"GET", "/v1/signals/sig_x", "", "", 404,
			"no such signal: GET /v1/signals lists those of the account"},
		"weather signal": {"GET", "/v1/signals/weather/wsig_x", "", "", 404,
			"no such weather signal: GET /v1/signals/weather lists those of the account"},
		"job": {"GET", "/v1/jobs/job_x", "", "", 404, "no such job: GET /v1/jobs lists those of the account"},
		"schedule": {"DELETE", "/v1/schedules/sch_x", "", "", 404,
			"no such schedule: GET /v1/schedules lists those of the account"},
		"webhook": {"GET", "/v1/webhooks/whk_x", "", "", 404,
			"no such webhook: GET /v1/webhooks lists those of the account"},
		"delivery": {"GET", "/v1/webhooks/" + string(webhookID) + "/deliveries/dlv_x", "", "", 404,
			"no such delivery: GET /v1/webhooks/{id}/deliveries lists those of the account"},
		"key": {"DELETE", "/v1/auth/api-keys/key_x", "", "Authorization: Bearer jwt", 404,
			"no such API key: GET /v1/auth/api-keys lists those of the account"},
		"method":         {"DELETE", "/v1/signals", "", "", 405, "the path has only the methods GET, HEAD, OPTIONS"},
		"body too large": {"POST", run, large, "", 413, "the body is too large: it may have at most 1048576 bytes"},
		"body too large for a login": {"POST", "/v1/auth/login", large[:64<<10+1], "", 413,
			"the body is too large: it may have at most 65536 bytes"},
		"media type": {"POST", run, "x", "Content-Type: text/plain", 415,
			"the body must be JSON: send it with Content-Type: application/json and without Content-Encoding"},
		"no word Bearer": {"GET", "/v1/signals", "", "Authorization: key", 401,
			"The Authorization header must be the word Bearer, a space and the token."},
		"two credentials of a stream": {"GET", "/ws/dashboard?api_key=key&token=key", "", "Authorization:", 401,
			"The query must have one api_key or one token, not several."},
		"origin": {"POST", "/mcp", "{}", "Origin: https://evil.example.com", 403,
			"pages of this origin may not use the stream and /mcp: http.cors_origins lists those that may"},
	}
	s := newServer(t, &fakes{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := do(t, s, test.method, test.target, test.body, test.header)
			if p := a.problem(t); a.Status != test.status || p.Detail != test.want {
				t.Errorf("got %d %q, want %d %q", a.Status, p.Detail, test.status, test.want)
			}
		})
	}
}
