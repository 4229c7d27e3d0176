package http_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/apitest"
	"github.com/agentsignal/agentsignal/http/tracing"
)

func TestDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	if d := cmp.Diff(checker(t).Routes(), s.Routes()); d != "" {
		t.Errorf("routes (-described +served):\n%s", d)
	}
}

func TestStreamDescriptionIsSound(t *testing.T) {
	t.Parallel()
	stream := apitest.NewStream(t, "asyncapi.yaml")
	if server, client := stream.Types(); server != 12 || client != 4 {
		t.Errorf("%d messages of the server and %d of clients are described", server, client)
	}
	for _, bad := range []string{`{"type":"heartbeat"}`,
		`{"type":"heartbeat","data":{},"timestamp":"2026-11-21T09:30:30.000Z"}`,
		`{"type":"heartbeat","timestamp":"2026-11-21T09:30:30Z"}`, `{"type":"nosuch"}`, `7`, `{`} {
		if stream.FromServer([]byte(bad)) == nil {
			t.Errorf("%s is taken for a message", bad)
		}
	}
	for _, bad := range []string{`{"action":"subscribe","channels":["signal.old"]}`, `{"action":"auth"}`,
		`{"action":"ping","more":1}`} {
		if stream.FromClient([]byte(bad)) == nil {
			t.Errorf("%s is taken for a message", bad)
		}
	}
	for _, code := range []int{1000, 1001, 1003, 1007, 1009, 1011, 4000, 4008, 4400, 4401, 4403, 4429} {
		if !stream.CloseCode(code) {
			t.Errorf("close code %d is not described", code)
		}
	}
}

// TestCheckerSeesWhatIsNotDescribed: the checker must not pass everything.
func TestCheckerSeesWhatIsNotDescribed(t *testing.T) {
	t.Parallel()
	request := func(method, target string) *http.Request { return httptest.NewRequest(method, target, nil) }
	header := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r"},
		"X-Service-Version": {"2026-11-01"}}
	list := `{"signals":[],"total":0,"limit":25,"offset":0,"has_more":false}`
	tests := []struct {
		name string
		x    apitest.Exchange
		ok   bool
	}{
		{"as described", apitest.Exchange{Request: request("GET", "/v1/signals"), Status: 200, Header: header,
			Body: []byte(list)}, true},
		{"one member more", apitest.Exchange{Request: request("GET", "/v1/signals"), Status: 200, Header: header,
			Body: []byte(list[:len(list)-1] + `,"x":1}`)}, false},
		{"one member less", apitest.Exchange{Request: request("GET", "/v1/signals"), Status: 200, Header: header,
			Body: []byte(`{"signals":[]}`)}, false},
		{"an unknown status", apitest.Exchange{Request: request("GET", "/v1/signals"), Status: 202, Header: header,
			Body: []byte(list)}, false},
		{"no headers", apitest.Exchange{Request: request("GET", "/v1/signals"), Status: 200,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(list)}, false},
		{"a bad request that was accepted",
			apitest.Exchange{Request: request("GET", "/v1/signals?limit=101"), Status: 200,
				Header: header, Body: []byte(list)}, false},
		{"an undescribed path", apitest.Exchange{Request: request("GET", "/v1/nosuch"), Status: 200, Header: header,
			Body: []byte(list)}, false},
		{"more in an object of ours", apitest.Exchange{Request: request("GET", "/v1/account"), Status: 200,
			Header: header, Body: []byte(`{"account_id":"acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV","email":"a",` +
				`"created_at":"2026-11-21T09:30:00.000Z",` +
				`"x":1}`)}, false},
	}
	for _, test := range tests {
		if err := checker(t).Check(test.x); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	down := errors.New("dial unix /secret: no such file")
	var redis, streams, alive error
	s := newServer(t, &fakes{}, func(o *config) {
		o.Health = signalhttp.Health{
			Alive:    func(context.Context) error { return alive },
			Redis:    func(context.Context) error { return redis },
			Streams:  func(context.Context) error { return streams },
			Warnings: func() []string { return []string{"nothing survives a restart"} },
		}
	})
	want := func(path string, status int, body string) {
		t.Helper()
		if a := do(t, s, "GET", path, "", "Authorization:"); a.Status != status || a.Body != body {
			t.Errorf("%s: got %d %s, want %d %s", path, a.Status, a.Body, status, body)
		}
	}
	want("/healthz", 200, `{"status":"ok"}`)
	want("/readyz", 200, `{"status":"ready","checks":{"redis":"ok","streams":"ok","actors":"ok"},`+
		`"warnings":["nothing survives a restart"]}`)
	redis, streams = down, down
	want("/healthz", 200, `{"status":"ok"}`)
	want("/readyz", 503, `{"status":"not_ready","checks":{"redis":"failed","streams":"failed","actors":"ok"},`+
		`"warnings":["nothing survives a restart"]}`)
	redis, streams = &signal.Error{Kind: signal.KindUnavailable, Message: "redis is full", Cause: down}, nil
	want("/readyz", 503, `{"status":"not_ready","checks":{"redis":"failed","streams":"ok","actors":"ok"},`+
		`"warnings":["redis is full","nothing survives a restart"]}`)
	redis, streams, alive = nil, nil, down
	want("/healthz", 503, `{"status":"failed"}`)
	s.Drain()
	want("/readyz", 503, `{"status":"draining","checks":{"redis":"ok","streams":"ok","actors":"ok"},`+
		`"warnings":["nothing survives a restart"]}`)
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	page := func(path, contentType, part string) {
		t.Helper()
		a := do(t, s, "GET", path, "", "Authorization:")
		if a.Status != 200 || a.Header.Get("Content-Type") != contentType || !strings.Contains(a.Body, part) {
			t.Errorf("%s: %d %q without %q", path, a.Status, a.Header.Get("Content-Type"), part)
		}
		if a.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("%s: Cache-Control %q", path, a.Header.Get("Cache-Control"))
		}
		if strings.HasPrefix(contentType, "text/html") {
			if strings.Contains(a.Body, "style=") || strings.Contains(a.Body, "<style") ||
				strings.Contains(a.Body, "<script>") || strings.Contains(a.Body, "onclick") {
				t.Errorf("%s has inline script or style, which its policy forbids", path)
			}
			if !strings.Contains(a.Body, `<script src="/docs/risks.js"></script>`) {
				t.Errorf("%s does not show what /readyz warns of", path)
			}
			if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") ||
				strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q", path, policy)
			}
		}
	}
	page("/docs", "text/html; charset=utf-8", `src="/docs/init.js"`)
	page("/docs", "text/html; charset=utf-8", `href="/docs/start.html"`)
	page("/docs/start.html", "text/html; charset=utf-8", "<h1>First five minutes</h1>")
	page("/docs/agent.html", "text/html; charset=utf-8", "<h1>Your own agent in five minutes</h1>")
	page("/docs/stream.html", "text/html; charset=utf-8", "<td>4008</td><td>slow consumer</td>")
	page("/docs/stream.html", "text/html; charset=utf-8", "The path is <code>/ws/dashboard</code>")
	page("/docs/stream.html", "text/html; charset=utf-8", "&#34;action&#34;: &#34;subscribe&#34;")
	page("/docs/init.js", "text/javascript; charset=utf-8", "SwaggerUIBundle(")
	page("/docs/risks.js", "text/javascript; charset=utf-8", "/readyz")
	page("/docs/style.css", "text/css; charset=utf-8", "font-family")
	page("/docs/swagger-ui.css", "text/css; charset=utf-8", ".swagger-ui")
	page("/docs/swagger-ui-bundle.js", "application/javascript", "SwaggerUI")
	page("/docs/favicon-32x32.png", "image/png", "PNG")
	page("/v1/openapi.yaml", "application/yaml", "openapi: 3.1.0")
	page("/v1/asyncapi.yaml", "application/yaml", "asyncapi: 3.0.0")
	page("/v1/openapi.json", "application/json", `"openapi":"3.1.0"`)
	page("/problems", "text/html; charset=utf-8", "/problems/rate-limited")
	page("/problems/rate-limited", "text/html; charset=utf-8", "<code>rate_limited</code>, status 429")
	for _, path := range []string{"/docs/index.html", "/docs/openapi.yaml", "/problems/rate_limited",
		"/problems/nosuch", "/docs/"} {
		a := do(t, s, "GET", path, "")
		if a.Status != 404 || a.Header.Get("Cache-Control") != "no-store" ||
			!strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'none'; frame") {
			t.Errorf("%s: %d %v", path, a.Status, a.Header)
		}
	}
	for _, path := range []string{"/", "/dashboard"} {
		if a := do(t, s, "GET", path, ""); a.Status != 302 || a.Header.Get("Location") != "/dashboard/" {
			t.Errorf("%s: %d %v", path, a.Status, a.Header)
		}
	}
}

func TestEveryErrorCodeHasAPage(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal([]byte(do(t, s, "GET", "/v1/openapi.json", "").Body), &doc); err != nil {
		t.Fatal(err)
	}
	codes := doc.Components.Schemas["Problem"].Properties["code"].Enum
	if len(codes) < 31 {
		t.Errorf("%d codes are described", len(codes))
	}
	for _, code := range codes {
		if a := do(t, s, "GET", "/problems/"+strings.ReplaceAll(code, "_", "-"), ""); a.Status != 200 ||
			!strings.Contains(a.Body, code) {
			t.Errorf("%s: %d", code, a.Status)
		}
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	many := make([]signal.Listing, 25)
	for i := range many {
		many[i] = newSignal().Listing()
	}
	f := &fakes{
		list: func(catalogue.Query) ([]signal.Listing, int, error) { return many, 25, nil },
		keys: func(signal.AccountID, int, int) ([]credential.APIKey, int, error) {
			return slices.Repeat([]credential.APIKey{{ID: keyID, Name: "n", Prefix: "ask_0123",
				Scopes: signal.AllScopes, CreatedAt: morning}}, 25), 25, nil
		},
	}
	s := newServer(t, f)
	tests := []struct {
		name, path, accept, want string
	}{
		{"a long answer", "/v1/signals", "br, gzip;q=0.8", "gzip"},
		{"asked for in capitals", "/v1/signals", "br, GZIP", "gzip"},
		{"not asked for", "/v1/signals", "", ""},
		{"refused", "/v1/signals", "gzip;q=0", ""},
		{"only what we do not have", "/v1/signals", "zstd", ""},
		{"a short answer", "/v1/versions", "gzip", ""},
		{"under /auth", "/v1/auth/api-keys", "gzip", ""},
		{"a description", "/v1/openapi.yaml", "gzip", "gzip"},
	}
	for _, test := range tests {
		a := do(t, s, "GET", test.path, "", "Accept-Encoding: "+test.accept, "Authorization: Bearer jwt")
		if got := a.Header.Get("Content-Encoding"); a.Status != 200 || got != test.want {
			t.Errorf("%s: got %d %q, want %q", test.name, a.Status, got, test.want)
		}
		if test.path == "/v1/signals" && a.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: Vary %q", test.name, a.Header.Values("Vary"))
		}
		if test.want == "gzip" {
			if r, err := gzip.NewReader(strings.NewReader(a.Body)); err != nil {
				t.Errorf("%s: %v", test.name, err)
			} else if _, err := io.ReadAll(r); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

func TestPanicsAreAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := &fakes{run: func(context.Context, signal.RunRequest) (agent.Outcome, error) { panic("secret state") }}
	s := newServer(t, f, func(o *config) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	a := do(t, s, "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`)
	if a.Status != 500 || a.problem(t).Code != "internal" || strings.Contains(a.Body, "secret") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	if text := log.String(); !strings.Contains(text, "secret state") || !strings.Contains(text, "serve_test.go") ||
		!strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("the log does not name the place: %s", text)
	}
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 {
		t.Errorf("after it: %d", a.Status)
	}
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, &fakes{}, func(o *config) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	do(t, s, "GET", "/v1/signals?asset=private", "", "X-Request-Id: r1",
		"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	do(t, s, "GET", "/v1/"+strings.Repeat("x", 5000), "")
	do(t, s, "GET", "/ws/dashboard?api_key=hidden", "", "Authorization:")
	lines := bufio.NewScanner(&log)
	var got []map[string]any
	for lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
		if text := lines.Text(); strings.Contains(text, "private") || strings.Contains(text, "hidden") ||
			len(text) > 1000 {
			t.Errorf("the line reveals too much: %s", text)
		}
	}
	if len(got) != 3 {
		t.Fatalf("%d lines for 3 requests", len(got))
	}
	first := got[0]
	for key, want := range map[string]any{"msg": "request", "component": "http", "method": "GET", "path": "/v1/signals",
		"status": 200.0, "request": "r1",
		"address": "192.0.2.1", "account": string(accountID), "trace_id": "0af7651916cd43dd8448eb211c80319c",
		"level": "INFO"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
	if got[2]["status"] != 401.0 || got[2]["err"] == nil {
		t.Errorf("refused handshake: %v", got[2])
	}
}

func TestMetricsOfOddInputStayFew(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := newServer(t, &fakes{}, func(o *config) {
		o.Metrics,
			o.Gatherer = signalhttp.NewMetrics(registry), registry
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	send := func(method, path string) {
		r := httptest.NewRequest(method, path, strings.NewReader("{"))
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		r = httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer jwt")
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, route := range s.Routes() {
		_, path, _ := strings.Cut(route, " ")
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
			"BREW", "x'y"} {
			for i := range 3 {
				send(method, strings.NewReplacer("{id}", fmt.Sprint(i), "{key_id}", fmt.Sprint(i), "{delivery_id}",
					fmt.Sprint(i), "{code}", fmt.Sprint(i), "{file}", fmt.Sprint(i)).Replace(path))
			}
		}
	}
	for i := range 100 {
		send("GET", fmt.Sprintf("/v1/nosuch/%d", i))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			series++
			if h := m.GetHistogram(); h != nil {
				series += len(h.GetBucket()) + 2
			}
		}
	}
	if series > 2400 {
		t.Errorf("%d series", series)
	}
	send("HEAD", "/docs/swagger-ui.css") // whose handler sets no status
	served := newServer(t, &fakes{}, func(o *config) { o.Gatherer = registry })
	body := do(t, served, "GET", "/metrics", "", "Authorization:").Body
	if strings.Contains(body, `code="0"`) {
		t.Error("an answer is counted without its status")
	}
	for _, part := range []string{`agentsignal_http_requests_total{code="404",method="GET",route="unmatched"} `,
		`agentsignal_http_requests_total{code="405",method="other",route="/v1/agents/{id}/run"} `,
		`agentsignal_http_requests_in_flight 0`, `agentsignal_http_rate_limited_total{class="logins"} 0`,
		`agentsignal_http_request_duration_seconds_bucket{method="GET",route="/v1/signals",le="0.0025"}`} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s", part)
		}
	}
}

func TestServesAndShutsDown(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	f := &fakes{run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
		close(started)
		<-release
		return agent.Outcome{Run: runID, Signal: newSignal()}, nil
	}}
	s := newServer(t, f)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client := &http.Client{Transport: checker(t).Transport(t, &http.Transport{})}
	answered := make(chan int, 1)
	go func() {
		r, err := http.NewRequest("POST", "http://"+ln.Addr().String()+"/v1/agents/trading/run",
			strings.NewReader(`{"asset":"BTC","strategy":"momentum"}`))
		if err != nil {
			t.Error(err)
		}
		r.Header.Set("Authorization", "Bearer key")
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-started
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	close(release)
	if status := <-answered; status != 200 {
		t.Errorf("the request under way got %d", status)
	}
	if err := <-down; err != nil {
		t.Errorf("shut down: %v", err)
	}
}

// TestBodyThatIsCutOff: a client that announces more than it sends is answered
// when it closes its side.
func TestBodyThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "POST /v1/agents/trading/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n"+
		"Content-Length: "+
		"100\r\n\r\n{\"asset\":")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 400 && resp.StatusCode != 499 {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestTracingLetsUpgradesThrough(t *testing.T) {
	t.Parallel()
	served := make(chan struct{})
	f := &fakes{serve: func(ws *websocket.Conn, _ *signal.Principal) {
		_ = ws.Close()
		close(served)
	}}
	exporter, err := tracing.Start(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}[name]
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exporter.Close(context.Background()) })
	s := newServer(t, f, func(o *config) { o.Tracing = exporter })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	if _, _, err := dial(t, server, "/ws/dashboard?api_key=key", nil); err != nil {
		t.Fatal(err)
	}
	<-served
	if a := do(t, s, "GET", "/v1/signals", ""); a.Status != 200 {
		t.Errorf("got %d", a.Status)
	}
}

func TestTLSIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(newServer(t, &fakes{}).Handler())
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport = checker(t).Transport(t, client.Transport)
	resp, err := client.Get(server.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("Strict-Transport-Security"); got == "" {
		t.Errorf("headers %v", resp.Header)
	}
}

func TestACheckThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, func(o *config) {
		o.Health = signalhttp.Health{Streams: func(context.Context) error { panic("at a check") }}
	})
	want := signalhttp.Checks{Redis: "ok", Streams: "failed", Actors: "ok"}
	if r := s.Ready(t.Context()); r.Status != "not_ready" || r.Checks != want {
		t.Errorf("it is %s, with %+v", r.Status, r.Checks)
	}
}
