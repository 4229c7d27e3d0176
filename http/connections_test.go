package http_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// serveOn runs a server on a loopback address, which it returns.
func serveOn(t *testing.T, s *signalhttp.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(t.Context()), <-served); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// peerConn is one connection of a client.
type peerConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func connect(t *testing.T, address string) *peerConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &peerConn{t, conn, bufio.NewReader(conn)}
}

// ask sends a request and returns the status and the body of its answer.
func (c *peerConn) ask(token string) (int, string) {
	c.t.Helper()
	fmt.Fprintf(c, "GET /v1/account HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (c *peerConn) want(token string, status int) {
	c.t.Helper()
	if got, body := c.ask(token); got != status {
		c.t.Errorf("with %q: %d %s, want %d", token, got, body, status)
	}
}

func TestConnectionsWithoutACredentialAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := signalhttp.NewMetrics(registry)
	address := serveOn(t, newServer(t, &fakes{},
		func(o *config) { o.MaxAnonymous, o.Metrics = 2, metrics }))
	first, second := connect(t, address), connect(t, address)
	first.want("wrong", 401)
	second.want("", 401)
	third := connect(t, address)
	status, body := third.ask("key")
	var p problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != 429 || p.Code != "rate_limited" {
		t.Errorf("one too many: %d %s, %v", status, body, err)
	}
	if _, err := third.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("it is not closed: %v", err)
	}
	if n, err := testutil.GatherAndCount(registry, "agentsignal_http_connections_refused_total"); err != nil || n != 1 {
		t.Errorf("%d counters, %v", n, err)
	}

	second.want("key", 200) // from now on it does not count
	second.want("wrong", 401)
	fourth := connect(t, address)
	fourth.want("wrong", 401)
	connect(t, address).want("key", 429)
	first.Close() // nor does one that has ended
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c := connect(t, address)
		if status, _ := c.ask("key"); status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a closed connection is not free again")
		}
	}
}

func TestTrustedProxiesAreNotBounded(t *testing.T) {
	t.Parallel()
	address := serveOn(t, newServer(t, &fakes{}, func(o *config) {
		o.MaxAnonymous, o.TrustedProxies = 1, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}))
	for range 3 {
		connect(t, address).want("wrong", 401)
	}
}

func TestConnectionsWithTLSAreBounded(t *testing.T) {
	t.Parallel()
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(own.Close)
	address := serveOn(t, newServer(t, &fakes{}, func(o *config) { o.MaxAnonymous, o.TLS = 1, own.TLS }))
	dial := func() (*tls.Conn, error) {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return conn, err
	}
	ask := func(conn *tls.Conn, token string) int {
		t.Helper()
		status, _ := (&peerConn{t, conn, bufio.NewReader(conn)}).ask(token)
		return status
	}
	first, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	if status := ask(first, "wrong"); status != 401 {
		t.Errorf("the first: %d", status)
	}
	if _, err := dial(); err == nil {
		t.Error("the second is not refused")
	}
	if status := ask(first, "key"); status != 200 {
		t.Errorf("with a credential: %d", status)
	}
	if _, err := dial(); err != nil {
		t.Errorf("beside one with a credential: %v", err)
	}
}

func TestStreamsThatWaitForACredentialAreBounded(t *testing.T) {
	t.Parallel()
	settled := make(chan func(), 10)
	f := &fakes{settle: func(f func()) { settled <- f }, serve: func(*websocket.Conn, *signal.Principal) {}}
	server := httptest.NewServer(newServer(t, f, func(o *config) { o.MaxAnonymous = 1 }).Handler())
	t.Cleanup(server.Close)
	open := func(path string, want int) {
		t.Helper()
		_, resp, _ := dial(t, server, path, nil)
		if resp == nil || resp.StatusCode != want {
			t.Fatalf("%s: %+v, want %d", path, resp, want)
		}
		if want == 429 && (resp.Header.Get("Retry-After") != "10" ||
			!strings.Contains(resp.Header.Get("Content-Type"), "problem")) {
			t.Errorf("headers %v", resp.Header)
		}
	}
	open("/ws/dashboard", 101)
	open("/ws/dashboard", 429)
	open("/ws/dashboard?api_key=key", 101) // with a credential
	(<-settled)()
	(<-settled)()
	open("/v1/ws/dashboard", 101)
	open("/v1/ws/dashboard", 429)
}

// TestAStreamThatIsNotOpenedDoesNotCount: a client that sends before it is answered loses its
// connection.
func TestAStreamThatIsNotOpenedDoesNotCount(t *testing.T) {
	t.Parallel()
	f := &fakes{serve: func(*websocket.Conn, *signal.Principal) {}}
	server := httptest.NewServer(newServer(t, f, func(o *config) { o.MaxAnonymous = 1 }).Handler())
	t.Cleanup(server.Close)
	early, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	fmt.Fprintf(early, "GET /ws/dashboard HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\ntoo early")
	if answer, err := io.ReadAll(early); strings.Contains(string(answer), " 101 ") {
		t.Fatalf("answered %q, %v", answer, err)
	}
	for until := time.Now().Add(10 * time.Second); ; {
		_, resp, _ := dial(t, server, "/ws/dashboard", nil)
		if resp != nil && resp.StatusCode == http.StatusSwitchingProtocols {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the next stream: %+v", resp)
		}
	}
}
