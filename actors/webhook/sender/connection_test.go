package sender

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// newCountingServer answers every request on every connection with the same answer, and counts both.
func newCountingServer(t *testing.T, answer string) (url string, connections, requests *atomic.Int32) {
	t.Helper()
	connections, requests = new(atomic.Int32), new(atomic.Int32)
	url = newRawServer(t, func(c *rawConn) {
		connections.Add(1)
		for c.readRequest() {
			requests.Add(1)
			c.write(answer)
		}
	})
	return url, connections, requests
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestConnectionsAreUsedAgainAfterWholeAnswers(t *testing.T) {
	t.Parallel()
	for _, want := range []struct {
		name, answer string
		status       int
		connections  int // for three attempts
	}{
		{"with a length", okAnswer, 200, 1},
		{"without a body", "HTTP/1.1 204 No Content\r\n\r\n", 204, 1},
		{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, 1},
		{"of a failure", "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", 503, 1},
		{"after interim answers", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + okAnswer, 200, 1},
		{"that says close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, 3},
		{"of HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, 3},
		{"with more behind it", okAnswer + "HTTP/1.1 500 Not Asked For\r\nContent-Length: 0\r\n\r\n", 200, 3},
		{"with as long a body as is read", "HTTP/1.1 200 OK\r\nContent-Length: 65535\r\n\r\n" +
			strings.Repeat("x", maxBodyRead-1), 200, 1},
		{"with a long body", "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70_000), 200, 3},
	} {
		url, connections, requests := newCountingServer(t, want.answer)
		sender := newSender(t, Options{})
		for range 3 {
			if r := sender.Send(t.Context(), anAttempt(url)); r.Status != want.status {
				t.Errorf("an answer %s: %+v", want.name, r)
			}
		}
		if c, n := int(connections.Load()), requests.Load(); c != want.connections || n != 3 {
			t.Errorf("an answer %s: %d connections for %d requests", want.name, c, n)
		}
	}
}

func TestUnusedConnectionsAreFew(t *testing.T) {
	t.Parallel()
	started, goOn := make(chan struct{}, 10), make(chan struct{})
	server := newServer(t, func(http.ResponseWriter, *http.Request) {
		started <- struct{}{}
		<-goOn
	})
	sender := newSender(t, Options{MaxIdlePerHost: 3})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if r := sender.Send(t.Context(), anAttempt(server.URL)); r.Status != 200 {
				t.Errorf("%+v", r)
			}
		})
	}
	for range 10 {
		<-started
	}
	close(goOn)
	wg.Wait()
	if n := sender.connections.count; n != 3 {
		t.Errorf("%d connections are kept, of at most 3", n)
	}
	sender.Close()
	if n := sender.connections.count; n != 0 {
		t.Errorf("%d connections are kept after the end", n)
	}
	if r := sender.Send(t.Context(), anAttempt(server.URL)); r.Status != 200 || sender.connections.count != 0 {
		t.Errorf("an attempt after the end: %+v, and %d connections are kept", r, sender.connections.count)
	}
}

func TestOldConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	url, _, _ := newCountingServer(t, okAnswer)
	sender := newSender(t, Options{})
	if r := sender.Send(t.Context(), anAttempt(url)); r.Status != 200 {
		t.Fatalf("%+v", r)
	}
	p := &sender.connections
	p.closeOld()
	if p.count != 1 || p.sweep == nil {
		t.Fatalf("%d connections are kept", p.count)
	}
	for _, list := range p.idle {
		list[0].since = time.Now().Add(-p.idleTimeout)
	}
	p.closeOld()
	if p.count != 0 || len(p.idle) != 0 || p.sweep != nil {
		t.Errorf("%d connections are kept, a sweep is scheduled: %v", p.count, p.sweep != nil)
	}
}

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com":                   "true example.com:443 example.com /",
		"https://example.com:443/":              "true example.com:443 example.com:443 /",
		"https://EXAMPLE.com/a%20b?c=d&e#f":     "true EXAMPLE.com:443 EXAMPLE.com /a%20b?c=d&e",
		"http://example.com:8080/a":             "false example.com:8080 example.com:8080 /a",
		"https://bücher.example/ü":              "true xn--bcher-kva.example:443 xn--bcher-kva.example /%C3%BC",
		"https://example.com/a b?c d=ü%20&é":    "true example.com:443 example.com /a%20b?c%20d=%C3%BC%20&%C3%A9",
		"https://example.com?":                  "true example.com:443 example.com /?",
		"http://[2001:db8::1]/":                 "false [2001:db8::1]:80 [2001:db8::1] /",
		"http://[2001:db8::1]:81/":              "false [2001:db8::1]:81 [2001:db8::1]:81 /",
		"ftp://example.com/":                    "",
		"http:///a":                             "",
		"http://a b/":                           "",
		"http://example.com/\r\nX-Injected: 1":  "",
		"//example.com/":                        "",
		"http://example.com:99999999999999999/": "false example.com:99999999999999999 example.com:99999999999999999 /",
	} {
		to, host, path, err := parseEndpoint(text)
		got := ""
		if err == nil {
			got = fmt.Sprintf("%v %s %s %s", to.secure, to.address, host, path)
		}
		if got != want {
			t.Errorf("%q: %q, want %q (%v)", text, got, want, err)
		}
	}
}

// Requests in flight are counted by host, however that is written and whatever the port.
func TestHostNames(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://Victim.Example/": "victim.example", "https://victim.example.:8443/": "victim.example",
		"http://[::ffff:127.0.0.1]/": "127.0.0.1", "ftp://victim.example/": "",
	} {
		if got := NewDestination(url, aSecret).HostName; got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// brokenConn panics when it is closed, or gets a deadline in the past.
type brokenConn struct{ net.Conn }

func (brokenConn) Close() error { panic("at a close") }

func (c brokenConn) SetDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		c.Conn.Close()
		panic("at a deadline")
	}
	return nil
}

func TestConnectionsThatPanicDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := New(Options{})
		p := &sender.connections
		here, there := net.Pipe()
		for _, c := range []net.Conn{brokenConn{}, here} {
			p.give(&connection{Conn: c, to: endpointAddress{address: "a:1"}})
		}
		time.Sleep(2 * p.idleTimeout)
		if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || p.count != 0 {
			t.Errorf("the connection after one that panics is not closed: %v, %d are kept", err, p.count)
		}
	})
}

func TestAnAttemptWhoseEndPanicsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &New(Options{}).connections
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		c := &connection{Conn: brokenConn{here}, to: endpointAddress{address: "a:1"}}
		c.answer = bufio.NewReader(c)
		p.give(c)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		defer func() {
			if reason := recover(); reason != "at a close" { // of the caller: an actor's goroutine recovers
				t.Errorf("it ended with %v", reason)
			}
		}()
		p.post(ctx, c.to, []byte("x"), time.Now().Add(time.Minute))
	})
}

func TestAnAddressAtWhichTheGuardPanicsIsRefused(t *testing.T) {
	t.Parallel()
	panicking := func(string, string, syscall.RawConn) error { panic("at an address") }
	control := recovering(slog.New(slog.DiscardHandler), panicking)
	if err := control("tcp6", "[fe80::1%lo]:80", nil); !errors.Is(err, panics.ErrPanicked) {
		t.Errorf("it is refused with %v", err)
	}
}
