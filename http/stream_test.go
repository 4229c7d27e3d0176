package http_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// dial opens the stream of a listening server.
func dial(tb testing.TB, server *httptest.Server, path string,
	header http.Header) (*websocket.Conn, *http.Response, error) {
	tb.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(server.URL, "http")+path, header)
	if ws != nil {
		tb.Cleanup(func() { _ = ws.Close() })
	}
	return ws, resp, err
}

func TestStreamHandshakes(t *testing.T) {
	t.Parallel()
	served, begins := make(chan *signal.Principal, 1), make(chan bool, 1)
	f := &fakes{begins: func(first *dashboard.Subscription) { begins <- first != nil }}
	f.serve = func(ws *websocket.Conn, p *signal.Principal) {
		served <- p
		_ = ws.WriteMessage(websocket.TextMessage, []byte("hello"))
		_ = ws.Close()
	}
	s := newServer(t, f, func(o *config) { o.CORSOrigins = []string{"https://app.example.com"} })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	tests := []struct {
		name, path string
		header     http.Header
		want       int
		account    signal.AccountID
	}{
		{"by the query", "/ws/dashboard?api_key=key", nil, 101, accountID},
		{"by a JWT in the query", "/v1/ws/dashboard?api_key=jwt", nil, 101, accountID},
		{"by the header", "/ws/dashboard", http.Header{"Authorization": {"Bearer key"}}, 101, accountID},
		{"by a message later", "/ws/dashboard?api_key=", nil, 101, ""},
		{"an invalid key", "/ws/dashboard?api_key=wrong", nil, 401, ""},
		{"by its other name", "/ws/dashboard?token=jwt", nil, 101, accountID},
		{"by both names", "/ws/dashboard?token=key&api_key=key", nil, 401, ""},
		{"a misspelt name", "/ws/dashboard?apikey=key", nil, 400, ""},
		{"a misspelt name beside a key", "/ws/dashboard?api_key=key&asset=BTC", nil, 400, ""},
		{"two keys", "/ws/dashboard?api_key=key&api_key=key", nil, 401, ""},
		{"an invalid header", "/ws/dashboard?api_key=key", http.Header{"Authorization": {"Bearer wrong"}}, 401, ""},
		{"a listed origin", "/ws/dashboard", http.Header{"Origin": {"https://APP.example.com"}}, 101, ""},
		{"its own origin", "/ws/dashboard", http.Header{"Origin": {server.URL}}, 101, ""},
		{"a foreign origin", "/ws/dashboard?api_key=key", http.Header{"Origin": {"https://evil.example.com"}}, 403, ""},
		{"an origin that ends like its own", "/ws/dashboard?api_key=key",
			http.Header{"Origin": {"http://evil" + server.Listener.Addr().String()}}, 403, ""},
		{"an origin that begins like its own", "/ws/dashboard?api_key=key",
			http.Header{"Origin": {server.URL + "0"}}, 403, ""},
		{"two origins", "/ws/dashboard?api_key=key",
			http.Header{"Origin": {server.URL, "https://evil.example.com"}}, 403, ""},
		{"no origin at all", "/ws/dashboard", http.Header{"Origin": {"null"}}, 403, ""},
		{"an unknown version", "/ws/dashboard", http.Header{"X-Service-Version": {"nosuch"}}, 400, ""},
		{"subscribing", "/ws/dashboard?api_key=key&channels=signal.new&assets=BTC,ETH&last_event_id=1795253400000-0",
			nil, 101, accountID},
		{"subscribing to none", "/ws/dashboard?api_key=key&channels=", nil, 101, accountID},
		{"subscribing without a credential", "/ws/dashboard?channels=signal.new", nil, 400, ""},
		{"subscribing to what does not exist", "/ws/dashboard?api_key=key&channels=signals.new", nil, 400, ""},
		{"subscribing with a bad credential", "/ws/dashboard?api_key=wrong&channels=signals.new", nil, 401, ""},
		{"subscribing twice", "/ws/dashboard?api_key=key&assets=BTC&assets=ETH", nil, 400, ""},
	}
	for _, test := range tests {
		ws, resp, err := dial(t, server, test.path, test.header)
		if resp == nil || resp.StatusCode != test.want {
			t.Errorf("%s: %v, %v", test.name, resp, err)
			continue
		}
		if resp.Header.Get("X-Request-Id") == "" || resp.Header.Get("X-Service-Version") == "" || test.want == 101 &&
			resp.Header.Get("RateLimit") == "" {
			t.Errorf("%s: headers %v", test.name, resp.Header)
		}
		if test.want != 101 {
			if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("%s: media type %q", test.name, got)
			}
			continue
		}
		p := <-served
		if begun := <-begins; begun != strings.HasPrefix(test.name, "subscribing") {
			t.Errorf("%s: begins with a subscription: %v", test.name, begun)
		}
		if p == nil && test.account != "" || p != nil && p.Account != test.account {
			t.Errorf("%s: principal %+v", test.name, p)
		}
		if _, text, err := ws.ReadMessage(); err != nil || string(text) != "hello" {
			t.Errorf("%s: read %q, %v", test.name, text, err)
		}
	}
}

// TestFaultsOfASubscriptionAtTheHandshake have the names of the parameters, and come all at once.
func TestFaultsOfASubscriptionAtTheHandshake(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	const head = "/ws/dashboard?last_event_id=yesterday&channels=signals.new,market.price&api_key="
	for key, want := range map[string]string{
		"key": `"parameter":"channels","code":"invalid_value","detail":"no channel \"signals.new\" (did you mean ` +
			`signal.new?): must be one of: signal.new, `,
		"": `"parameter":"channels","code":"invalid_value","detail":"needs a credential in the handshake: `,
	} {
		a := do(t, s, "GET", head+key, "", "Authorization:", "Connection: Upgrade", "Upgrade: websocket",
			"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
		faults := []string{"query channels invalid_value", "query last_event_id invalid_value"}
		if d := cmp.Diff(faults, a.faults(t)); d != "" || a.Status != 400 || !strings.Contains(a.Body, want) {
			t.Errorf("%q: %d %s (-want +got):\n%s", key, a.Status, a.Body, d)
		}
	}
}

// TestASubscriptionThatTheHubRefuses is refused before the upgrade.
func TestASubscriptionThatTheHubRefuses(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{refusal: "no such asset"})
	a := do(t, s, "GET", "/ws/dashboard?assets=BTCC&api_key=key", "", "Authorization:", "Connection: Upgrade",
		"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
	if a.Status != 400 || !strings.Contains(a.Body, `{"parameter":"assets","code":"invalid_value","detail":"no such asset"}`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestRefusedHandshakes(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	a := do(t, s, "GET", "/ws/dashboard?api_key=key", "", "Authorization:")
	want := []string{"header Connection invalid_value", "header Upgrade invalid_value",
		"header Sec-WebSocket-Version invalid_value", "header Sec-WebSocket-Key invalid_format"}
	if d := cmp.Diff(want, a.faults(t)); d != "" || a.Status != 400 || a.Header.Get("Sec-Websocket-Version") != "13" {
		t.Errorf("%d (-want +got):\n%s", a.Status, d)
	}
	r := httptest.NewRequest("GET", "/ws/dashboard", nil)
	r.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"8"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 400 {
		t.Errorf("an old version: %d", w.Code)
	}
}
