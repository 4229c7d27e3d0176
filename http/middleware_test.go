package http_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/limits"
)

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	tests := []struct {
		method, path string
		want         int
		allow        string
	}{
		{"GET", "/signals", 404, ""},
		{"GET", "/v1", 404, ""},
		{"GET", "/v1/", 404, ""},
		{"GET", "/v1/signals/", 404, ""},
		{"GET", "/v1//signals", 404, ""},
		{"GET", "//v1/signals", 404, ""},
		{"POST", "/v1/agents//run", 404, ""},
		{"GET", "/v1/Signals", 404, ""},
		{"GET", "/v1/signals/../agents", 404, ""},
		{"GET", "/v1/signals%2f", 404, ""},
		{"GET", "/dashboard/nosuch", 404, ""},
		{"GET", "/v1/nosuch", 404, ""},
		{"OPTIONS", "/v1/nosuch", 404, ""},
		{"DELETE", "/v1/signals", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/v1/agents/trading/run", 405, "OPTIONS, POST"},
		{"POST", "/v1/auth/api-keys/x", 405, "DELETE, OPTIONS"},
		{"BREW", "/v1/signals", 405, "GET, HEAD, OPTIONS"},
		{"PUT", "/healthz", 405, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/v1/signals", 204, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/v1/auth/login", 204, "OPTIONS, POST"},
		{"HEAD", "/v1/signals", 200, ""},
		{"HEAD", "/v1/signals/nosuch", 404, ""},
		{"HEAD", "/healthz", 200, ""},
		{"HEAD", "/ws/dashboard", 405, "GET, OPTIONS"},
		{"HEAD", "/v1/sse/dashboard", 405, "GET, OPTIONS"},
		{"OPTIONS", "/v1/ws/dashboard", 204, "GET, OPTIONS"},
		{"GET", "/v1/agents/nosuch", 404, ""},
		{"POST", "/v1/agents/nosuch/run", 404, ""},
		{"GET", "/v1/signals/nosuch", 404, ""},
		{"GET", "/v1/signals/sig_01m7yq1wtvkn9dznwv9nv456v1", 404, ""},
		{"GET", "/v1/jobs/sig_01M7YQ1WTVKN9DZNWV9NV456V1", 404, ""},
	}
	for _, test := range tests {
		body := ""
		if test.method == "POST" {
			body = `{"asset":"BTC","strategy":"momentum"}`
		}
		a := do(t, s, test.method, test.path, body)
		if a.Status != test.want || a.Header.Get("Allow") != test.allow {
			t.Errorf("%s %s: got %d, Allow %q; want %d %q", test.method, test.path, a.Status, a.Header.Get("Allow"),
				test.want, test.allow)
		}
		if test.method == "HEAD" && a.Body != "" {
			t.Errorf("HEAD %s has a body", test.path)
		}
	}
	closed := newServer(t, &fakes{}, func(o *config) { o.Registration = false })
	if a := do(t, closed, "OPTIONS", "/v1/auth/register", ""); a.Status != 404 {
		t.Errorf("closed registration: %d", a.Status)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	const invalid = `Bearer realm="agent-signals", error="invalid_token"`
	tests := []struct {
		method, path, authorization string
		status                      int
		code, challenge             string
	}{
		{"GET", "/v1/signals", "", 401, "missing_credentials", `Bearer realm="agent-signals"`},
		{"GET", "/v1/signals", "Bearer wrong", 401, "invalid_token", invalid},
		{"GET", "/v1/signals", "Bearer", 401, "invalid_token", invalid},
		{"GET", "/v1/signals", "Basic a2V5Og==", 401, "invalid_token", invalid},
		{"GET", "/v1/signals", "key", 401, "invalid_token", invalid},
		{"GET", "/v1/signals?api_key=key", "", 401, "missing_credentials", `Bearer realm="agent-signals"`},
		{"GET", "/v1/auth/api-keys", "Bearer key", 401, "jwt_required", invalid},
		{"POST", "/v1/auth/api-key", "Bearer key", 401, "jwt_required", invalid},
		{"POST", "/v1/auth/logout", "Bearer key", 401, "jwt_required", invalid},
		{"POST", "/v1/auth/password", "Bearer key", 401, "jwt_required", invalid},
		{"DELETE", "/v1/auth/api-keys/x", "Bearer key", 401, "jwt_required", invalid},
		{"GET", "/v1/agents", "Bearer reader", 403, "insufficient_scope",
			`Bearer realm="agent-signals", error="insufficient_scope", scope="agents:read"`},
		{"GET", "/v1/agents/trading", "Bearer reader", 403, "insufficient_scope",
			`Bearer realm="agent-signals", error="insufficient_scope", scope="agents:read"`},
		{"POST", "/v1/agents/nosuch/run", "Bearer reader", 403, "insufficient_scope",
			`Bearer realm="agent-signals", error="insufficient_scope", scope="agents:run"`},
		{"GET", "/v1/jobs", "Bearer reader", 403, "insufficient_scope",
			`Bearer realm="agent-signals", error="insufficient_scope", scope="agents:run"`},
	}
	for _, test := range tests {
		a := do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		p := a.problem(t)
		if a.Status != test.status || p.Code != test.code || a.Header.Get("Www-Authenticate") != test.challenge {
			t.Errorf("%s %s with %q: got %d %s %q", test.method, test.path, test.authorization, a.Status, p.Code,
				a.Header.Get("Www-Authenticate"))
		}
		malformed := test.authorization != "" && !strings.HasPrefix(test.authorization, "Bearer ")
		if told := strings.Contains(p.Detail, "the word Bearer, a space and the token"); told != malformed {
			t.Errorf("%q is answered with %q", test.authorization, p.Detail)
		}
		if test.status == 403 && !strings.Contains(test.challenge, p.RequiredScope) {
			t.Errorf("required scope %q", p.RequiredScope)
		}
	}
	r := httptest.NewRequest("GET", "/v1/signals", nil)
	r.Header["Authorization"] = []string{"Bearer key", "Bearer key"}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("two headers: got %d", w.Code)
	}
}

// TestOrderOfChecks sends requests with several faults and removes the first fault each time.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	limited := true
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		d := limits.Decision{Class: class, Allowed: !limited || class != limits.Runs, Limit: 600, Window: time.Minute}
		if !d.Allowed {
			d.RetryAfter = time.Second
		}
		return d
	}}
	s := newServer(t, f)
	huge := strings.Repeat(" ", 1<<20+1)
	steps := []struct {
		method, path, body string
		headers            []string
		limited            bool
		want               int
	}{
		{"PUT", "/v1/agents/nosuch/runs", huge, []string{"Authorization:", "Content-Type: text/plain"}, true, 404},
		{"PUT", "/v1/agents/nosuch/run", huge, []string{"Authorization:", "Content-Type: text/plain"}, true, 405},
		{"POST", "/v1/agents/nosuch/run", huge, []string{"Authorization:", "Content-Type: text/plain"}, true, 401},
		{"POST", "/v1/agents/nosuch/run", huge, []string{"Authorization: Bearer reader",
			"Content-Type: text/plain"}, true, 403},
		{"POST", "/v1/agents/nosuch/run", huge, []string{"Content-Type: text/plain"}, true, 429},
		{"POST", "/v1/agents/nosuch/run", huge, []string{"Content-Type: text/plain"}, false, 415},
		{"POST", "/v1/agents/nosuch/run", huge, nil, false, 413},
		{"POST", "/v1/agents/nosuch/run", "{", nil, false, 400},
		{"POST", "/v1/agents/nosuch/run", `{"strategy":"momentum"}`, nil, false, 400},
		{"POST", "/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"momentum"}`, nil, false, 404},
		{"POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`, nil, false, 200},
	}
	for i, step := range steps {
		limited = step.limited
		if a := do(t, s, step.method, step.path, step.body, step.headers...); a.Status != step.want {
			t.Errorf("step %d: got %d, want %d", i, a.Status, step.want)
		}
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, target := range []string{"GET /v1/signals", "GET /v1/nosuch", "PUT /v1/signals", "POST /v1/auth/login",
		"GET /healthz", "OPTIONS /v1/signals"} {
		method, path, _ := strings.Cut(target, " ")
		a := do(t, s, method, path, "")
		h := a.Header
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy":         "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
			"X-Service-Version":       "2026-11-01"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", target, name, h.Get(name))
			}
		}
		if id := h.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") {
			t.Errorf("%s: request id %q", target, id)
		}
		if a.Status < 300 && a.Body != "" && h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: media type %q", target, h.Get("Content-Type"))
		}
	}
	for id, kept := range map[string]bool{"checkout-4711_A.b": true, strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false, "a b": false, "": false, "é": false} {
		a := do(t, s, "GET", "/v1/nosuch", "", "X-Request-Id: "+id)
		if got := a.Header.Get("X-Request-Id"); (got == id) != kept || a.problem(t).RequestID != got {
			t.Errorf("%q became %q, in the document %q", id, got, a.problem(t).RequestID)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	off := newServer(t, &fakes{})
	if a := do(t, off, "GET", "/v1/signals", "",
		"Origin: https://app.example.com"); a.Header.Get("Access-Control-Allow-Origin") != "" || a.Status != 200 {
		t.Errorf("off: %v", a.Header)
	}
	s := newServer(t, &fakes{}, func(o *config) { o.CORSOrigins = []string{"https://app.example.com"} })
	a := do(t, s, "OPTIONS", "/v1/agents/trading/run", "", "Authorization:", "Origin: https://app.example.com",
		"Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,content-type,idempotency-key")
	h := a.Header
	if a.Status != 204 || h.Get("Allow") != "OPTIONS, POST" ||
		h.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		h.Get("Access-Control-Allow-Methods") != "POST" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", a.Status, h)
	}
	if a := do(t, s, "OPTIONS", "/v1/account/public", "", "Authorization:", "Origin: https://app.example.com",
		"Access-Control-Request-Method: PUT"); a.Header.Get("Access-Control-Allow-Methods") != "PUT" {
		t.Errorf("preflight of PUT: %d %v", a.Status, a.Header)
	}
	a = do(t, s, "GET", "/v1/signals?limit=0", "", "Origin: https://app.example.com")
	if a.Status != 400 || a.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		!strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "X-Run-Id") {
		t.Errorf("request: %d %v", a.Status, a.Header)
	}
	for _, origin := range []string{"https://evil.example.com", "http://app.example.com", "null"} {
		if a := do(t, s, "GET", "/v1/signals", "",
			"Origin: "+origin); a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is allowed", origin)
		}
	}
	for _, origin := range []string{"*", "https://*.example.com", "app.example.com",
		"https://app.example.com/", "https://"} {
		if _, err := signalhttp.NewOrigins([]string{origin}); err == nil {
			t.Errorf("%q is taken for an origin", origin)
		}
	}
}

func TestRefusesWhileItEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	s.Drain()
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 {
		t.Errorf("before the listeners close: %d", a.Status)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := do(t, s, "GET", "/v1/signals", "")
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "5" ||
		a.Header.Get("Connection") != "close" {
		t.Errorf("after: %d %v", a.Status, a.Header)
	}
	if a := do(t, s, "GET", "/healthz", ""); a.Status != 200 {
		t.Errorf("healthz: %d", a.Status)
	}
}
