package sender

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// A kept connection that the endpoint has closed, or on which it has sent something
// unasked, gets no request.
func TestAClosedConnectionGetsNoRequest(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *net.TCPConn){
		"closed": func(c *net.TCPConn) { c.CloseWrite() },
		"unasked answer": func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		},
	} {
		var connections, requests atomic.Int32
		answered, ended := make(chan struct{}), make(chan struct{})
		url := newRawServer(t, func(c *rawConn) {
			first := connections.Add(1) == 1
			for c.readRequest() {
				c.write(okAnswer)
				if requests.Add(1) == 1 && first {
					<-answered
					end(c.Conn.(*net.TCPConn))
					close(ended)
				}
			}
		})
		sender := newSender(t, Options{})
		if r := sender.Send(t.Context(), anAttempt(url)); r.Status != 200 {
			t.Fatalf("%s: %+v", name, r)
		}
		close(answered)
		<-ended // loopback: what was sent has arrived
		if r := sender.Send(t.Context(), anAttempt(url)); r.Status != 200 {
			t.Errorf("%s: %+v", name, r)
		}
		if c, n := connections.Load(), requests.Load(); c != 2 || n != 2 {
			t.Errorf("%s: %d requests over %d connections, want 2 over 2", name, n, c)
		}
	}
}

// A quiet connection is reused, including with TLS and after the deadline of the last
// attempt.
func TestAQuietConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	sender := newSender(t, Options{RootCAs: roots})
	for range 3 {
		if r := sender.Send(t.Context(), anAttempt(server.URL)); r.Status != 200 {
			t.Fatalf("%+v", r)
		}
		for _, list := range sender.connections.idle {
			list[0].SetDeadline(time.Unix(1, 0))
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
