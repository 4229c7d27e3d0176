package http_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/limits"
)

func TestBodiesThatAreNotValid(t *testing.T) {
	t.Parallel()
	const run, login, key = "/v1/agents/trading/run", "/v1/auth/login", "/v1/auth/api-key"
	long := strings.Repeat("x", 101)
	tests := []struct {
		name, path, body string
		want             []string
	}{
		{"empty", run, "", []string{"body  invalid_format"}},
		{"blank", run, "  \n", []string{"body  invalid_format"}},
		{"truncated", run, `{"asset":"BTC"`, []string{"body  invalid_format"}},
		{"text after the object", run, `{"asset":"BTC","strategy":"momentum"} {}`, []string{"body  invalid_format"}},
		{"an array", run, `[]`, []string{"body  invalid_type"}},
		{"null", run, `null`, []string{"body  invalid_type"}},
		{"a string", run, `"BTC"`, []string{"body  invalid_type"}},
		{"bad UTF-8", run, "{\"asset\":\"\xff\"}", []string{"body  invalid_format"}},
		{"a lone surrogate", run, `{"asset":"\ud800"}`, []string{"body  invalid_format"}},
		{"a byte order mark", run, "\ufeff{}", []string{"body  invalid_format"}},
		{"a trailing comma", run, `{"asset":"BTC",}`, []string{"body  invalid_format"}},
		{"NaN", run, `{"asset":NaN}`, []string{"body  invalid_format"}},
		{"nested too deeply", run, strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), []string{"body  invalid_format"}},
		{"nothing given", run, `{}`, []string{"body /asset required", "body /strategy required"}},
		{"null is absence", run, `{"asset":null,"strategy":null,"timeframe":null,"risk_level":null,"async":null,"parameters":null}`,
			[]string{"body /asset required", "body /strategy required"}},
		{"all faults at once", run, `{"asset":7,"strategy":"nosuch","timeframe":"2h","risk_level":"none","async":"yes","x":1,"parameters":{"y":1,"region":"us"}}`,
			[]string{"body /asset invalid_type", "body /timeframe invalid_value", "body /risk_level invalid_value", "body /async invalid_type",
				"body /parameters/y unknown_field", "body /x unknown_field", "body /strategy invalid_value", "body /parameters/region unknown_field"}},
		{"names are case-sensitive", run, `{"ASSET":"BTC","asset":"BTC","strategy":"momentum"}`, []string{"body /ASSET unknown_field"}},
		{"given twice", run, `{"asset":"BTC","asset":"ETH","strategy":"momentum"}`, []string{"body /asset duplicate"}},
		{"given twice in disguise", run, `{"asset":"BTC","\u0061sset":"ETH","strategy":"momentum"}`, []string{"body /asset duplicate"}},
		{"given twice inside", run, `{"asset":"BTC","strategy":"momentum","parameters":{"z":1,"z":2}}`,
			[]string{"body /parameters/z duplicate", "body /parameters/z unknown_field"}},
		{"a pointer is escaped", run, `{"asset":"BTC","strategy":"momentum","a/b~c":1}`, []string{"body /a~1b~0c unknown_field"}},
		{"asset of white space", run, `{"asset":" \t ","strategy":"momentum"}`, []string{"body /asset too_short"}},
		{"asset too long", run, `{"asset":"` + strings.Repeat("é", 65) + `","strategy":"momentum"}`, []string{"body /asset too_long"}},
		{"asset with a control character", run, `{"asset":"B\u0000C","strategy":"momentum"}`, []string{"body /asset invalid_format"}},
		{"empty strategy", run, `{"asset":"BTC","strategy":""}`, []string{"body /strategy invalid_value"}},
		{"another agent's strategy", run, `{"asset":"BTC","strategy":"blog_post"}`, []string{"body /strategy invalid_value"}},
		{"parameters of the wrong type", run, `{"asset":"BTC","strategy":"momentum","parameters":[]}`, []string{"body /parameters invalid_type"}},
		{"weather of no commodity", "/v1/agents/weather/run", `{"asset":"BTC","strategy":"energy_demand","parameters":{"region":""}}`,
			[]string{"body /parameters/region invalid_value", "body /asset invalid_value"}},
		{"commodity that does not fit", "/v1/agents/weather/run", `{"asset":"oil","strategy":"agriculture"}`, []string{"body /asset invalid_value"}},
		{"phrases", "/v1/agents/seo/run", `{"asset":"desk","strategy":"blog_post","parameters":{"keywords":["a",7,"` + long + `"],"features":"x","locale":""}}`,
			[]string{"body /parameters/keywords/1 invalid_type", "body /parameters/features invalid_type", "body /parameters/locale too_short",
				"body /parameters/keywords/2 too_long"}},
		{"a phrase too long", "/v1/agents/seo/run", `{"asset":"desk","strategy":"blog_post","parameters":{"keywords":["` + long + `"],"locale":"english"}}`,
			[]string{"body /parameters/keywords/0 too_long", "body /parameters/locale invalid_format"}},
		{"too many phrases", "/v1/agents/seo/run", `{"asset":"desk","strategy":"blog_post","parameters":{"features":[` + strings.Repeat(`"a",`, 20) + `"a"]}}`,
			[]string{"body /parameters/features too_long"}},
		{"unknown agent, body invalid for every agent", "/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"nosuch"}`, []string{"body /strategy invalid_value"}},
		{"unknown agent, body invalid for the strategy's agent", "/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"agriculture"}`, []string{"body /asset invalid_value"}},
		{"login without values", login, `{}`, []string{"body /email required", "body /password required"}},
		{"login with empty values", login, `{"email":"","password":""}`, []string{"body /email required", "body /password required"}},
		{"login with more", login, `{"email":"a","password":1,"remember":true}`, []string{"body /password invalid_type", "body /remember unknown_field"}},
		{"refresh without token", "/v1/auth/refresh", `{}`, []string{"body /refresh_token required"}},
		{"register with a short password", "/v1/auth/register", `{"email":"","password":"short"}`, []string{"body /email required", "body /password too_short"}},
		{"all faults of a registration", "/v1/auth/register", `{"email":"nobody","password":"short","x":1}`,
			[]string{"body /email invalid_format", "body /password too_short", "body /x unknown_field"}},
		{"register with values of the wrong type", "/v1/auth/register", `{"email":1,"password":null}`, []string{"body /email invalid_type", "body /password required"}},
		{"password too long", "/v1/auth/password", `{"new_password":"` + strings.Repeat("x", 129) + `"}`, []string{"body /current_password required", "body /new_password too_long"}},
		{"logout of everything", "/v1/auth/logout", `{"all":"yes"}`, []string{"body /all invalid_type"}},
		{"logout with no object", "/v1/auth/logout", `true`, []string{"body  invalid_type"}},
		{"key without a name", key, `{"name":null,"scopes":[],"expires_in":0}`, []string{"body /name required", "body /scopes too_short", "body /expires_in out_of_range"}},
		{"key with a name of the wrong type", key, `{"name":5}`, []string{"body /name invalid_type"}},
		{"key with a blank name", key, `{"name":"  ","scopes":["agents:read","all",3],"expires_in":315360001}`,
			[]string{"body /name too_short", "body /scopes/1 invalid_value", "body /scopes/2 invalid_type", "body /expires_in out_of_range"}},
		{"key with a long name", key, `{"name":"` + long + `","scopes":"agents:read","expires_in":1.5}`,
			[]string{"body /name too_long", "body /scopes invalid_type", "body /expires_in invalid_type"}},
		{"a huge number", key, `{"name":"k","expires_in":1e999}`, []string{"body /expires_in out_of_range"}},
		{"many digits", key, `{"name":"k","expires_in":99999999999999999999}`, []string{"body /expires_in out_of_range"}},
		{"a number as text", key, `{"name":"k","expires_in":"60"}`, []string{"body /expires_in invalid_type"}},
	}
	s := newServer(t, &fakes{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := do(t, s, "POST", test.path, test.body, "Authorization: Bearer jwt")
			if a.Status != 400 {
				t.Fatalf("got %d %s", a.Status, a.Body)
			}
			if d := cmp.Diff(test.want, a.faults(t)); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			want := fmt.Sprintf("%d values are not valid.", len(test.want))
			if len(test.want) == 1 {
				want = "1 value is not valid."
			}
			if p := a.problem(t); p.Code != "invalid_request" || p.Detail != want || p.Instance != test.path {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

func TestFaultsAreListedUpToALimit(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `"x%d":1,`, i)
	}
	s := newServer(t, &fakes{})
	a := do(t, s, "POST", "/v1/agents/trading/run", `{`+b.String()+`"asset":"BTC","strategy":"momentum"}`)
	if p := a.problem(t); a.Status != 400 || len(p.Errors) != 100 || p.Detail != "200 values are not valid; the first 100 are listed." {
		t.Errorf("got %d with %d faults: %s", a.Status, len(p.Errors), p.Detail)
	}
	many := strings.Repeat(`"a":1,`, 300)
	if a := do(t, s, "POST", "/v1/agents/trading/run", `{`+many+`"asset":"BTC"}`); a.Status != 400 {
		t.Errorf("got %d", a.Status)
	}
}

func TestQueriesThatAreNotValid(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target string
		want   []string
	}{
		{"/v1/signals?limit=0", []string{"query limit out_of_range"}},
		{"/v1/signals?limit=101", []string{"query limit out_of_range"}},
		{"/v1/signals?limit=-5", []string{"query limit out_of_range"}},
		{"/v1/signals?limit=99999999999999999999", []string{"query limit out_of_range"}},
		{"/v1/signals?limit=2.5", []string{"query limit invalid_type"}},
		{"/v1/signals?limit=+2", []string{"query limit invalid_type"}},
		{"/v1/signals?limit=ten", []string{"query limit invalid_type"}},
		{"/v1/signals?limit=5&limit=5", []string{"query limit duplicate"}},
		{"/v1/signals?limit=&limit=", []string{"query limit duplicate"}},
		{"/v1/signals?offset=-1", []string{"query offset out_of_range"}},
		{"/v1/signals?offset=x", []string{"query offset invalid_type"}},
		{"/v1/signals?min_confidence=1.01", []string{"query min_confidence out_of_range"}},
		{"/v1/signals?min_confidence=-0.1", []string{"query min_confidence out_of_range"}},
		{"/v1/signals?min_confidence=NaN", []string{"query min_confidence invalid_type"}},
		{"/v1/signals?min_confidence=0x1", []string{"query min_confidence invalid_type"}},
		{"/v1/signals?min_confidence=1e999", []string{"query min_confidence out_of_range"}},
		{"/v1/signals?direction=LONG&status=done&strategy=nosuch&agent_id=nosuch", []string{"query strategy invalid_value", "query agent_id invalid_value",
			"query direction invalid_value", "query status invalid_value"}},
		{"/v1/signals?asset=" + strings.Repeat("x", 65), []string{"query asset too_long"}},
		{"/v1/signals?asset=%20", []string{"query asset too_short"}},
		{"/v1/signals?asset=%00", []string{"query asset invalid_format"}},
		{"/v1/signals?asset=%ff", []string{"query asset invalid_format"}},
		{"/v1/signals?asset=%zz", []string{"query asset invalid_format"}},
		{"/v1/signals?since=yesterday", []string{"query since invalid_format"}},
		{"/v1/signals?since=2026-02-30", []string{"query since invalid_format"}},
		{"/v1/signals?since=2026-11-21T9:30:00Z", []string{"query since invalid_format"}},
		{"/v1/signals?since=2026-11-21T09:30:00,5Z", []string{"query since invalid_format"}},
		{"/v1/signals?since=1795253400", []string{"query since invalid_format"}},
		{"/v1/signals/weather?region=mars&commodity=gold&severity=mild&limit=0", []string{"query limit out_of_range", "query region invalid_value",
			"query commodity invalid_value", "query severity invalid_value"}},
		{"/v1/agents?category=sport&status=gone&limit=101", []string{"query category invalid_value", "query status invalid_value", "query limit out_of_range"}},
		{"/v1/jobs?status=done&limit=x", []string{"query status invalid_value", "query limit invalid_type"}},
		{"/v1/auth/api-keys?limit=1000", []string{"query limit out_of_range"}},
	}
	s := newServer(t, &fakes{})
	for _, test := range tests {
		a := do(t, s, "GET", test.target, "", "Authorization: Bearer jwt")
		if a.Status != 400 {
			t.Errorf("%s: got %d %s", test.target, a.Status, a.Body)
			continue
		}
		if d := cmp.Diff(test.want, a.faults(t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.target, d)
		}
		if p := a.problem(t); strings.Contains(p.Instance, "?") {
			t.Errorf("instance %s shows the query", p.Instance)
		}
	}
}

func TestHeadersThatAreNotValid(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	body := `{"asset":"BTC","strategy":"momentum"}`
	tests := []struct {
		name    string
		headers []string
		want    []string
	}{
		{"empty key", []string{"Idempotency-Key:"}, []string{"header Idempotency-Key too_short"}},
		{"long key", []string{"Idempotency-Key: " + strings.Repeat("k", 256)}, []string{"header Idempotency-Key too_long"}},
		{"key beyond ASCII", []string{"Idempotency-Key: schl\u00fcssel"}, []string{"header Idempotency-Key invalid_format"}},
		{"two keys", []string{"Idempotency-Key: a", "Idempotency-Key: b"}, []string{"header Idempotency-Key duplicate"}},
		{"unknown version", []string{"X-Service-Version: 2020-01-01"}, []string{"header X-Service-Version invalid_value"}},
		{"two versions", []string{"X-Service-Version: 2026-11-01", "X-Service-Version: 2026-11-01"}, []string{"header X-Service-Version duplicate"}},
		{"both", []string{"X-Service-Version: v1", "Idempotency-Key:"}, []string{"header X-Service-Version invalid_value", "header Idempotency-Key too_short"}},
	}
	for _, test := range tests {
		a := do(t, s, "POST", "/v1/agents/trading/run", body, test.headers...)
		if d := cmp.Diff(test.want, a.faults(t)); d != "" || a.Status != 400 {
			t.Errorf("%s: %d (-want +got):\n%s", test.name, a.Status, d)
		}
	}
	if a := do(t, s, "POST", "/v1/agents/trading/run", body, "Idempotency-Key: "+strings.Repeat("~", 255), "X-Service-Version:"); a.Status != 200 {
		t.Errorf("the longest key: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "GET", "/v1/signals", "", "Idempotency-Key:"); a.Status != 200 {
		t.Errorf("where no key is looked at: %d", a.Status)
	}
}

func TestEveryOperationRefusesAnUnknownVersion(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, operation := range s.Routes() {
		method, path, _ := strings.Cut(operation, " ")
		path = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		body := ""
		if method == "POST" {
			body = `{}`
		}
		a := do(t, s, method, path, body, "Authorization: Bearer jwt", "X-Service-Version: nosuch")
		if a.Status != 400 || !strings.Contains(strings.Join(a.faults(t), ","), "header X-Service-Version invalid_value") {
			t.Errorf("%s: %d %s", operation, a.Status, a.Body)
		}
		if a.Header.Get("X-Service-Version") != "2026-11-01" {
			t.Errorf("%s answers in version %q", operation, a.Header.Get("X-Service-Version"))
		}
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	tests := []struct {
		headers string
		want    int
	}{
		{"", 200}, {"Content-Type:", 200}, {"Content-Type: application/json", 200}, {"Content-Type: Application/JSON; charset=utf-8", 200},
		{"Content-Type: application/vnd.api+json", 200}, {"Content-Encoding: identity", 200},
		{"Content-Type: application/+json", 415}, {"Content-Type: text/json", 415}, {"Content-Type: text/plain", 415}, {"Content-Type: application/jsonx", 415},
		{"Content-Type: application/x-www-form-urlencoded", 415}, {"Content-Type: ;", 415}, {"Content-Encoding: gzip", 415},
	}
	for _, test := range tests {
		var headers []string
		if test.headers != "" {
			headers = append(headers, test.headers)
		}
		if a := do(t, s, "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`, headers...); a.Status != test.want {
			t.Errorf("%q: got %d, want %d", test.headers, a.Status, test.want)
		}
	}
	if a := do(t, s, "POST", "/v1/auth/logout", "", "Authorization: Bearer jwt", "Content-Type: text/plain"); a.Status != 204 {
		t.Errorf("without a body its type does not matter: %d", a.Status)
	}
}

func TestSizesOfBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	fill := func(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }
	run, login := `{"asset":"BTC","strategy":"momentum"}`, `{"email":"a","password":"b"}`
	tests := []struct {
		path, body string
		want       int
	}{
		{"/v1/agents/trading/run", fill(run, 1<<20), 200},
		{"/v1/agents/trading/run", fill(run, 1<<20+1), 413},
		{"/v1/auth/login", fill(login, 64<<10), 200},
		{"/v1/auth/login", fill(login, 64<<10+1), 413},
	}
	for _, test := range tests {
		if a := do(t, s, "POST", test.path, test.body); a.Status != test.want {
			t.Errorf("%s with %d bytes: got %d, want %d", test.path, len(test.body), a.Status, test.want)
		}
		// The same without Content-Length.
		r := httptest.NewRequest("POST", test.path, struct{ *strings.Reader }{strings.NewReader(test.body)})
		r.Header.Set("Authorization", "Bearer key")
		r.ContentLength = -1
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%s with %d bytes of unknown number: got %d, want %d", test.path, len(test.body), w.Code, test.want)
		}
	}
}

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
		{"GET", "/dashboard/", 404, ""},
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
			t.Errorf("%s %s: got %d, Allow %q; want %d %q", test.method, test.path, a.Status, a.Header.Get("Allow"), test.want, test.allow)
		}
		if test.method == "HEAD" && a.Body != "" {
			t.Errorf("HEAD %s has a body", test.path)
		}
	}
	closed := newServer(t, &fakes{}, func(o *signalhttp.Options) { o.Registration = false })
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
		{"GET", "/v1/agents", "Bearer reader", 403, "insufficient_scope", `Bearer realm="agent-signals", error="insufficient_scope", scope="agents:read"`},
		{"GET", "/v1/agents/trading", "Bearer reader", 403, "insufficient_scope", `Bearer realm="agent-signals", error="insufficient_scope", scope="agents:read"`},
		{"POST", "/v1/agents/nosuch/run", "Bearer reader", 403, "insufficient_scope", `Bearer realm="agent-signals", error="insufficient_scope", scope="agents:run"`},
		{"GET", "/v1/jobs", "Bearer reader", 403, "insufficient_scope", `Bearer realm="agent-signals", error="insufficient_scope", scope="agents:run"`},
	}
	for _, test := range tests {
		a := do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		p := a.problem(t)
		if a.Status != test.status || p.Code != test.code || a.Header.Get("Www-Authenticate") != test.challenge {
			t.Errorf("%s %s with %q: got %d %s %q", test.method, test.path, test.authorization, a.Status, p.Code, a.Header.Get("Www-Authenticate"))
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

// TestOrderOfChecks lets requests fail in several ways and removes the first fault
// each time.
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
		{"POST", "/v1/agents/nosuch/run", huge, []string{"Authorization: Bearer reader", "Content-Type: text/plain"}, true, 403},
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

func TestRateLimits(t *testing.T) {
	t.Parallel()
	type taken struct {
		Class limits.Class
		Who   string
	}
	var got []taken
	var refuse limits.Class
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		got = append(got, taken{class, who})
		if class == refuse {
			return limits.Decision{Class: class, Limit: 600, Window: time.Minute, Reset: 300 * time.Millisecond, RetryAfter: time.Second}
		}
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 599, Reset: 100 * time.Millisecond}
	}}
	s := newServer(t, f)
	account, address := string(accountID), "192.0.2.1"
	tests := []struct {
		method, path, authorization string
		want                        []taken
	}{
		{"POST", "/v1/agents/trading/run", "Bearer key", []taken{{limits.Runs, account}}},
		{"GET", "/v1/signals", "Bearer key", []taken{{limits.Reads, account}}},
		{"HEAD", "/v1/signals", "Bearer key", []taken{{limits.Reads, account}}},
		{"GET", "/v1/auth/api-keys", "Bearer jwt", []taken{{limits.Reads, account}}},
		{"POST", "/v1/auth/api-key", "Bearer jwt", []taken{{limits.Writes, account}}},
		{"DELETE", "/v1/auth/api-keys/x", "Bearer jwt", []taken{{limits.Writes, account}}},
		{"POST", "/v1/auth/login", "", []taken{{limits.Logins, address}}},
		{"POST", "/v1/auth/register", "", []taken{{limits.Registrations, address}}},
		{"POST", "/v1/auth/refresh", "", []taken{{limits.Sessions, address}}},
		{"POST", "/v1/auth/logout", "Bearer jwt", []taken{{limits.Sessions, address}}},
		{"GET", "/v1/signals", "Bearer wrong", []taken{{limits.Failures, address}}},
		{"GET", "/v1/ws/dashboard", "Bearer key", []taken{{limits.Streams, account}}},
		{"GET", "/ws/dashboard", "", []taken{{limits.Streams, address}}},
		{"OPTIONS", "/v1/signals", "", nil},
		{"GET", "/v1/nosuch", "", nil},
		{"GET", "/healthz", "", nil},
	}
	for _, test := range tests {
		got = nil
		do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s %s takes (-want +got):\n%s", test.method, test.path, d)
		}
	}

	fields := func(a answer) string {
		h := a.Header
		return strings.Join([]string{h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), h.Get("Retry-After")}, " | ")
	}
	a := do(t, s, "GET", "/v1/signals?limit=0", "")
	if want := `"reads";q=600;w=60 | "reads";r=599;t=1 | 600 | 599 | 1795253401 | `; fields(a) != want {
		t.Errorf("allowed: %s", fields(a))
	}
	refuse = limits.Reads
	a = do(t, s, "GET", "/v1/signals", "")
	if want := `"reads";q=600;w=60 | "reads";r=0;t=1 | 600 | 0 | 1795253401 | 1`; fields(a) != want || a.problem(t).Code != "rate_limited" {
		t.Errorf("refused: %s %s", fields(a), a.Body)
	}
	refuse = limits.Failures
	a = do(t, s, "GET", "/v1/signals", "", "Authorization: Bearer wrong")
	if a.Status != 429 || a.problem(t).Code != "rate_limited" || a.Header.Get("Www-Authenticate") != "" || !strings.HasPrefix(fields(a), `"failures"`) {
		t.Errorf("after too many failures: %d %s %s", a.Status, fields(a), a.Body)
	}
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 {
		t.Errorf("a valid credential after too many failures: %d", a.Status)
	}
}

// TestEveryAnswerTellsOfTheLimit has requests fail at each check.
func TestEveryAnswerTellsOfTheLimit(t *testing.T) {
	t.Parallel()
	off := map[limits.Class]bool{}
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		if off[class] {
			return limits.Decision{Class: class, Allowed: true}
		}
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 1}
	}}
	s := newServer(t, f)
	// What fakeLimits.Peek says remains.
	account, address := strconv.Itoa(len(accountID)), strconv.Itoa(len("192.0.2.1"))
	for _, test := range []struct {
		name, method, path, authorization string
		off                               limits.Class
		status                            int
		want                              string
	}{
		{"no credential", "GET", "/v1/signals", "", "", 401, `"failures";r=1;t=0`},
		{"a bad one", "POST", "/v1/agents/trading/run", "Bearer wrong", "", 401, `"failures";r=1;t=0`},
		{"a bad one, failures not limited", "POST", "/v1/agents/trading/run", "Bearer wrong", limits.Failures, 401, `"runs";r=` + address + `;t=0`},
		{"a key where none is taken", "POST", "/v1/auth/api-key", "Bearer key", "", 401, `"failures";r=1;t=0`},
		{"a key where none is taken, failures not limited", "POST", "/v1/auth/api-key", "Bearer key", limits.Failures, 401, `"writes";r=` + account + `;t=0`},
		{"no scope", "POST", "/v1/agents/trading/run", "Bearer reader", "", 403, `"runs";r=` + account + `;t=0`},
		{"a wrong value", "GET", "/v1/signals?limit=0", "Bearer key", "", 400, `"reads";r=1;t=0`},
		{"no such thing", "GET", "/v1/signals/x", "Bearer key", "", 404, `"reads";r=1;t=0`},
		{"an address is limited", "POST", "/v1/auth/login", "", "", 400, `"logins";r=1;t=0`},
		{"no such method", "PUT", "/v1/signals", "Bearer key", "", 405, ""},
		{"no such path", "GET", "/v1/nosuch", "Bearer key", "", 404, ""},
		{"no limit", "GET", "/healthz", "", "", 200, ""},
	} {
		off = map[limits.Class]bool{test.off: true}
		a := do(t, s, test.method, test.path, "", "Authorization:"+test.authorization)
		h := a.Header
		if a.Status != test.status || h.Get("RateLimit") != test.want || (h.Get("RateLimit-Policy") == "") != (test.want == "") {
			t.Errorf("%s: %d with %q, want %d with %q", test.name, a.Status, h.Get("RateLimit"), test.status, test.want)
		}
		if retry := h.Get("Retry-After"); retry != "" {
			t.Errorf("%s: Retry-After: %s", test.name, retry)
		}
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"nobody is trusted here", "203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9"},
		{"one proxy", "10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"read from the right", "10.0.0.1:1", []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"over several headers", "10.0.0.1:1", []string{"1.1.1.1", "198.51.100.1", "10.0.0.2,10.0.0.3"}, "198.51.100.1"},
		{"what is no address ends it", "10.0.0.1:1", []string{"198.51.100.1, nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"all are proxies", "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"with a port", "[fd00::1]:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a unix socket", "@", []string{"198.51.100.1"}, "unknown"},
	}
	for _, test := range tests {
		var got string
		f := &fakes{take: func(_ limits.Class, who string) limits.Decision {
			got = who
			return limits.Decision{Allowed: true}
		}}
		s := newServer(t, f, func(o *signalhttp.Options) {
			o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
		})
		r := httptest.NewRequest("POST", "/v1/auth/login", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = test.peer, test.forwarded
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, target := range []string{"GET /v1/signals", "GET /v1/nosuch", "PUT /v1/signals", "POST /v1/auth/login", "GET /healthz", "OPTIONS /v1/signals"} {
		method, path, _ := strings.Cut(target, " ")
		a := do(t, s, method, path, "")
		h := a.Header
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Service-Version": "2026-11-01"} {
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
	for id, kept := range map[string]bool{"checkout-4711_A.b": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "a b": false, "": false, "é": false} {
		a := do(t, s, "GET", "/v1/nosuch", "", "X-Request-Id: "+id)
		if got := a.Header.Get("X-Request-Id"); (got == id) != kept || a.problem(t).RequestID != got {
			t.Errorf("%q became %q, in the document %q", id, got, a.problem(t).RequestID)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	off := newServer(t, &fakes{})
	if a := do(t, off, "GET", "/v1/signals", "", "Origin: https://app.example.com"); a.Header.Get("Access-Control-Allow-Origin") != "" || a.Status != 200 {
		t.Errorf("off: %v", a.Header)
	}
	s := newServer(t, &fakes{}, func(o *signalhttp.Options) { o.CORSOrigins = []string{"https://app.example.com"} })
	a := do(t, s, "OPTIONS", "/v1/agents/trading/run", "", "Authorization:", "Origin: https://app.example.com",
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,idempotency-key")
	h := a.Header
	if a.Status != 204 || h.Get("Allow") != "OPTIONS, POST" || h.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		h.Get("Access-Control-Allow-Methods") != "POST" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", a.Status, h)
	}
	a = do(t, s, "GET", "/v1/signals?limit=0", "", "Origin: https://app.example.com")
	if a.Status != 400 || a.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "X-Run-Id") {
		t.Errorf("request: %d %v", a.Status, a.Header)
	}
	for _, origin := range []string{"https://evil.example.com", "http://app.example.com", "null"} {
		if a := do(t, s, "GET", "/v1/signals", "", "Origin: "+origin); a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is allowed", origin)
		}
	}
	for _, origin := range []string{"*", "https://*.example.com", "app.example.com", "https://app.example.com/", "https://"} {
		if _, err := signalhttp.New(signalhttp.Options{CORSOrigins: []string{origin}}); err == nil {
			t.Errorf("%q is taken for an origin", origin)
		}
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	var claimed, released []signal.ReplyKey
	var kept *signal.Reply
	var claimErr error
	f := &fakes{
		claim: func(account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error) {
			claimed = append(claimed, key)
			return kept, claimErr
		},
		release: func(_ signal.AccountID, key signal.ReplyKey) error {
			released = append(released, key)
			return nil
		},
	}
	s := newServer(t, f)
	post := func(path, body string) answer { return do(t, s, "POST", path, body, "Idempotency-Key: k 1") }
	body := `{"asset":"BTC","strategy":"momentum"}`

	a := post("/v1/agents/trading/run", body)
	if a.Status != 200 || len(claimed) != 1 || len(released) != 0 || claimed[0].Key != "k 1" || claimed[0].Method != "POST" ||
		claimed[0].Path != "/v1/agents/trading/run" || claimed[0].RequestHash == [32]byte{} || a.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("first: %d, claimed %v, released %v", a.Status, claimed, released)
	}
	first := a.Body
	kept = &signal.Reply{Status: 200, Header: map[string]string{"X-Run-Id": string(runID)}, Signal: newSignal()}
	if a := post("/v1/agents/trading/run", body); a.Status != 200 || a.Body != first || a.Header.Get("Idempotency-Replayed") != "true" || a.Header.Get("X-Run-Id") != string(runID) {
		t.Errorf("replayed: %d %v %s", a.Status, a.Header, a.Body)
	}
	kept = nil

	claimed = nil
	for _, bad := range []struct{ path, body string }{{"/v1/agents/trading/run", `{}`}, {"/v1/agents/nosuch/run", body}} {
		if a := post(bad.path, bad.body); a.Status < 400 || len(claimed) != 0 {
			t.Errorf("%s: the key is looked at before the values: %d %v", bad.path, a.Status, claimed)
		}
	}
	f.run = func(context.Context, signal.RunRequest) (agent.Outcome, error) {
		return agent.Outcome{Run: runID}, &signal.RunError{Code: signal.Timeout, Message: "m"}
	}
	if a := post("/v1/agents/trading/run", body); a.Status != 500 || len(released) != 1 {
		t.Errorf("a failed run keeps its key: %d %v", a.Status, released)
	}
	f.run = func(context.Context, signal.RunRequest) (agent.Outcome, error) { panic("broken") }
	if a := post("/v1/agents/trading/run", body); a.Status != 500 || len(released) != 2 {
		t.Errorf("a run that panics keeps its key: %d %v", a.Status, released)
	}
	claimErr = &signal.Error{Kind: signal.KindMismatch, Code: "idempotency_key_reused", Message: "m"}
	if a := post("/v1/agents/trading/run", body); a.Status != 422 || len(released) != 2 {
		t.Errorf("another body: %d, released %v", a.Status, released)
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
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "5" || a.Header.Get("Connection") != "close" {
		t.Errorf("after: %d %v", a.Status, a.Header)
	}
	if a := do(t, s, "GET", "/healthz", ""); a.Status != 200 {
		t.Errorf("healthz: %d", a.Status)
	}
}
