package http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const eventsPath = "/v1/sse/dashboard"

// sayHello is a hub that sends one event and ends the connection.
func sayHello(conn dashboard.Conn, head []byte, _ *signal.Principal) (leave func()) {
	go func() {
		_, _ = conn.Write(append(head, "data: hello\n\n"...))
		_ = conn.Close()
	}()
	return func() {}
}

func TestEventStreams(t *testing.T) {
	t.Parallel()
	served, begins := make(chan *signal.Principal, 1), make(chan bool, 1)
	f := &fakes{begins: func(first *dashboard.Subscription) { begins <- first != nil }}
	f.events = func(conn dashboard.Conn, head []byte, p *signal.Principal) func() {
		served <- p
		return sayHello(conn, head, p)
	}
	s := newServer(t, f, func(o *config) { o.CORSOrigins = []string{"https://app.example.com"} })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	listed, foreign := "https://app.example.com", "https://evil.example.com"
	last := http.Header{"Last-Event-Id": {"1795253400000-0"}}
	tests := []struct {
		name, query string
		header      http.Header
		want        int
	}{
		{"by the query", "api_key=key", nil, 200},
		{"by a JWT in the query", "token=jwt", nil, 200},
		{"by the header", "", http.Header{"Authorization": {"Bearer key"}}, 200},
		{"without a credential", "", nil, 401},
		{"by none, as there is no first message", "api_key=", nil, 401},
		{"an invalid key", "api_key=wrong", nil, 401},
		{"two keys", "api_key=key&token=key", nil, 401},
		{"an invalid header", "api_key=key", http.Header{"Authorization": {"Bearer wrong"}}, 401},
		{"a listed origin", "api_key=key", http.Header{"Origin": {listed}}, 200},
		{"its own origin", "api_key=key", http.Header{"Origin": {server.URL}}, 200},
		{"a foreign origin", "api_key=key", http.Header{"Origin": {foreign}}, 403},
		{"a misspelt name", "api_key=key&asset=BTC", nil, 400},
		{"an unknown version", "api_key=key", http.Header{"X-Service-Version": {"nosuch"}}, 400},
		{"who accepts compression", "api_key=key", http.Header{"Accept-Encoding": {"gzip"}}, 200},
		{"subscribing", "api_key=key&channels=signal.new&assets=BTC,ETH&last_event_id=1795253400000-0", nil, 200},
		{"subscribing to none", "api_key=key&channels=", nil, 200},
		{"subscribing by coming back", "api_key=key", last, 200},
		{"subscribing by coming back, as before", "api_key=key&last_event_id=yesterday", last, 200},
		{"coming back to nothing", "api_key=key", http.Header{"Last-Event-Id": {""}}, 200},
		{"subscribing to what does not exist", "api_key=key&channels=signals.new", nil, 400},
		{"subscribing without a credential", "channels=signal.new", nil, 401},
	}
	for _, test := range tests {
		r := must(http.NewRequestWithContext(t.Context(), "GET", server.URL+eventsPath+"?"+test.query, nil))
		if test.header != nil {
			r.Header = test.header
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		h := answer.Header
		if answer.StatusCode != test.want || err != nil || h.Get("X-Request-Id") == "" || h.Get("X-Service-Version") == "" {
			t.Errorf("%s: %d, %v, %v %s", test.name, answer.StatusCode, h, err, body)
			continue
		}
		if test.want != 200 {
			if got := h.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("%s: media type %q", test.name, got)
			}
			continue
		}
		if string(body) != "data: hello\n\n" || answer.ContentLength != -1 || len(answer.TransferEncoding) > 0 || !answer.Close {
			t.Errorf("%s: %q, of length %d, %v", test.name, body, answer.ContentLength, answer.TransferEncoding)
		}
		_, dated := http.ParseTime(h.Get("Date"))
		if h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" ||
			h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Encoding") != "" || h.Get("RateLimit") == "" || dated != nil {
			t.Errorf("%s: headers %v", test.name, h)
		}
		if got := h.Get("Access-Control-Allow-Origin"); got == listed != (r.Header.Get("Origin") == listed) {
			t.Errorf("%s: allows the origin %q", test.name, got)
		}
		if p := <-served; p == nil || p.Account != accountID {
			t.Errorf("%s: principal %+v", test.name, p)
		}
		if begun := <-begins; begun != strings.HasPrefix(test.name, "subscribing") {
			t.Errorf("%s: begins with a subscription: %v", test.name, begun)
		}
	}
}

// TestFaultsOfAnEventStream name the header or the parameter that has them.
func TestFaultsOfAnEventStream(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	const path = eventsPath + "?channels=signals.new&last_event_id=yesterday"
	for header, fault := range map[string]string{
		"Last-Event-ID: today": "header Last-Event-ID invalid_value",
		"Last-Event-ID: ":      "query last_event_id invalid_value",
	} {
		a := do(t, s, "GET", path, "", header)
		if d := cmp.Diff([]string{"query channels invalid_value", fault}, a.faults(t)); d != "" || a.Status != 400 {
			t.Errorf("%s: %d (-want +got):\n%s", header, a.Status, d)
		}
	}
	a := do(t, newServer(t, &fakes{refusal: "no such asset"}), "GET", eventsPath+"?assets=BTCC", "")
	if d := cmp.Diff([]string{"query assets invalid_value"}, a.faults(t)); d != "" || a.Status != 400 {
		t.Errorf("%d (-want +got):\n%s", a.Status, d)
	}
}

// TestAClientOfHTTP10 gets the events, too.
func TestAClientOfHTTP10(t *testing.T) {
	t.Parallel()
	c := connect(t, serveOn(t, newServer(t, &fakes{events: sayHello})))
	fmt.Fprintf(c, "GET %s?api_key=key HTTP/1.0\r\n\r\n", eventsPath)
	if text, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(text), "\r\n\r\ndata: hello\n\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// overHTTP2 serves s by HTTP/2, and returns the answer to a request for its events. It is for a synctest bubble.
func overHTTP2(t *testing.T, f *fakes) (answer *http.Response, leave context.CancelFunc, shutdown func() error) {
	t.Helper()
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	own.Close()
	s := newServer(t, f, func(o *config) { o.TLS = &tls.Config{Certificates: own.TLS.Certificates} })
	ln := pipeListener{make(chan net.Conn), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			ln.conns <- far
			return near, nil
		}}
	ctx, leave := context.WithCancel(t.Context())
	r := must(http.NewRequestWithContext(ctx, "GET", "https://localhost"+eventsPath+"?api_key=key", nil))
	answer, err := client.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	h := answer.Header
	if answer.StatusCode != 200 || answer.ProtoMajor != 2 || h.Get("Content-Type") != "text/event-stream" ||
		h.Get("Connection") != "" {
		t.Errorf("%s %d, %v", answer.Proto, answer.StatusCode, h)
	}
	return answer, leave, func() error {
		err := errors.Join(s.Shutdown(t.Context()), <-served)
		leave()
		client.CloseIdleConnections()
		return err
	}
}

// pipeListener is a listener without a network.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error {
	close(l.ended)
	return nil
}

func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestEventsByHTTP2 outlast the time limits of answers, and end where their server ends.
func TestEventsByHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan dashboard.Conn, 1)
		answer, _, shutdown := overHTTP2(t, &fakes{events: func(conn dashboard.Conn, head []byte, _ *signal.Principal) func() {
			if len(head) > 0 {
				t.Errorf("head %q", head)
			}
			go func() { _, _ = conn.Write([]byte("retry: 1\n")); conns <- conn }()
			return func() {
				_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
				_, _ = conn.Write([]byte("event: close\n"))
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}
		}})
		conn, lines := <-conns, bufio.NewReader(answer.Body)
		if line, err := lines.ReadString('\n'); err != nil || line != "retry: 1\n" {
			t.Fatalf("%q, %v", line, err)
		}
		for n := range 3 {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := fmt.Fprintf(conn, "data: %d\n", n); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("%q, %v", line, err)
			}
			time.Sleep(time.Hour)
		}
		if err := shutdown(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(lines); err != nil || string(rest) != "event: close\n" {
			t.Errorf("the end: %q, %v", rest, err)
		}
		if _, err := conn.Write([]byte("late")); !errors.Is(err, net.ErrClosed) || conn.Close() != nil {
			t.Errorf("a write after the end: %v", err)
		}
	})
}

// TestEventsByHTTP2EndWithTheirClient: reading ends when it has left, and a write to one that does not read ends at its
// deadline or when the hub gives up.
func TestEventsByHTTP2EndWithTheirClient(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(conn dashboard.Conn, leave func()){
		"it has left":  func(_ dashboard.Conn, leave func()) { leave() },
		"the deadline": func(dashboard.Conn, func()) {},
		"the hub":      func(conn dashboard.Conn, _ func()) { _ = conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conns := make(chan dashboard.Conn, 1)
				begin := func(conn dashboard.Conn, _ []byte, _ *signal.Principal) func() {
					go func() { _, _ = conn.Write([]byte("retry: 1\n")); conns <- conn }()
					return func() {}
				}
				_, leave, shutdown := overHTTP2(t, &fakes{events: begin})
				conn, written, read := <-conns, make(chan error), make(chan error)
				go func() {
					_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
					_, err := conn.Write(make([]byte, 64<<20)) // more than a client that does not read gets
					written <- err
				}()
				go func() {
					_, err := conn.Read(make([]byte, 1))
					read <- err
				}()
				synctest.Wait()
				end(conn, leave)
				if err := <-written; err == nil {
					t.Error("all is written")
				}
				if err := <-read; !errors.Is(err, io.EOF) {
					t.Errorf("reading ends with %v", err)
				}
				_ = conn.Close()
				if err := shutdown(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// must returns v, or panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
