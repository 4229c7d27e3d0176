package http_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
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
		{"nested too deeply", run, strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33),
			[]string{"body  invalid_format"}},
		{"nothing given", run, `{}`, []string{"body /asset required", "body /strategy required"}},
		{"null is absence", run, `{"asset":null,"strategy":null,"timeframe":null,"risk_level":null,"async":null,` +
			`"parameters":null}`, []string{"body /asset required", "body /strategy required"}},
		{"all faults at once", run,
			`{"asset":7,"strategy":"nosuch","timeframe":"2h","risk_level":"none","async":"yes","x":1,` +
				`"parameters":{"y":1,` +
				`"region":"us"}}`,
			[]string{"body /asset invalid_type", "body /timeframe invalid_value", "body /risk_level invalid_value",
				"body /async invalid_type",
				"body /parameters/y unknown_field", "body /x unknown_field", "body /strategy invalid_value",
				"body /parameters/region unknown_field"}},
		{"names are case-sensitive", run, `{"ASSET":"BTC","asset":"BTC","strategy":"momentum"}`,
			[]string{"body /ASSET unknown_field"}},
		{"given twice", run, `{"asset":"BTC","asset":"ETH","strategy":"momentum"}`, []string{"body /asset duplicate"}},
		{"given twice in disguise", run, `{"asset":"BTC","\u0061sset":"ETH","strategy":"momentum"}`,
			[]string{"body /asset duplicate"}},
		{"given twice inside", run, `{"asset":"BTC","strategy":"momentum","parameters":{"z":1,"z":2}}`,
			[]string{"body /parameters/z duplicate", "body /parameters/z unknown_field"}},
		{"a pointer is escaped", run, `{"asset":"BTC","strategy":"momentum","a/b~c":1}`,
			[]string{"body /a~1b~0c unknown_field"}},
		{"asset of white space", run, `{"asset":" \t ","strategy":"momentum"}`, []string{"body /asset too_short"}},
		{"asset too long", run, `{"asset":"` + strings.Repeat("é", 65) + `","strategy":"momentum"}`,
			[]string{"body /asset too_long"}},
		{"asset with a control character", run, `{"asset":"B\u0000C","strategy":"momentum"}`,
			[]string{"body /asset invalid_format"}},
		{"empty strategy", run, `{"asset":"BTC","strategy":""}`, []string{"body /strategy invalid_value"}},
		{"another agent's strategy", run, `{"asset":"BTC","strategy":"blog_post"}`,
			[]string{"body /strategy invalid_value"}},
		{"parameters of the wrong type", run, `{"asset":"BTC","strategy":"momentum","parameters":[]}`,
			[]string{"body /parameters invalid_type"}},
		{"weather of no commodity", "/v1/agents/weather/run",
			`{"asset":"BTC","strategy":"energy_demand","parameters":{"region":""}}`,
			[]string{"body /parameters/region invalid_value", "body /asset invalid_value"}},
		{"commodity that does not fit", "/v1/agents/weather/run", `{"asset":"oil","strategy":"agriculture"}`,
			[]string{"body /asset invalid_value"}},
		{"phrases", "/v1/agents/seo/run",
			`{"asset":"desk","strategy":"blog_post","parameters":{"keywords":["a",7,"` + long +
				`"],"features":"x","locale":""}}`,
			[]string{"body /parameters/keywords/1 invalid_type", "body /parameters/features invalid_type",
				"body /parameters/locale too_short", "body /parameters/keywords/2 too_long"}},
		{"a phrase too long", "/v1/agents/seo/run",
			`{"asset":"desk","strategy":"blog_post","parameters":{"keywords":["` +
				long + `"],"locale":"english"}}`,
			[]string{"body /parameters/keywords/0 too_long", "body /parameters/locale invalid_format"}},
		{"too many phrases", "/v1/agents/seo/run", `{"asset":"desk","strategy":"blog_post","parameters":{"features":[` +
			strings.Repeat(`"a",`, 20) + `"a"]}}`, []string{"body /parameters/features too_long"}},
		{"unknown agent, body invalid for every agent", "/v1/agents/nosuch/run", `{"asset":"BTC","strategy":"nosuch"}`,
			[]string{"body /strategy invalid_value"}},
		{"unknown agent, body invalid for the strategy's agent", "/v1/agents/nosuch/run",
			`{"asset":"BTC","strategy":"agriculture"}`, []string{"body /asset invalid_value"}},
		{"login without values", login, `{}`, []string{"body /email required", "body /password required"}},
		{"login with empty values", login, `{"email":"","password":""}`,
			[]string{"body /email required", "body /password required"}},
		{"login with more", login, `{"email":"a","password":1,"remember":true}`,
			[]string{"body /password invalid_type", "body /remember unknown_field"}},
		{"refresh without token", "/v1/auth/refresh", `{}`, []string{"body /refresh_token required"}},
		{"register with a short password", "/v1/auth/register", `{"email":"","password":"short"}`,
			[]string{"body /email required", "body /password too_short"}},
		{"all faults of a registration", "/v1/auth/register", `{"email":"nobody","password":"short","x":1}`,
			[]string{"body /email invalid_format", "body /password too_short", "body /x unknown_field"}},
		{"register with values of the wrong type", "/v1/auth/register", `{"email":1,"password":null}`,
			[]string{"body /email invalid_type", "body /password required"}},
		{"password too long", "/v1/auth/password", `{"new_password":"` + strings.Repeat("x", 129) + `"}`,
			[]string{"body /current_password required", "body /new_password too_long"}},
		{"logout of everything", "/v1/auth/logout", `{"all":"yes"}`, []string{"body /all invalid_type"}},
		{"logout with no object", "/v1/auth/logout", `true`, []string{"body  invalid_type"}},
		{"key without a name", key, `{"name":null,"scopes":[],"expires_in":0}`,
			[]string{"body /name required", "body /scopes too_short", "body /expires_in out_of_range"}},
		{"key with a name of the wrong type", key, `{"name":5}`, []string{"body /name invalid_type"}},
		{"key with a blank name", key, `{"name":"  ","scopes":["agents:read","all",3],"expires_in":315360001}`,
			[]string{"body /name too_short", "body /scopes/1 invalid_value", "body /scopes/2 invalid_type",
				"body /expires_in out_of_range"}},
		{"key with a long name", key, `{"name":"` + long + `","scopes":"agents:read","expires_in":1.5}`,
			[]string{"body /name too_long", "body /scopes invalid_type", "body /expires_in invalid_type"}},
		{"a huge number", key, `{"name":"k","expires_in":1e999}`, []string{"body /expires_in out_of_range"}},
		{"many digits", key, `{"name":"k","expires_in":99999999999999999999}`,
			[]string{"body /expires_in out_of_range"}},
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
	if p := a.problem(t); a.Status != 400 || len(p.Errors) != 100 ||
		p.Detail != "200 values are not valid; the first 100 are listed." {
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
		{"/v1/signals?direction=LONG&status=done&strategy=nosuch&agent_id=nosuch",
			[]string{"query strategy invalid_value", "query agent_id invalid_value",
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
		{"/v1/signals/weather?region=mars&commodity=gold&severity=mild&limit=0",
			[]string{"query limit out_of_range", "query region invalid_value",
				"query commodity invalid_value", "query severity invalid_value"}},
		{"/v1/agents?category=sport&status=gone&limit=101",
			[]string{"query category invalid_value", "query status invalid_value", "query limit out_of_range"}},
		{"/v1/jobs?status=done&limit=x", []string{"query status invalid_value", "query limit invalid_type"}},
		{"/v1/auth/api-keys?limit=1000", []string{"query limit out_of_range"}},
		{"/v1/signals?assets=BTC&assets=ETH", []string{"query assets unknown_field"}},
		{"/v1/signals?Asset=BTC&asset%20=x&limit=x",
			[]string{"query Asset unknown_field", "query asset  unknown_field", "query limit invalid_type"}},
		{"/v1/signals?%zz=1&%ff=2&&=3", []string{"query %zz unknown_field", "query \uFFFD unknown_field",
			"query  unknown_field"}},
		{"/v1/signals?" + strings.Repeat("é", 65) + "=1",
			[]string{"query " + strings.Repeat("é", 64) + "… unknown_field"}},
		{"/v1/account?limit=1", []string{"query limit unknown_field"}},
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
		{"long key", []string{"Idempotency-Key: " + strings.Repeat("k", 256)},
			[]string{"header Idempotency-Key too_long"}},
		{"key beyond ASCII", []string{"Idempotency-Key: schl\u00fcssel"},
			[]string{"header Idempotency-Key invalid_format"}},
		{"two keys", []string{"Idempotency-Key: a", "Idempotency-Key: b"},
			[]string{"header Idempotency-Key duplicate"}},
		{"unknown version", []string{"X-Service-Version: 2020-01-01"},
			[]string{"header X-Service-Version invalid_value"}},
		{"two versions", []string{"X-Service-Version: 2026-11-01", "X-Service-Version: 2026-11-01"},
			[]string{"header X-Service-Version duplicate"}},
		{"both", []string{"X-Service-Version: v1", "Idempotency-Key:"},
			[]string{"header X-Service-Version invalid_value", "header Idempotency-Key too_short"}},
	}
	for _, test := range tests {
		a := do(t, s, "POST", "/v1/agents/trading/run", body, test.headers...)
		if d := cmp.Diff(test.want, a.faults(t)); d != "" || a.Status != 400 {
			t.Errorf("%s: %d (-want +got):\n%s", test.name, a.Status, d)
		}
	}
	if a := do(t, s, "POST", "/v1/agents/trading/run", body, "Idempotency-Key: "+strings.Repeat("~", 255),
		"X-Service-Version:"); a.Status != 200 {
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
		if a.Status != 400 || !strings.Contains(strings.Join(a.faults(t), ","),
			"header X-Service-Version invalid_value") {
			t.Errorf("%s: %d %s", operation, a.Status, a.Body)
		}
		if a.Header.Get("X-Service-Version") != "2026-11-01" {
			t.Errorf("%s answers in version %q", operation, a.Header.Get("X-Service-Version"))
		}
	}
}

// scopeOf returns the scope that the operations of a path need, or "".
func scopeOf(path string) signal.Scope {
	under := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
	}
	switch {
	case path == "/v1/agents", path == "/v1/agents/{id}", under("/v1/agents/{id}/intakes"):
		return signal.AgentsRead
	case under("/v1/agents", "/v1/jobs", "/v1/backtests", "/v1/schedules", "/v1/signals/{id}/close"):
		return signal.AgentsRun
	case under("/v1/webhooks", "/v1/deliveries"):
		return signal.WebhooksManage
	case under("/v1/signals", "/v1/assets", "/v1/log", "/v1/scorecard", "/v1/summary", "/v1/audit"):
		return signal.SignalsRead
	}
	return ""
}

// A key without scopes is refused by every operation that needs one, before anything else is read.
func TestEveryOperationNeedsItsScope(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, operation := range s.Routes() {
		method, path, _ := strings.Cut(operation, " ")
		want := scopeOf(path)
		if want == signal.AgentsRead && method != "GET" { // of agents: for sessions alone
			want = ""
		}
		target := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		a := do(t, s, method, target, "", "Authorization: Bearer bare")
		switch {
		case want == "" && a.Status == 403, want != "" && a.Status != 403:
			t.Errorf("%s: %d %s, want the scope %q to be needed", operation, a.Status, a.Body, want)
		case want != "":
			if got := a.problem(t).RequiredScope; got != string(want) {
				t.Errorf("%s needs the scope %q, want %q", operation, got, want)
			}
		}
	}
}

// TestEveryOperationRefusesAnUnknownParameter, except pages, to which others link.
func TestEveryOperationRefusesAnUnknownParameter(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for _, operation := range s.Routes() {
		method, path, _ := strings.Cut(operation, " ")
		page := path == "/" || strings.HasPrefix(path, "/docs") || strings.HasPrefix(path, "/problems") ||
			strings.HasPrefix(path, "/dashboard") || strings.HasPrefix(path, "/r/")
		path = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		body := ""
		if method == "POST" {
			body = `{}`
		}
		a := do(t, s, method, path+"?nosuch=1", body, "Authorization: Bearer jwt")
		if page {
			if a.Status == 400 {
				t.Errorf("%s: %s", operation, a.Body)
			}
			continue
		}
		if a.Status != 400 || !strings.Contains(strings.Join(a.faults(t), ","), "query nosuch unknown_field") {
			t.Errorf("%s: %d %s", operation, a.Status, a.Body)
		}
	}
}

// TestEveryDescribedParameterIsTaken compares the parameters of operations with the
// description. An empty value is the same as none.
func TestEveryDescribedParameterIsTaken(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, &fakes{})
	taken := 0
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			target := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
			if !slices.Contains(s.Routes(), method+" "+path) {
				target = "/v1" + target
			}
			for _, p := range operation.Parameters {
				if p.Value.In != openapi3.ParameterInQuery {
					continue
				}
				a := do(t, s, method, target+"?"+p.Value.Name+"=", "", "Authorization: Bearer jwt")
				if strings.Contains(a.Body, "unknown_field") {
					t.Errorf("%s %s: %s", method, target, a.Body)
				}
				taken++
			}
		}
	}
	if taken < 20 {
		t.Errorf("only %d parameters are described", taken)
	}
}

func TestUnknownParametersNameTheNearest(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for target, want := range map[string]string{
		"/v1/signals?assets=BTC":   "there is no such parameter; the nearest one is asset",
		"/v1/jobs?colour=1":        "there is no such parameter; there are status, limit, offset",
		"/v1/account?verbose=true": "there is no such parameter: this endpoint has none",
	} {
		if a := do(t, s, "GET", target, ""); a.Status != 400 || a.problem(t).Errors[0].Detail != want {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
		}
	}
	many := "/v1/jobs?"
	for i := range 200 {
		many += fmt.Sprintf("p%d=1&", i)
	}
	if a := do(t, s, "GET", many, ""); a.Status != 400 || len(a.problem(t).Errors) != 100 {
		t.Errorf("of 200 faults %d are listed", len(a.problem(t).Errors))
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	tests := []struct {
		headers string
		want    int
	}{
		{"", 200}, {"Content-Type:", 200}, {"Content-Type: application/json", 200},
		{"Content-Type: Application/JSON; charset=utf-8", 200},
		{"Content-Type: application/vnd.api+json", 200}, {"Content-Encoding: identity", 200},
		{"Content-Type: application/+json", 415}, {"Content-Type: text/json", 415}, {"Content-Type: text/plain", 415},
		{"Content-Type: application/jsonx", 415},
		{"Content-Type: application/x-www-form-urlencoded", 415}, {"Content-Type: ;", 415},
		{"Content-Encoding: gzip", 415},
	}
	for _, test := range tests {
		var headers []string
		if test.headers != "" {
			headers = append(headers, test.headers)
		}
		if a := do(t, s, "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`,
			headers...); a.Status != test.want {
			t.Errorf("%q: got %d, want %d", test.headers, a.Status, test.want)
		}
	}
	if a := do(t, s, "POST", "/v1/auth/logout", "", "Authorization: Bearer jwt",
		"Content-Type: text/plain"); a.Status != 204 {
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
			t.Errorf("%s with %d bytes of unknown number: got %d, want %d", test.path, len(test.body),
				w.Code, test.want)
		}
	}
}
