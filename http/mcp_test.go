package http_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
)

// mcpCall is a request of the specification of the Model Context Protocol, as written there.
const mcpCall = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_signal","arguments":` +
	`{"signal_id":"` + string(signalID) + `"}}}`

// Headers of such a request.
var mcpHeaders = []string{"Content-Type: application/json", "Accept: application/json, text/event-stream",
	"MCP-Protocol-Version: 2025-06-18"}

func TestMessagesOfModels(t *testing.T) {
	t.Parallel()
	var taken []limits.Class
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		if who != string(accountID) && class != limits.Failures {
			t.Errorf("%s is taken by %s", class, who)
		}
		taken = append(taken, class)
		return limits.Decision{Class: class, Allowed: true}
	}}
	s := newServer(t, f, func(o *config) { o.CORSOrigins = []string{"https://inspector.example.com"} })
	with := func(more ...string) []string { return append(more, mcpHeaders...) }

	a := do(t, s, "POST", "/mcp", mcpCall, with()...)
	var answered struct {
		ID     int
		Result struct {
			IsError    bool
			Content    []struct{ Type, Text string }
			Structured struct {
				Signal map[string]any
			} `json:"structuredContent"`
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &answered); err != nil || a.Status != 200 ||
		a.Header.Get("Content-Type") != "application/json" || answered.ID != 2 || answered.Result.IsError ||
		len(answered.Result.Content) != 1 || !strings.Contains(answered.Result.Content[0].Text, string(signalID)) ||
		answered.Result.Structured.Signal["signal_id"] != string(signalID) {
		t.Errorf("a tool answers %d %v %s", a.Status, a.Header, a.Body)
	}
	// The request, the signal, the scorecard and the list of its evidence.
	if want := []limits.Class{limits.Reads, limits.Reads, limits.Reads, limits.Reads}; !slices.Equal(taken, want) {
		t.Errorf("it takes %v", taken)
	}
	for _, test := range []struct {
		name, method, body string
		headers            []string
		status             int
		code               string
	}{
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, with(), 202, ""},
		{"a page", "POST", mcpCall, with("Origin: https://evil.example.com"), 403, "origin_not_allowed"},
		{"a page that is reached by a name of its own", "POST", mcpCall, with("Origin: http://example.com"), 403,
			"origin_not_allowed"},
		{"a page that is allowed", "POST", mcpCall, with("Origin: https://inspector.example.com"), 200, ""},
		{"no credential", "POST", mcpCall, with("Authorization:"), 401, "missing_credentials"},
		{"a stream", "GET", "", with(), 405, "method_not_allowed"},
		{"no JSON", "POST", `{`, with(), 400, "invalid_request"},
		{"several messages", "POST", "\n [" + mcpCall + "," + mcpCall + "]",
			[]string{"Accept: application/json, text/event-stream"}, 400, "invalid_request"},
		{"no message", "POST", "[]", with(), 400, "invalid_request"},
		{"no stream accepted", "POST", mcpCall, []string{"Content-Type: application/json", "Accept: application/json"},
			400, "invalid_request"},
		{"another media type", "POST", mcpCall, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type"},
		{"too large", "POST", `"` + strings.Repeat("x", 1<<20) + `"`, with(), 413, "body_too_large"},
	} {
		a := do(t, s, test.method, "/mcp", test.body, test.headers...)
		code := ""
		if a.Status >= 400 {
			code = a.problem(t).Code
		}
		if a.Status != test.status || code != test.code {
			t.Errorf("%s: %d %s", test.name, a.Status, a.Body)
		}
	}
	// A stream of messages would not end before the time limit of an answer.
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		a = do(t, s, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":`+
			`{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`",`+
			`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":`+
			`{"name":"x","version":"1"}}}}`, "Accept: application/json, text/event-stream",
			"MCP-Protocol-Version: "+version, "Mcp-Method: subscriptions/listen")
		if a.Status != 400 && a.Status != 404 {
			t.Errorf("a stream of messages in version %s: %d %s", version, a.Status, a.Body)
		}
	}
}

// TestVersionsAreNegotiatedBeforeTheyAreRefused: a client that sends the header with every request learns by
// initialize, or by the error of a later one, which versions there are.
func TestVersionsAreNegotiatedBeforeTheyAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	const accept = "Accept: application/json, text/event-stream"
	type reply struct {
		ID     any
		Result struct{ ProtocolVersion string }
		Error  struct {
			Code    int
			Message string
			Data    struct {
				Supported []string
				Requested string
			}
		}
	}
	initialize := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` +
			`{},"clientInfo":{"name":"t","version":"1"}}}`
	}
	discover := func(version string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/` +
			`protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	ask := func(version, body string, more ...string) (int, reply) {
		t.Helper()
		if version != "" {
			more = append(more, "MCP-Protocol-Version: "+version)
		}
		a := do(t, s, "POST", "/mcp", body, append(more, accept)...)
		var r reply
		if err := json.Unmarshal([]byte(a.Body), &r); err != nil || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with the version %q is answered with %d %v %s", body, version, a.Status, a.Header, a.Body)
		}
		return a.Status, r
	}
	for _, version := range []string{"", "2025-06-18", "2025-11-25", "2026-06-30", "2026-07-28", "2026-12-31", "2020-01-01",
		"bogus"} {
		want := "2025-11-25" // the newest one that begins with initialize
		if version == "2025-06-18" {
			want = version
		}
		if status, r := ask(version, initialize(cmp.Or(version, want))); status != 200 || r.Result.ProtocolVersion != want ||
			r.ID != 1.0 {
			t.Errorf("initialize with the version %q is answered with %d %+v", version, status, r)
		}
	}
	for _, version := range []string{"2026-06-30", "2026-12-31", "2020-01-01", "bogus"} {
		for id, body := range map[any]string{2.0: mcpCall, "x": `{"jsonrpc":"2.0","id":"x","method":"ping"}`,
			nil: `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
			status, r := ask(version, body)
			if status != 400 || r.ID != id || r.Error.Code != mcp.CodeUnsupportedProtocolVersion ||
				r.Error.Message != "unsupported protocol version" || r.Error.Data.Requested != version ||
				!slices.Equal(r.Error.Data.Supported, mcp.SupportedProtocolVersions()) {
				t.Errorf("%s with the version %s is answered with %d %+v", body, version, status, r)
			}
		}
	}
	status, r := ask("2026-12-31", discover("2026-12-31"), "Mcp-Method: server/discover")
	if status != 400 || r.ID != 2.0 || !slices.Contains(r.Error.Data.Supported, "2026-07-28") {
		t.Errorf("server/discover of a later version is answered with %d %+v", status, r)
	}
}

// TestClientsBeginEitherWay, with initialize or with server/discover.
func TestClientsBeginEitherWay(t *testing.T) {
	t.Parallel()
	var methods []string
	var mu sync.Mutex
	h := newServer(t, &fakes{}).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		methods = append(methods, m.Method)
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for version, first := range map[string]string{"": "server/discover", "2026-07-28": "server/discover",
		"2025-11-25": "initialize", "2024-11-05": "initialize"} {
		mu.Lock()
		methods = nil
		mu.Unlock()
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp", MaxRetries: -1,
				HTTPClient: &http.Client{Transport: bearer("key")}}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("version %q: %v", version, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		text, _ := callTool(t, c, "get_signal", map[string]any{"signal_id": signalID})
		mu.Lock()
		if !strings.Contains(text, string(signalID)) || methods[0] != first ||
			c.InitializeResult().ProtocolVersion != cmp.Or(version, "2026-07-28") {
			t.Errorf("version %q: %q, %+v, %s", version, methods, c.InitializeResult(), text)
		}
		mu.Unlock()
	}
}

// TestConfidenceStandsWithItsInterval: the interval, the sample and break-even are of the creation, and
// the confidence of an open signal moves.
func TestConfidenceStandsWithItsInterval(t *testing.T) {
	t.Parallel()
	made := newSignal()
	made.FirstConfidence, made.Confidence = 0.45, 0.75
	made.Metadata = json.RawMessage(`{"indicators":["x"],"reasoning":"r","source":"simulated","sample":12.5,` +
		`"confidence_interval":[0.4,0.5],"break_even_net":0.48,"expected_r_net":-0.1}`)
	f := &fakes{record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) { return made, nil }}
	server := httptest.NewServer(newServer(t, f).Handler())
	t.Cleanup(server.Close)
	c := toolClient(t, server.URL, "key")
	text, out := callTool(t, c, "get_signal", map[string]any{"signal_id": signalID})
	one := out["signal"].(map[string]any)
	if !strings.Contains(text, " Confidence now 75.0 %; at its creation 45.0 %, 95 % interval 40.0 to 50.0 %, from 12.5 past "+
		"entries, break-even after costs 48.0 %.") || one["confidence"] != 0.75 || one["initial_confidence"] != 0.45 {
		t.Errorf("an open signal is shown as %s %v", text, one)
	}
	made.Confidence = 0.45
	text, _ = callTool(t, c, "get_signal", map[string]any{"signal_id": signalID})
	if !strings.Contains(text, " Confidence 45.0 %, 95 % interval 40.0 to 50.0 %") {
		t.Errorf("one with its first confidence is shown as %s", text)
	}
}

// TestToolsKeepTheRulesOfTheAPI has the client of the SDK meet each refusal.
func TestToolsKeepTheRulesOfTheAPI(t *testing.T) {
	t.Parallel()
	var refuse limits.Class
	var got signal.RunRequest
	broken := false
	f := &fakes{
		take: func(class limits.Class, who string) limits.Decision {
			return limits.Decision{Class: class, Allowed: class != refuse, Limit: 600}
		},
		run: func(_ context.Context, req signal.RunRequest) (agent.Outcome, error) {
			got = req
			if broken {
				panic("at a run")
			}
			made := newSignal()
			made.Metadata = json.RawMessage(`{"indicators":["x"],"reasoning":"r","source":"simulated","sample":12.5,` +
				`"confidence_interval":[0.4,0.5]}`)
			return agent.Outcome{Run: runID, Signal: made}, nil
		},
	}
	f.suggest = func(_ signal.AccountID, name string) []string {
		if name == "BTCC" {
			return []string{"BTC"}
		}
		return nil
	}
	s := newServer(t, f, withAssets)
	server := httptest.NewServer(checker(t).Handler(t, s.Handler()))
	t.Cleanup(server.Close)
	run := map[string]any{"agent_id": "trading", "asset": "BTC", "strategy": "momentum", "idempotency_key": "once"}
	changed := func(name string, value any) map[string]any {
		other := map[string]any{}
		for n, v := range run {
			other[n] = v
		}
		other[name] = value
		return other
	}
	reader, trader := toolClient(t, server.URL, "reader"), toolClient(t, server.URL, "key")
	f.ownAgents.list = []signal.Agent{{Account: accountID, ID: "my_agent", Category: signal.Trading,
		Strategies: []string{"momentum"}, Status: signal.AgentActive}}
	submission := map[string]any{"agent_id": "my_agent", "asset": "BTC", "strategy": "momentum", "direction": "short",
		"stop": map[string]any{"price": 70000}, "target": map[string]any{"r": 2}, "confidence": 0.6, "expires_in": 3600,
		"parameters": map[string]any{"fast": 9}, "idempotency_key": "twice"}

	text, out := callTool(t, trader, "run_agent", run)
	if got.Reply == nil || got.Reply.Key != "once" || got.Reply.Path != "/v1/agents/trading/run" || got.Asset != "BTC" ||
		out["run_id"] != string(runID) || !strings.Contains(text, "source: simulated: SIMULATED, not real prices") ||
		!strings.Contains(text, "95 % interval 40.0 to 50.0 %, from 12.5 past entries") ||
		out["evidence"].(map[string]any)["simulated"] != true {
		t.Errorf("a run of %+v answers %s %v", got, text, out)
	}
	_, out = callTool(t, trader, "submit_signal", submission)
	want := signal.Submission{Direction: signal.Short, Stop: signal.Level{Unit: signal.PriceLevel, Value: 70000},
		Target: signal.Level{Unit: signal.RLevel, Value: 2}, Claim: new(0.6), ExpiresIn: time.Hour,
		Parameters: json.RawMessage(`{"fast":9}`)}
	if diff := gocmp.Diff(&want, got.Submission); diff != "" || got.Reply == nil || got.Reply.Key != "twice" ||
		got.Agent != "my_agent" || out["run_id"] != string(runID) {
		t.Errorf("a submission is %+v, answered %v\n%s", got, out, diff)
	}
	for _, test := range []struct {
		name, tool string
		who        *mcp.ClientSession
		arguments  map[string]any
		refuse     limits.Class
		broken     bool
		want       []string
	}{
		{"no scope", "run_agent", reader, run, "", false, []string{"insufficient_scope", `"required_scope":"agents:run"`}},
		{"over the limit of runs", "run_agent", trader, run, limits.Runs, false, []string{"rate_limited"}},
		{"wrong values", "run_agent", trader, changed("timeframe", "2h"), "", false,
			[]string{"invalid_request", "timeframe: must be one of", `"pointer":"/timeframe"`}},
		{"a misspelt asset", "run_agent", trader, changed("asset", "BTCC"), "", false,
			[]string{"did you mean BTC? the tool list_assets lists all"}},
		{"a misspelt asset in a filter", "list_signals", trader, map[string]any{"asset": "BTCC"}, "", false,
			[]string{"asset: neither an asset nor a signal", "did you mean BTC? the tool list_assets lists all"}},
		{"an unknown agent", "run_agent", trader, changed("agent_id", "../x"), "", false, []string{"not_found"}},
		{"no scope to submit", "submit_signal", reader, submission, "", false, []string{`"required_scope":"agents:run"`}},
		{"submissions over the limit", "submit_signal", trader, submission, limits.Runs, false, []string{"rate_limited"}},
		{"a submission of the service's agent", "submit_signal", trader, map[string]any{"agent_id": "trading", "asset": "BTC",
			"strategy": "momentum"}, "", false, []string{"built_in"}},
		{"two units of a stop", "submit_signal", trader, map[string]any{"agent_id": "my_agent", "asset": "BTC",
			"strategy": "momentum", "direction": "long", "stop": map[string]any{"price": 1, "percent": 1}}, "", false,
			[]string{"stop: must have one member", `"pointer":"/stop"`}},
		{"no scope to close", "close_signal", reader, map[string]any{"signal_id": string(signalID)}, "", false,
			[]string{`"required_scope":"agents:run"`}},
		{"a signal of the service's agent", "close_signal", trader, map[string]any{"signal_id": string(signalID)}, "", false,
			[]string{"not_closable"}},
		{"closing all signals", "close_signal", trader, map[string]any{"signal_id": "export"}, "", false, []string{"not_found"}},
		{"a bad key", "run_agent", trader, changed("idempotency_key", strings.Repeat("k", 256)), "", false,
			[]string{"Idempotency-Key"}},
		{"a panic", "run_agent", trader, run, "", true, []string{"internal"}},
		{"an unknown signal", "get_signal", trader, map[string]any{"signal_id": "sig_x"}, "", false, []string{"not_found"}},
		{"a list of signals", "get_signal", trader, map[string]any{"signal_id": "weather"}, "", false, []string{"not_found"}},
		{"all signals", "get_signal", trader, map[string]any{"signal_id": "export"}, "", false, []string{"not_found"}},
		{"wrong parameters", "list_signals", trader, map[string]any{"limit": 101, "status": "done"}, "", false,
			[]string{"limit: must be from 1 to 100", `"parameter":"status"`}},
	} {
		refuse, broken = test.refuse, test.broken
		r, err := test.who.CallTool(t.Context(), &mcp.CallToolParams{Name: test.tool, Arguments: test.arguments})
		if err != nil || !r.IsError {
			t.Errorf("%s: %+v, %v", test.name, r, err)
			continue
		}
		text := r.Content[0].(*mcp.TextContent).Text
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", test.name, want, text)
			}
		}
	}
}

// TestEveryToolNamesItsEvidence goes over all tools: with signals, without any, for a key that may not read
// signals, and where it is refused.
func TestEveryToolNamesItsEvidence(t *testing.T) {
	t.Parallel()
	empty, refused, taken := false, false, 0
	made := ownSignal()
	made.Metadata = json.RawMessage(`{"indicators":["x"],"reasoning":"r","source":"simulated"}`)
	f := &fakes{
		ownAgents: fakeOwnAgents{list: []signal.Agent{{Account: accountID, ID: "my_agent", Name: "Mine",
			Category: signal.Trading, Strategies: []string{"momentum"}, Status: signal.AgentActive}}},
		run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
			return agent.Outcome{Signal: made}, nil
		},
		at: func(_ signal.AccountID, at []signal.Location) ([]*signal.Signal, error) {
			return slices.Repeat([]*signal.Signal{made}, len(at)), nil
		},
		record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) { return made, nil },
		locate: func(catalogue.Query, signal.Location) ([]signal.Location, int, error) {
			if empty {
				return nil, 0, nil
			}
			return []signal.Location{{ID: signalID, Created: signal.Position{MS: 1}}}, 1, nil
		},
		take: func(class limits.Class, _ string) limits.Decision {
			taken++
			return limits.Decision{Class: class, Allowed: !refused || taken == 1, Limit: 600} // the call, not what it asks
		},
	}
	f.card = func(scorecard.Query) (scorecard.Card, error) {
		outcomes := []backtest.Outcome{{R: 1}, {R: 1}, {R: -1}, {R: -1}}
		if empty {
			outcomes = nil
		}
		return scorecard.Card{Statistics: backtest.Summarize(outcomes), Strategies: []scorecard.Strategy{},
			Groups: []scorecard.Group{}}, nil
	}
	s := newServer(t, f)
	server := httptest.NewServer(checker(t).Handler(t, s.Handler()))
	t.Cleanup(server.Close)
	session := toolClient(t, server.URL, "key")
	arguments := map[string]map[string]any{"list_agents": {}, "list_assets": {}, "list_signals": {}, "scorecard": {},
		"run_agent": {"agent_id": "trading", "asset": "BTC", "strategy": "momentum"},
		"submit_signal": {"agent_id": "my_agent", "asset": "BTC", "strategy": "momentum", "direction": "long",
			"stop": map[string]any{"percent": 1.5}, "target": map[string]any{"r": 2}},
		"close_signal": {"signal_id": string(signalID)}, "get_signal": {"signal_id": string(signalID)}}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != len(arguments) {
		t.Fatalf("%d tools, %v: one has no case here", len(tools.Tools), err)
	}
	for _, tool := range tools.Tools {
		in := arguments[tool.Name]
		empty = false
		text, out := callTool(t, session, tool.Name, in)
		evidence := out["evidence"].(map[string]any)
		if !strings.Contains(text, "4 closed signals (") || !strings.Contains(text, "95 % interval 15.0 to 85.0 %") ||
			!strings.Contains(text, "; source: simulated: SIMULATED, not real prices") || evidence["simulated"] != true {
			t.Errorf("%s answers %s %v", tool.Name, text, evidence)
		}
		empty = true
		text, out = callTool(t, session, tool.Name, in)
		one := strings.HasSuffix(tool.Name, "_signal") || tool.Name == "run_agent" // whose signal has a source
		want := "; source: none, neither simulated nor real"
		if one {
			want = "; source: simulated: SIMULATED"
		}
		evidence = out["evidence"].(map[string]any)
		if !strings.Contains(text, "0 closed signals (") || !strings.Contains(text, "no hit rate and no interval"+want) ||
			evidence["closed_signals"] != 0.0 || (evidence["simulated"] == nil) == one {
			t.Errorf("%s answers without signals %s %v", tool.Name, text, evidence)
		}
		for name, in := range map[string]any{"a refusal": in, "an unknown argument": map[string]any{"nosuch": 1}} {
			refused, taken = name == "a refusal", 0
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: in})
			refused = false
			if err != nil || !r.IsError ||
				!strings.Contains(r.Content[len(r.Content)-1].(*mcp.TextContent).Text, "Evidence: none") {
				t.Errorf("%s answers %s with %+v, %v", tool.Name, name, r, err)
			}
		}
	}
}

// toolClient returns a client of the SDK with a credential.
func toolClient(t *testing.T, url, token string) *mcp.ClientSession {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url + "/mcp", MaxRetries: -1,
			HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// callTool returns the text and the structured content of a tool's answer.
func callTool(t *testing.T, c *mcp.ClientSession, tool string, arguments any) (string, map[string]any) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		t.Fatalf("%s: %s", tool, text)
	}
	return text, r.StructuredContent.(map[string]any)
}

// TestRequestsOfToolsComeFromTheClient behind a trusted proxy, as the request that calls the tool does.
func TestRequestsOfToolsComeFromTheClient(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, &fakes{}, func(o *config) {
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} // that of httptest
	})
	do(t, s, "POST", "/mcp", mcpCall, append(mcpHeaders, "X-Forwarded-For: 203.0.113.7")...)
	paths := map[string]bool{}
	for line := range strings.Lines(log.String()) {
		var logged struct{ Msg, Path, Address string }
		if err := json.Unmarshal([]byte(line), &logged); err != nil {
			t.Fatal(err)
		}
		if logged.Msg != "request" {
			continue
		}
		if paths[logged.Path] = true; logged.Address != "203.0.113.7" {
			t.Errorf("%s is logged as of %s", logged.Path, logged.Address)
		}
	}
	if !paths["/mcp"] || !paths["/v1/signals/"+string(signalID)] {
		t.Errorf("the log has requests of %v", paths)
	}
}
