package api

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestBadInputIsRefusedAndLeavesNothingBehind sends invalid input of all
// kinds to a process of its own, so that its goroutines and memory can be measured.
func TestBadInputIsRefusedAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redis := redistest.New(t)
	c := e2e.LaunchReady(t, e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "AUTH_JWT_KEYS="+e2e.SharedKeys,
		"DASHBOARD_AUTH_TIMEOUT=1s")...)
	e2e.NewMarket(t, redis.Client()).Open("ACME", "101.25")
	public := c.Client(t)
	email := e2e.NewEmail()
	public.Post("/v1/auth/register", e2e.CredentialsBody(email, e2e.Password)).Want(t, http.StatusCreated)
	user := public.With(public.Login(email, e2e.Password).Access)
	trader := user.With(user.Key("key", "").Secret)
	trader.AwaitRun("ACME", "momentum")
	before := settled(t, public, func(f footprint) bool { return f.connections == 0 })

	for range 2 { // a leak grows
		badBodies(t, trader, public, user)
		badQueries(t, trader)
		forgedTokens(t, public, user)
		badMessages(t, trader)
		badConnections(t, c.URL)
	}

	public.Base.CloseIdleConnections()
	settled(t, public, func(f footprint) bool {
		return f.goroutines <= before.goroutines+10 && f.heap <= 1.5*before.heap+16e6 &&
			f.descriptors <= before.descriptors+10 && f.connections == 0
	})
	made := trader.Run("ACME", "momentum")
	if p := trader.Signals("limit=1"); p.Signals[0].ID != made.ID {
		t.Errorf("the newest signal is %s, want %s", p.Signals[0].ID, made.ID)
	}
	trader.Dial()
}

// footprint is the resources that a process uses.
type footprint struct{ goroutines, heap, descriptors, connections float64 }

// settled polls the metrics until ok returns true.
func settled(tb testing.TB, public *e2e.Client, ok func(footprint) bool) footprint {
	tb.Helper()
	var f footprint
	tb.Cleanup(func() { tb.Logf("last footprint: %+v", f) })
	e2e.Eventually(tb, "the process uses no more than it may", func() bool {
		text := public.Get("/metrics").Body
		// The goal of the next collection is twice the live heap of the last one.
		f = footprint{e2e.MetricOf(text, "go_goroutines"), e2e.MetricOf(text, "go_memstats_next_gc_bytes") / 2,
			e2e.MetricOf(text, "process_open_fds"), e2e.MetricOf(text, "agentsignal_ws_connections")}
		return ok(f)
	})
	return f
}

// badBodies sends bodies that are refused: 400, or 413 if they are too large.
func badBodies(t *testing.T, trader, public, user *e2e.Client) {
	t.Helper()
	good := e2e.RunBody("ACME", "momentum")
	for name, body := range map[string]string{
		"nothing": " ", "no JSON": "asset=ACME", "half": good[:len(good)-3], "two values": good + good,
		"trailing": good + "x",
		"an array": "[" + good + "]", "a string": `"run"`, "null": "null", "a number": "17", "true": "true",
		"deep arrays": strings.Repeat("[", 400_000), "deep objects": strings.Repeat(`{"asset":`, 100_000),
		"deep inside": `{"asset":"ACME","strategy":"momentum","parameters":` + strings.Repeat(`{"a":`, 50_000) + "1" +
			strings.Repeat("}", 50_001),
		"deep unknown":      `{"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}",
		"unknown":           `{"asset":"ACME","strategy":"momentum","colour":"blue"}`,
		"case":              `{"Asset":"ACME","strategy":"momentum"}`,
		"duplicate":         `{"asset":"ACME","asset":"ACME","strategy":"momentum"}`,
		"escaped duplicate": `{"asset":"ACME","\u0061sset":"ACME","strategy":"momentum"}`,
		"types": `{"asset":1,"strategy":["momentum"],"timeframe":{},` +
			`"risk_level":true,"async":"yes","parameters":[]}`,
		"zero":           "{\"asset\":\"AC\x00ME\",\"strategy\":\"momentum\"}",
		"escaped zero":   `{"asset":"AC\u0000ME","strategy":"momentum"}`,
		"bad UTF-8":      "{\"asset\":\"AC\xc3\x28ME\",\"strategy\":\"momentum\"}",
		"bad UTF-8 name": "{\"\xff\":1,\"asset\":\"ACME\",\"strategy\":\"momentum\"}",
		"lone surrogate": `{"asset":"\ud800","strategy":"momentum"}`, "BOM": "\ufeff" + good, "UTF-16": "{\x00\"\x00",
		"empty asset": e2e.RunBody("", "momentum"), "blank asset": e2e.RunBody("   ", "momentum"),
		"long asset":     e2e.RunBody(strings.Repeat("A", 65), "momentum"),
		"other strategy": e2e.RunBody("ACME", "blog_post"), "no such strategy": e2e.RunBody("ACME", "luck"),
		"NaN":     `{"asset":NaN,"strategy":"momentum"}`,
		"comment": `{"asset":"ACME",/**/"strategy":"momentum"}`, "comma": `{"asset":"ACME","strategy":"momentum",}`,
		"parameters":   e2e.RunBody("ACME", "momentum", `"parameters":{"region":"us"}`),
		"huge number":  `{"asset":"ACME","strategy":"momentum","async":1e999999}`,
		"many members": "{" + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`,
		"long string":  `{"asset":"` + strings.Repeat("A", 1_000_000) + `","strategy":"momentum"}`,
	} {
		short := body[:min(len(body), 60_000)]
		for what, a := range map[string]e2e.Answer{"a run": trader.Post("/v1/agents/trading/run", body),
			"a login": public.Post("/v1/auth/login", short), "a key": user.Post("/v1/auth/api-key", short)} {
			if p := e2e.Decode[e2e.Problem](t, a.Body); a.Status != http.StatusBadRequest ||
				what == "a run" && (p.Code != "invalid_request" || len(p.Errors) == 0) {
				t.Errorf("%s as %s: answered with %d %.300s", name, what, a.Status, a.Body)
			}
		}
	}
	for _, mediaType := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x",
		"application/jsonx", "nonsense"} {
		trader.Post("/v1/agents/trading/run", good, "Content-Type: "+mediaType).Fails(t, "unsupported_media_type")
	}
	trader.Post("/v1/agents/trading/run", good, "Content-Encoding: gzip").Fails(t, "unsupported_media_type")
	for _, key := range []string{strings.Repeat("k", 256), "\u00e9"} {
		trader.Post("/v1/agents/trading/run", good, "Idempotency-Key: "+key).Fails(t, "invalid_request")
	}
	trader.Post("/v1/agents/trading/run", good, "X-Service-Version: 1999-01-01").Fails(t, "invalid_request")
	trader.Post("/v1/agents/nobody/run", good).Fails(t, "not_found")
	trader.Post("/v1/agents/nobody/run", "{}").Fails(t, "invalid_request")

	large := `{"asset":"` + strings.Repeat("A", 8<<20) + `","strategy":"momentum"}`
	tooLarge(t, trader, "/v1/agents/trading/run", large)
	tooLarge(t, public, "/v1/auth/login", large[:70_000])
}

// tooLarge sends a body that is over the limit, with its length and without.
func tooLarge(t *testing.T, c *e2e.Client, path, body string) {
	t.Helper()
	for _, reader := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
		r, err := http.NewRequest(http.MethodPost, c.URL+path, reader)
		e2e.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+c.Token)
		w, err := c.HTTP.Do(r)
		if err != nil {
			continue // the connection was closed while the client was still sending
		}
		e2e.ReadAnswer(w).Fails(t, "body_too_large")
	}
	// A client with Expect: 100-continue is refused before it sends.
	conn := e2e.RawConn(t, c.URL)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, c.Token, len(body))
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("a body of %d bytes that is announced is not answered: %v", len(body), err)
	}
	e2e.ReadAnswer(w).Fails(t, "body_too_large")
	conn.Close()
}

// badQueries requests lists with invalid queries. The answer names the parameter.
func badQueries(t *testing.T, trader *e2e.Client) {
	t.Helper()
	for _, bad := range []string{"limit=0", "limit=101", "limit=-1", "limit=1.5", "limit=NaN",
		"limit=1e1", "limit=0x10", "limit=+5", "limit=99999999999999999999",
		"limit=%00", "limit=1&limit=1", "limit=%zz", "limit=%ff", "offset=-1", "offset=x", "offset=1.0",
		"offset=0&offset=1", "min_confidence=NaN",
		"min_confidence=Infinity", "min_confidence=-0.1", "min_confidence=1.0001", "min_confidence=1e400",
		"min_confidence=.5", "min_confidence=0x1p-2",
		"direction=up", "direction=LONG", "direction=long&direction=short", "strategy=luck", "status=gone",
		"agent_id=nobody", "since=yesterday",
		"since=2026-13-01", "since=2026-02-30T00:00:00Z", "since=1795253400", "since=2026-11-21T09:30:00%2B99:00",
		"asset=" + strings.Repeat("A", 65), "asset=%00", "asset=%c3%28", "assets=BTC", "unknown=1&unknown=2"} {
		name, _, _ := strings.Cut(bad, "=")
		p := trader.Get("/v1/signals?"+bad).Fails(t, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Parameter != name {
			t.Errorf("%s: the faults are %+v", bad, p.Errors)
		}
	}
	p := trader.Get("/v1/signals?limit=0&offset=-1&direction=up&min_confidence=2&since=x&unknown=1").
		Fails(t, "invalid_request")
	if len(p.Errors) != 6 {
		t.Errorf("of six faults are listed: %+v", p.Errors)
	}
	for _, fine := range []string{"limit=", "offset=99999999999999999999999999", "min_confidence=0.0",
		"since=2026-11-21", "asset=nosuch"} {
		trader.Get("/v1/signals?" + fine).Ok(t)
	}
	for _, path := range []string{"/v1/jobs?status=done", "/v1/jobs?limit=101", "/v1/signals/weather?region=mars",
		"/v1/signals/weather?limit=101", "/v1/agents?category=sports", "/v1/agents?status=x"} {
		trader.Get(path).Fails(t, "invalid_request")
	}
	for _, path := range []string{"/v1/signals/", "/v1//signals", "/signals", "/v1/SIGNALS", "/v1/signals/sig_x",
		"/v1/signals/../signals", "/v1/signals/%2e%2e",
		"/v1/signals/" + strings.Repeat("A", 4000), "/v1/jobs/job_" + strings.Repeat("Z", 26), "/v1/signals/%00",
		"/v1/agents/%F0%9F%92%A9", "/v2/signals", "/.git/config"} {
		trader.Get(path).Fails(t, "not_found")
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "TRACE", "BREW"} {
		trader.Do(method, "/v1/signals", "").Fails(t, "method_not_allowed")
	}
}

// forgedTokens sends invalid credentials.
func forgedTokens(t *testing.T, public, user *e2e.Client) {
	t.Helper()
	key := []byte("0123456789abcdef0123456789abcdef")
	var claims jwt.MapClaims
	parsed, _, err := jwt.NewParser().ParseUnverified(user.Token, &claims)
	e2e.Must(t, err)
	kid := parsed.Header["kid"]
	forge := func(method jwt.SigningMethod, key any, header, change map[string]any) string {
		all := jwt.MapClaims{}
		for name, value := range claims {
			all[name] = value
		}
		for name, value := range change {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		token := jwt.NewWithClaims(method, all)
		token.Header["kid"] = kid
		for name, value := range header {
			if token.Header[name] = value; value == nil {
				delete(token.Header, name)
			}
		}
		text, err := token.SignedString(key)
		e2e.Must(t, err)
		return text
	}
	same := forge(jwt.SigningMethodHS256, key, nil, nil)
	public.With(same).Get("/v1/account").Ok(t) // so the change is what is refused below

	now := time.Now().Unix()
	type m = map[string]any
	head, body, _ := strings.Cut(user.Token, ".")
	body, signature, _ := strings.Cut(body, ".")
	forged := map[string]string{
		"no algorithm":     forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, nil),
		"HS512":            forge(jwt.SigningMethodHS512, key, nil, nil),
		"another key":      forge(jwt.SigningMethodHS256, []byte("fedcba9876543210fedcba9876543210"), nil, nil),
		"an empty key":     forge(jwt.SigningMethodHS256, []byte{}, nil, nil),
		"unknown kid":      forge(jwt.SigningMethodHS256, key, m{"kid": "other"}, nil),
		"no kid":           forge(jwt.SigningMethodHS256, key, m{"kid": nil}, nil),
		"kid is a path":    forge(jwt.SigningMethodHS256, key, m{"kid": "../../dev/null"}, nil),
		"kid is a number":  forge(jwt.SigningMethodHS256, key, m{"kid": 1}, nil),
		"crit":             forge(jwt.SigningMethodHS256, key, m{"crit": []string{"exp"}}, nil),
		"jwk":              forge(jwt.SigningMethodHS256, key, m{"jwk": m{"kty": "oct", "k": "AA"}}, nil),
		"other issuer":     forge(jwt.SigningMethodHS256, key, nil, m{"iss": "eve"}),
		"no issuer":        forge(jwt.SigningMethodHS256, key, nil, m{"iss": nil}),
		"other audience":   forge(jwt.SigningMethodHS256, key, nil, m{"aud": "eve"}),
		"no audience":      forge(jwt.SigningMethodHS256, key, nil, m{"aud": nil}),
		"expired":          forge(jwt.SigningMethodHS256, key, nil, m{"exp": now - 1}),
		"no expiry":        forge(jwt.SigningMethodHS256, key, nil, m{"exp": nil}),
		"expiry is text":   forge(jwt.SigningMethodHS256, key, nil, m{"exp": "never"}),
		"not yet":          forge(jwt.SigningMethodHS256, key, nil, m{"nbf": now + 120}),
		"issued later":     forge(jwt.SigningMethodHS256, key, nil, m{"iat": now + 120}),
		"no subject":       forge(jwt.SigningMethodHS256, key, nil, m{"sub": nil}),
		"other account":    forge(jwt.SigningMethodHS256, key, nil, m{"sub": string(signal.NewAccountID())}),
		"unknown session":  forge(jwt.SigningMethodHS256, key, nil, m{"sid": signal.NewSessionIDAt(time.Now())}),
		"no session":       forge(jwt.SigningMethodHS256, key, nil, m{"sid": nil}),
		"changed body":     head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + "." + signature,
		"no signature":     head + "." + body + ".",
		"half a signature": user.Token[:len(user.Token)-10], "padded": user.Token + "==",
		"two parts":  head + "." + body,
		"four parts": user.Token + ".x",
		"dots":       "...", "garbage": "\x01\x02", "long": strings.Repeat("a", 8000), "a space": user.Token + " x",
		"quoted":      `"` + user.Token + `"`,
		"unknown key": e2e.UnknownKey(), "key without its check digits": e2e.UnknownKey()[:44],
		"key with a typing error": e2e.UnknownKey()[:49] + "!",
		"refresh token":           e2e.RefreshForm, "prefix": "ask_", "password": e2e.Password,
	}
	for name, token := range forged {
		if name == "garbage" {
			continue // the client itself refuses to send it: see badConnections
		}
		a := public.With(token).Get("/v1/account")
		if p := e2e.Decode[e2e.Problem](t, a.Body); a.Status != http.StatusUnauthorized || p.Code != "invalid_token" {
			t.Errorf("%s: answered with %d %s", name, a.Status, a.Body)
		}
		if _, refused, err := public.With(token).TryDial(http.Header{}); err == nil || refused == nil ||
			refused.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s opens a stream: %v", name, err)
		}
	}
	for _, header := range []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+e2e.Password)), "Bearer",
		"Bearer ", user.Token, "Token " + user.Token, "bearer\t" + user.Token} {
		public.Get("/v1/account", "Authorization: "+header).Fails(t, "invalid_token")
	}
	public.Get("/v1/account", "Authorization: Bearer "+user.Token, "Authorization: Bearer "+user.Token).
		Fails(t, "invalid_token")
	public.Get("/v1/account", "Cookie: token="+user.Token).Fails(t, "missing_credentials")
	public.Get("/v1/account?api_key="+url.QueryEscape(user.Token)).Fails(t, "missing_credentials")
	public.Get("/v1/account", "Authorization: bEARER "+user.Token).Ok(t)
}

// badMessages sends invalid messages on streams.
func badMessages(t *testing.T, trader *e2e.Client) {
	t.Helper()
	for _, wrong := range []struct{ text, code string }{
		{"", "invalid_message"}, {"hello", "invalid_message"}, {"[]", "invalid_message"}, {"null", "invalid_message"},
		{"{}", "invalid_message"},
		{`{"action":1}`, "invalid_message"}, {`{"action":"dance"}`, "unknown_action"},
		{`{"action":"ping","x":1}`, "invalid_message"},
		{`{"action":"subscribe","channels":["signal.old"]}`, "unknown_channel"},
		{`{"action":"subscribe","channels":"signal.new"}`, "invalid_message"},
		{`{"action":"subscribe","filters":{"asset":["BTC"]}}`, "invalid_filter"},
		{`{"action":"subscribe","filters":{"assets":[""]}}`, "invalid_filter"},
		{`{"action":"subscribe","filters":{"assets":[` + strings.Repeat(`"A",`, 100) + `"A"]}}`, "invalid_filter"},
		{`{"action":"subscribe","last_event_id":7}`, "invalid_message"},
		{`{"action":"ping","ref":"` + strings.Repeat("r", 65) + `"}`, "invalid_message"},
		{strings.Repeat("[", 16_000), "invalid_message"}, {`{"action":"ping"}{"action":"ping"}`, "invalid_message"},
		{`{"action":"auth"}`, "invalid_message"},
	} {
		live := trader.Dial()
		live.SendRaw(websocket.TextMessage, wrong.text)
		m := live.Await("an error", func(m e2e.Message) bool { return m.Type == "error" })
		var e struct{ Code string }
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Code != wrong.code {
			t.Errorf("%.100q is answered with %s, want %s", wrong.text, m.Data, wrong.code)
		}
		live.Ping() // an error changes nothing
		live.WS.Close()
	}
	for name, end := range map[string]struct {
		code  int
		early bool // without a credential
		do    func(s *e2e.Stream)
	}{
		"binary":    {1003, false, func(s *e2e.Stream) { s.SendRaw(websocket.BinaryMessage, "x") }},
		"bad UTF-8": {1007, false, func(s *e2e.Stream) { s.SendRaw(websocket.TextMessage, "\"\xc3\x28\"") }},
		"too large": {1009, false, func(s *e2e.Stream) { s.SendRaw(websocket.TextMessage, strings.Repeat("x", 16<<10+1)) }},
		"ten errors": {4400, false, func(s *e2e.Stream) {
			for range 10 {
				s.SendRaw(websocket.TextMessage, "x")
			}
		}},
		"a flood":       {4429, false, func(s *e2e.Stream) { flood(s) }},
		"no mask":       {1002, false, func(s *e2e.Stream) { s.WS.NetConn().Write([]byte{0x81, 1, 'x'}) }},
		"reserved bits": {1002, false, func(s *e2e.Stream) { s.WS.NetConn().Write([]byte{0xf1, 0x80, 0, 0, 0, 0}) }},
		"bad opcode":    {1002, false, func(s *e2e.Stream) { s.WS.NetConn().Write([]byte{0x83, 0x80, 0, 0, 0, 0}) }},
		"bye": {1000, false, func(s *e2e.Stream) {
			s.WS.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Time{})
		}},
		"bad credential": {4401, true, func(s *e2e.Stream) {
			s.Send(`{"action":"auth","api_key":"` + e2e.UnknownKey() + `"}`)
		}},
		"no credential": {4401, true, func(*e2e.Stream) {}}, // in time
	} {
		who := trader
		if end.early {
			who = trader.With("")
		}
		live := who.Dial()
		end.do(live)
		if code := live.Closing(); code != end.code {
			t.Errorf("%s closes with %d, want %d", name, code, end.code)
		}
	}
	early := trader.With("").Dial()
	early.Send(`{"action":"ping"}`)
	early.Await("auth is required", func(m e2e.Message) bool {
		return m.Type == "error" && bytes.Contains(m.Data, []byte("auth_required"))
	})
	early.Send(`{"action":"auth","api_key":"` + trader.Token + `"}`)
	early.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
	early.WS.Close()
}

// flood sends messages until writing to the connection fails.
func flood(s *e2e.Stream) {
	for range 200 {
		if s.WS.WriteMessage(websocket.TextMessage, []byte(`{"action":"ping"}`)) != nil {
			return
		}
	}
}

// badConnections sends invalid and incomplete HTTP.
func badConnections(t *testing.T, address string) {
	t.Helper()
	for name, test := range map[string]struct{ text, status string }{
		"noise": {"\x16\x03\x01\x02\x00\x01\x00", "400"}, "no HTTP": {"HELO there\r\n\r\n", "400"},
		"no host":       {"GET /healthz HTTP/1.1\r\n\r\n", "400"},
		"a long header": {"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		"two lengths": {"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
			"400"},
		"both framings": {"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"},
		"bad chunk": {"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\n" +
			"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", "400"},
		"zero in token": {"GET /v1/account HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \x01\x00\r\n\r\n", "400"},
	} {
		conn := e2e.RawConn(t, address)
		io.WriteString(conn, test.text)
		conn.(*net.TCPConn).CloseWrite()
		if got := e2e.UntilEnd(conn); !strings.HasPrefix(got, "HTTP/1.1 "+test.status+" ") &&
			!(test.status == "431" && got == "") {
			t.Errorf("%s is answered with %.300q, want %s", name, got, test.status)
		}
	}
	for range 20 { // clients that leave in the middle
		conn := e2e.RawConn(t, address)
		io.WriteString(conn, "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"email\":")
		conn.Close()
	}
}
