package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// The credentials of a route that needs no scope.
const (
	forAnyone   = "anyone" // credentials are ignored
	forAnyToken = "any token"
	forSessions = "sessions" // an access token
	forStreams  = "streams"  // none, but a given credential must be valid
)

// routeRules has the credential of every route, what its identifiers name, and a body. A
// route without a rule fails the test; a rule may be of a route that a configuration does
// not have.
var routeRules = map[string]struct{ who, ids, body string }{
	"POST /v1/agents/{id}/run":       {"agents:run", "", `{"asset":"BTC"}`},
	"POST /v1/agents/{id}/scan":      {"agents:run", "", `{}`},
	"POST /v1/backtests":             {"agents:run", "", `{}`},
	"GET /v1/scorecard":              {"signals:read", "", ""},
	"POST /mcp":                      {forAnyToken, "", `{}`},
	"GET /v1/signals":                {"signals:read", "", ""},
	"GET /v1/signals/{id}":           {"signals:read", "signal", ""},
	"GET /v1/signals/weather":        {"signals:read", "", ""},
	"GET /v1/signals/weather/{id}":   {"signals:read", "weather", ""},
	"GET /v1/audit":                  {"signals:read", "", ""},
	"GET /v1/signals/{id}/history":   {"signals:read", "signal", ""},
	"POST /v1/signals/{id}/close":    {"agents:run", "signal", ""},
	"GET /v1/signals/{id}/proof":     {"signals:read", "signal", ""},
	"GET /v1/log/checkpoint":         {"signals:read", "", ""},
	"GET /v1/log/key":                {"signals:read", "", ""},
	"GET /v1/log/witness":            {"signals:read", "", ""},
	"POST /v1/log/witness":           {"signals:read", "", `{}`},
	"GET /v1/log/consistency":        {"signals:read", "", ""},
	"GET /v1/log/tiles/{log}/{path}": {"signals:read", "", ""},
	"GET /v1/jobs":                   {"agents:run", "", ""},
	"GET /v1/jobs/{id}":              {"agents:run", "job", ""},
	"GET /v1/agents":                 {"agents:read", "", ""},
	"GET /v1/agents/{id}":            {"agents:read", "", ""},
	"POST /v1/agents":                {forSessions, "", `{}`},
	"PATCH /v1/agents/{id}":          {forSessions, "agent", `{"name":"Hers"}`},
	"DELETE /v1/agents/{id}":         {forSessions, "agent", ""},
	"POST /v1/agents/{id}/signals": {"agents:run", "agent",
		`{"asset":"BTC","strategy":"hers","direction":"long"}`},
	"GET /v1/agents/{id}/intakes":                      {"agents:read", "agent", ""},
	"POST /v1/agents/{id}/intakes":                     {forSessions, "agent", ""},
	"DELETE /v1/agents/{id}/intakes/{intake_id}":       {forSessions, "agent intake", ""},
	"GET /v1/agents/{id}/intakes/{intake_id}/requests": {"agents:read", "agent intake", ""},
	"POST /v1/intake/{token}":                          {forAnyone, "", "long BTCUSD"},
	"GET /v1/schedules":                                {"agents:run", "", ""},
	"POST /v1/schedules":                               {"agents:run", "", `{}`},
	"GET /v1/schedules/{id}":                           {"agents:run", "schedule", ""},
	"PATCH /v1/schedules/{id}":                         {"agents:run", "schedule", `{"status":"disabled"}`},
	"DELETE /v1/schedules/{id}":                        {"agents:run", "schedule", ""},
	"GET /v1/webhooks":                                 {"webhooks:manage", "", ""},
	"POST /v1/webhooks":                                {"webhooks:manage", "", `{}`},
	"GET /v1/webhooks/{id}":                            {"webhooks:manage", "webhook", ""},
	"PATCH /v1/webhooks/{id}":                          {"webhooks:manage", "webhook", `{"status":"disabled"}`},
	"DELETE /v1/webhooks/{id}":                         {"webhooks:manage", "webhook", ""},
	"POST /v1/webhooks/{id}/rotate-secret":             {"webhooks:manage", "webhook", `{}`},
	"POST /v1/webhooks/{id}/test":                      {"webhooks:manage", "webhook", `{}`},
	"GET /v1/webhooks/{id}/deliveries":                 {"webhooks:manage", "webhook", ""},
	"POST /v1/webhooks/{id}/deliveries/retry": {"webhooks:manage", "webhook",
		`{"since":"2026-01-01T00:00:00Z"}`},
	"POST /v1/webhooks/{id}/deliveries/cancel":               {"webhooks:manage", "webhook", `{}`},
	"GET /v1/webhooks/{id}/deliveries/{delivery_id}":         {"webhooks:manage", "webhook delivery", ""},
	"POST /v1/webhooks/{id}/deliveries/{delivery_id}/retry":  {"webhooks:manage", "webhook delivery", ""},
	"POST /v1/webhooks/{id}/deliveries/{delivery_id}/cancel": {"webhooks:manage", "webhook delivery", ""},
	"GET /v1/assets":                    {"signals:read", "", ""},
	"GET /v1/assets/{asset}/bars":       {"signals:read", "", ""},
	"GET /v1/deliveries":                {"webhooks:manage", "", ""},
	"GET /v1/signals/export":            {"signals:read", "", ""},
	"GET /v1/summary":                   {"signals:read", "", ""},
	"GET /v1/account":                   {forAnyToken, "", ""},
	"GET /v1/account/public":            {forSessions, "", ""},
	"PUT /v1/account/public":            {forSessions, "", `{}`},
	"GET /v1/versions":                  {forAnyToken, "", ""},
	"GET /ws/dashboard":                 {forStreams, "", ""},
	"GET /v1/ws/dashboard":              {forStreams, "", ""},
	"GET /v1/sse/dashboard":             {forAnyToken, "", ""},
	"POST /v1/auth/logout":              {forSessions, "", `{"all":"x"}`},
	"POST /v1/auth/password":            {forSessions, "", `{}`},
	"POST /v1/auth/api-key":             {forSessions, "", `{}`},
	"GET /v1/auth/api-keys":             {forSessions, "", ""},
	"DELETE /v1/auth/api-keys":          {forSessions, "", ""},
	"POST /v1/auth/api-keys/batch":      {forSessions, "", `{}`},
	"DELETE /v1/auth/api-keys/{key_id}": {forSessions, "key", ""},
	"POST /v1/auth/login":               {forAnyone, "", `{}`},
	"POST /v1/auth/refresh":             {forAnyone, "", `{}`},
	"POST /v1/auth/register":            {forAnyone, "", `{}`},
	"GET /log/checkpoint":               {forAnyone, "", ""},
	"GET /log/tile/{path}":              {forAnyone, "", ""},
	"GET /log/{log}/tile/{path}":        {forAnyone, "", ""},
	"GET /r/{slug}":                     {forAnyone, "", ""},
	"GET /r/{slug}.json":                {forAnyone, "", ""},
	"GET /r/{slug}/badge.svg":           {forAnyone, "", ""},
	"GET /r/{slug}/feed.xml":            {forAnyone, "", ""},
	"GET /r/{slug}/proof/{signal_id}":   {forAnyone, "", ""},
	"GET /healthz":                      {forAnyone, "", ""},
	"GET /readyz":                       {forAnyone, "", ""},
	"GET /metrics":                      {forAnyone, "", ""},
	"GET /v1/openapi.json":              {forAnyone, "", ""},
	"GET /v1/openapi.yaml":              {forAnyone, "", ""},
	"GET /v1/asyncapi.yaml":             {forAnyone, "", ""},
	"GET /":                             {forAnyone, "", ""},
	"GET /dashboard":                    {forAnyone, "", ""},
	"GET /dashboard/":                   {forAnyone, "", ""},
	"GET /dashboard/{file}":             {forAnyone, "", ""},
	"GET /docs":                         {forAnyone, "", ""},
	"GET /docs/{file}":                  {forAnyone, "", ""},
	"GET /problems":                     {forAnyone, "", ""},
	"GET /problems/{code}":              {forAnyone, "", ""},
}

// belongings are the identifiers of the things of an account, by their kind.
type belongings map[string]string

// path fills the identifiers of a template in.
func (b belongings) path(template, ids string) string {
	if template == e2e.EventsPath {
		return template + "?channels=none" // else its answer would have no end
	}
	names := strings.Fields(ids)
	for _, variable := range []string{"{id}", "{key_id}", "{delivery_id}", "{intake_id}"} {
		if strings.Contains(template, variable) && len(names) > 0 {
			template, names = strings.ReplaceAll(template, variable, b[names[0]]), names[1:]
		}
	}
	return strings.NewReplacer("{id}", "trading", "{file}", "style.css", "{code}", "not-found",
		"{asset}", "BTC", "{log}", "0", "{token}", "ain_none", "{path}", "8%2F0%2F000").Replace(template)
}

// unknownBelongings returns well-formed identifiers of things that do not exist.
func unknownBelongings() belongings {
	return belongings{"signal": string(signal.NewSignalID()),
		"weather": strings.Replace(string(signal.NewSignalID()), "sig_", "wsig_", 1), "job": string(signal.NewJobID()),
		"schedule": string(signal.NewScheduleID()), "webhook": string(signal.NewWebhookID()),
		"delivery": string(signal.NewDeliveryID()), "key": string(signal.NewKeyID()), "agent": "none",
		"intake": string(signal.NewIntakeID())}
}

// owns makes one of everything for a client.
func owns(t *testing.T, user *e2e.Client) belongings {
	t.Helper()
	endpoint := e2e.NewHookEndpoint(t, nil)
	hook := user.Hook(endpoint.URL)
	test := user.Test(hook)
	run := user.Run("BTC", "momentum")
	body := user.Post("/v1/agents/weather/run", e2e.RunBody("wheat", "agriculture")).Ok(t).Body
	weather := e2e.Decode[struct {
		Metadata struct {
			ID string `json:"weather_signal_id"`
		}
	}](t, body).Metadata.ID
	user.Post("/v1/agents", `{"id":"hers","name":"Hers","category":"trading","strategies":["hers"]}`)
	schedule := user.AddSchedule(`{"agent_id":"trading","strategy":"momentum","assets":["BTC"],"every":"1440m"}`).ID
	return belongings{"signal": run.ID, "weather": weather, "job": user.Submit("BTC", "momentum").ID,
		"schedule": schedule, "webhook": hook.ID, "delivery": test.ID, "key": user.Key("hers", "").ID, "agent": "hers",
		"intake": e2e.AddIntake(t, user, "hers").ID}
}

// TestEveryRouteWithEveryScope requests resources of another account, and unknown ones, by
// every route and with every scope: the answers are the same byte for byte.
func TestEveryRouteWithEveryScope(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.HookConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.H1)
	s.AwaitPrices(t, "wheat", signal.D1)
	ada, _, _ := s.User(t)
	eve, _, _ := s.User(t)
	hers, unknown := owns(t, ada), unknownBelongings()
	for kind, id := range hers {
		if unknown[kind] == "" || id == "" {
			t.Fatalf("no identifier of a %s: %q, %q", kind, id, unknown[kind])
		}
	}

	public := s.Client(t)
	credentials := map[string]*e2e.Client{"none": public, "unknown key": public.With(e2e.UnknownKey()), forSessions: eve}
	for _, scope := range signal.Scopes {
		credentials[string(scope)] = eve.With(eve.Key(string(scope), `["`+string(scope)+`"]`).Secret)
	}
	routes := s.Server().Routes()
	for _, route := range routes {
		rule, ok := routeRules[route]
		if !ok {
			t.Errorf("%s has no rule", route)
			continue
		}
		method, template, _ := strings.Cut(route, " ")
		named := strings.Contains(template, "{id}") && !strings.HasPrefix(template, "/v1/agents/") ||
			strings.Contains(template, "_id}") && !strings.HasPrefix(template, "/r/") || rule.ids == "agent"
		if named != (rule.ids != "") {
			t.Errorf("%s has the identifiers %q", route, rule.ids)
		}
		for name, who := range credentials {
			foreign := who.Do(method, hers.path(template, rule.ids), rule.body, "X-Request-Id: req-1")
			if want := refusalOf(rule.who, name); codeOf(t, foreign) != want &&
				(want != "" || isRefusal(codeOf(t, foreign))) {
				t.Errorf("%s with %s: %d %.200s, want %q", route, name, foreign.Status, foreign.Body, want)
			}
			if rule.ids == "" {
				continue
			}
			if want := refusalOf(rule.who, name); want == "" {
				if foreign.Status != http.StatusNotFound {
					t.Errorf("%s with %s: %d %.200s of another account, want 404", route, name,
						foreign.Status, foreign.Body)
				}
			}
			none := who.Do(method, unknown.path(template, rule.ids), rule.body, "X-Request-Id: req-1")
			if d := cmp.Diff(withoutPath(none, unknown.path(template, rule.ids)),
				withoutPath(foreign, hers.path(template, rule.ids))); d != "" {
				t.Errorf("%s with %s answers differently (-unknown +another's):\n%s", route, name, d)
			}
		}
	}
	// Nothing of hers was touched.
	for _, route := range routes {
		method, template, _ := strings.Cut(route, " ")
		if rule := routeRules[route]; method == http.MethodGet && rule.ids != "" {
			a := ada.Get(hers.path(template, rule.ids))
			if template == "/v1/signals/{id}/proof" && codeOf(t, a) == "not_signed" {
				continue // it is hers, and no checkpoint has it yet
			}
			a.Ok(t)
			if template == "/v1/webhooks/{id}" || template == "/v1/schedules/{id}" {
				if !strings.Contains(a.Body, `"status":"enabled"`) {
					t.Errorf("%s: %s", template, a.Body)
				}
			}
		}
	}
}

// refusalOf returns the error code that a credential gets by a rule, or "".
func refusalOf(rule, credential string) string {
	switch {
	case rule == forAnyone, rule == forStreams && credential == "none":
		return ""
	case credential == "none":
		return "missing_credentials"
	case credential == "unknown key":
		return "invalid_token"
	case rule == forStreams, rule == forAnyToken, rule == credential, credential == forSessions:
		return ""
	case rule == forSessions:
		return "jwt_required"
	}
	return "insufficient_scope"
}

func isRefusal(code string) bool {
	return slices.Contains([]string{"missing_credentials", "invalid_token", "jwt_required", "insufficient_scope"}, code)
}

// codeOf returns the code of an error document, or "".
func codeOf(t *testing.T, a e2e.Answer) string {
	t.Helper()
	if a.Header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	return e2e.Decode[e2e.Problem](t, a.Body).Code
}

// withoutPath returns the part of an answer that must not depend on whether the thing
// exists: all except the requested path, the time and the headers of limits.
func withoutPath(a e2e.Answer, path string) any {
	h := a.Header.Clone()
	for name := range h {
		if name == "Date" || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit") {
			h.Del(name)
		}
	}
	return []any{a.Status, h, strings.ReplaceAll(a.Body, path, "PATH")}
}
