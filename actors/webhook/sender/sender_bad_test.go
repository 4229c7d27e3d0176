package sender

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
)

// rawConn is the server's side of a connection. Its methods return false once the client
// has disconnected.
type rawConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *rawConn) readRequest() bool {
	r, err := http.ReadRequest(c.reader)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func (c *rawConn) write(s string) bool {
	_, err := io.WriteString(c, s)
	return err == nil
}

// trickle writes s for ever, a piece at a time, more slowly than any timeout.
func (c *rawConn) trickle(s string) {
	for c.write(s) {
		time.Sleep(50 * time.Millisecond)
	}
}

// reset closes the connection with a TCP reset.
func (c *rawConn) reset() {
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// newRawServer starts a server without HTTP, and returns its URL. Connections are closed
// when serve returns.
func newRawServer(tb testing.TB, serve func(*rawConn)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(&rawConn{conn, bufio.NewReader(conn)})
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	// after answers a request with s, and then waits for the client to disconnect.
	after := func(s string) func(*rawConn) {
		return func(c *rawConn) {
			if c.readRequest() && c.write(s) {
				c.readRequest()
			}
		}
	}
	// reads reads a request before it calls f.
	reads := func(f func(*rawConn)) func(*rawConn) {
		return func(c *rawConn) {
			c.readRequest()
			f(c)
		}
	}
	type outcome struct{ class, error, body string }
	broken, timedOut := outcome{ClassConnection, "connection failed", ""}, outcome{ClassTimeout, "timeout", ""}
	ok := func(body string) outcome { return outcome{ClassSuccess, "", body} }
	const started, length9 = "HTTP/1.1 200 OK\r\n", "Content-Length: 9\r\n\r\n"
	const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
	const two = started + "Content-Length: 2\r\n\r\nok"
	large := func(n int) string {
		return started + "A: " + strings.Repeat("b", n) + "\r\nContent-Length: 0\r\n\r\n"
	}
	writes := func(s string) func(*rawConn) { return reads(func(c *rawConn) { c.write(s) }) }
	tests := []struct {
		name  string
		serve func(*rawConn)
		want  outcome
	}{
		{"nothing, for ever", func(c *rawConn) { io.Copy(io.Discard, c) }, timedOut},
		{"a close", func(c *rawConn) { c.readRequest() }, broken},
		{"a close before the request is read", func(*rawConn) {}, broken},
		{"a reset", reads(func(c *rawConn) { c.reset() }), broken},
		{"a reset within the headers", reads(func(c *rawConn) { c.write(started + "A: b\r\n"); c.reset() }), broken},
		{"a close within the status line", reads(func(c *rawConn) { c.write("HTTP/1.1 20") }), broken},

		{"another protocol", after("SSH-2.0-OpenSSH_9.2\r\n\r\n"), broken},
		{"bytes of no protocol", after("\x00\x01\x02\xff\xfe\r\n\r\n"), broken},
		{"a status that is not a number", after("HTTP/1.1 abc OK\r\n\r\n"), broken},
		{"a status of four digits", after("HTTP/1.1 2000 OK\r\n\r\n"), broken},
		{"a status that is negative", after("HTTP/1.1 -20 OK\r\n\r\n"), broken},
		{"the status zero", after("HTTP/1.1 000 OK\r\n\r\n"), broken},
		{"a header without a colon", after(started + "garbage\r\n\r\n"), broken},
		{"two lengths", after(started + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), broken},
		{"a length that is negative", after(started + "Content-Length: -1\r\n\r\n"), broken},
		{"an unknown transfer encoding", after(started + "Transfer-Encoding: x\r\n\r\n"), broken},
		{"another protocol by 101", after(upgrade), outcome{ClassServerError, "status 101", ""}},

		{"a line without end, a byte at a time", reads(func(c *rawConn) { c.trickle("H") }), timedOut},
		{"a status line a byte at a time", reads(func(c *rawConn) {
			c.write("HTTP/1.1 200 ")
			c.trickle("O")
		}), timedOut},
		{"headers a line at a time, without end", reads(func(c *rawConn) {
			c.write(started)
			c.trickle("A: b\r\n")
		}), timedOut},
		{"headers at full speed, without end", reads(func(c *rawConn) {
			for ok := c.write(started); ok; ok = c.write(strings.Repeat("A: b\r\n", 1000)) {
			}
		}), broken},
		{"one header without end", reads(func(c *rawConn) {
			for ok := c.write(started + "A: "); ok; ok = c.write(strings.Repeat("b", 10000)) {
			}
		}), broken},
		{"headers just too large", after(large(maxHeaderBytes)), broken},
		{"headers near the limit", after(large(maxHeaderBytes - 200)), ok("")},

		{"100 before 200", after("HTTP/1.1 100 Continue\r\n\r\n" + two), ok("ok")},
		{"103 before 200", after("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + two), ok("ok")},
		{"100 and no more", after("HTTP/1.1 100 Continue\r\n\r\n"), timedOut},
		{"100 without end", reads(func(c *rawConn) {
			for c.write(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)) {
			}
		}), broken},

		{"204", after("HTTP/1.1 204 No Content\r\n\r\n"), ok("")},
		{"204 with a body", after("HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nbody"), ok("")},
		{"410", after("HTTP/1.1 410 No\r\nContent-Length: 2\r\n\r\nno"), outcome{ClassClientError, "status 410", "no"}},
		{"a body that ends with the connection", writes("HTTP/1.0 200 OK\r\n\r\nold"), ok("old")},
		{"a body shorter than its length", writes(started + length9 + "half"), ok("half")},
		{"a body and a reset", reads(func(c *rawConn) { c.write(started + length9); c.reset() }), ok("")},
		{"a body that does not come", after(started + length9 + "ha"), ok("ha")},
		{"a body in broken chunks", after(started + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n"), ok("ok")},
		{"a compressed body", after(started + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8bz"),
			ok("\x1f\ufffdz")},
		{"a body that does not come, with a failure", after("HTTP/1.1 503 No\r\nRetry-After: 7\r\n" + length9 + "bu"),
			outcome{ClassServerError, "status 503", "bu"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sender := newSender(t, Options{Timeout: time.Second})
			got := sender.Send(t.Context(), anAttempt(newRawServer(t, test.serve)))
			if (outcome{got.Class, got.Error, got.Body}) != test.want {
				t.Errorf("got %s, error %q, body %.100q", got.Class, got.Error, got.Body)
			}
			if (got.Status == 0) != (got.Class == ClassConnection || got.Class == ClassTimeout) {
				t.Errorf("status %d", got.Status)
			}
		})
	}
}

func TestAGigabyteIsNotRead(t *testing.T) {
	t.Parallel()
	const gigabyte = 1 << 30
	written := make(chan int, 1)
	url := newRawServer(t, func(c *rawConn) {
		c.readRequest()
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
		piece, n := strings.Repeat("x", 1<<16), 0
		for n < gigabyte && c.write(piece) {
			n += len(piece)
		}
		written <- n
	})
	got := newSender(t, Options{}).Send(t.Context(), anAttempt(url))
	if got.Class != ClassSuccess || got.Body != strings.Repeat("x", delivery.MaxResponseBody) {
		t.Errorf("got %s, error %q, %d bytes", got.Class, got.Error, len(got.Body))
	}
	// Buffers of the sockets take some megabytes.
	if n := <-written; n > gigabyte/16 {
		t.Errorf("the server could write %d bytes", n)
	}
}

func TestAByteASecondIsASuccess(t *testing.T) {
	t.Parallel()
	url := newRawServer(t, func(c *rawConn) {
		c.readRequest()
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		c.trickle("x")
	})
	got := newSender(t, Options{Timeout: time.Second}).Send(t.Context(), anAttempt(url))
	if got.Class != ClassSuccess || got.Error != "" || strings.Trim(got.Body, "x") != "" || got.Body == "" {
		t.Errorf("got %s, error %q, body %q", got.Class, got.Error, got.Body)
	}
}

// certificate makes one of its own for 127.0.0.1.
func certificate(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	change(&template)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestBadTLS(t *testing.T) {
	t.Parallel()
	good := func(*x509.Certificate) {}
	tests := []struct {
		name    string
		change  func(*x509.Certificate)
		config  *tls.Config // nil for the default
		unknown bool        // to the sender
	}{
		{"a good certificate", good, nil, false},
		{"an unknown certificate", good, nil, true},
		{"a certificate for another host", func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"example.com"}
		}, nil, false},
		{"an expired certificate", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, nil, false},
		{"an old version", good, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"another protocol", good, &tls.Config{NextProtos: []string{"smtp"}}, false},
		{"a request for a client certificate", good, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cert := certificate(t, test.change)
			config := cmp.Or(test.config, &tls.Config{}).Clone()
			config.Certificates = []tls.Certificate{cert}
			l, err := tls.Listen("tcp", "127.0.0.1:0", config)
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
			server.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			go server.Serve(l)
			defer server.Close()
			known := x509.NewCertPool()
			if !test.unknown {
				known.AddCert(cert.Leaf)
			}
			got := newSender(t, Options{RootCAs: known}).Send(t.Context(), anAttempt("https://"+l.Addr().String()))
			class, text := ClassTLS, "TLS failed"
			if test.name == "a good certificate" {
				class, text = ClassSuccess, ""
			}
			if got.Class != class || got.Error != text {
				t.Errorf("got %s, error %q", got.Class, got.Error)
			}
		})
	}
}

func TestPeersWithoutTLS(t *testing.T) {
	t.Parallel()
	plain := newServer(t, func(http.ResponseWriter, *http.Request) {})
	silent := newRawServer(t, func(c *rawConn) { io.Copy(io.Discard, c) })
	broken := newRawServer(t, func(c *rawConn) { c.Read(make([]byte, 1)); c.reset() })
	sender := newSender(t, Options{ConnectTimeout: time.Second})
	for url, want := range map[string]string{plain.URL: ClassTLS, silent: ClassTimeout, broken: ClassTLS} {
		got := sender.Send(t.Context(), anAttempt("https"+strings.TrimPrefix(url, "http")))
		if got.Class != want || got.Status != 0 {
			t.Errorf("got %s, error %q, want %s", got.Class, got.Error, want)
		}
	}
}

func TestAClosedPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	got := newSender(t, Options{}).Send(t.Context(), anAttempt("http://"+l.Addr().String()))
	if got.Class != ClassConnection || got.Error != "connection failed" {
		t.Errorf("got %s, error %q", got.Class, got.Error)
	}
}

// newDNS returns a resolver whose server gets the address of a name from answer, which
// returns false for an unknown name.
func newDNS(t *testing.T, answer func(name string) (netip.Addr, bool)) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if reply := dnsReply(b[:n], answer); reply != nil {
				conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func dnsReply(query []byte, answer func(name string) (netip.Addr, bool)) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		if a, ok := answer(q.Name.String()); ok {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: a.As4()},
			}}
		} else {
			m.RCode = dnsmessage.RCodeNameError
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func TestAHostThatVanished(t *testing.T) {
	t.Parallel()
	resolver := newDNS(t, func(string) (netip.Addr, bool) { return netip.Addr{}, false })
	got := newSender(t, Options{Resolver: resolver}).Send(t.Context(), anAttempt("https://hooks.example.com./"))
	if got.Class != ClassDNS || got.Error != "host not found" {
		t.Errorf("got %s, error %q", got.Class, got.Error)
	}
}

func TestANameServerThatIsSilent(t *testing.T) {
	t.Parallel()
	resolver := newDNS(t, func(string) (netip.Addr, bool) {
		<-t.Context().Done()
		return netip.Addr{}, false
	})
	s := newSender(t, Options{Resolver: resolver, ConnectTimeout: 50 * time.Millisecond})
	got := s.Send(t.Context(), anAttempt("https://hooks.example.com./"))
	if got.Class != ClassTimeout || got.Error != "timeout" {
		t.Errorf("got %s, error %q", got.Class, got.Error)
	}
}

// The address of a name may be public when it is registered and private when it is dialled.
func TestANameThatBecomesPrivate(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	for _, inside := range []string{"127.0.0.1", "169.254.169.254", "168.63.129.16"} {
		var registered atomic.Bool
		resolver := newDNS(t, func(string) (netip.Addr, bool) {
			if registered.Load() {
				return netip.MustParseAddr(inside), true
			}
			return netip.MustParseAddr("93.184.215.14"), true
		})
		guard := guard.New(guard.Options{AllowHTTP: true, Resolver: resolver})
		sender := newSender(t, Options{Guard: guard, Resolver: resolver})
		for _, scheme := range []string{"http", "https"} {
			registered.Store(false)
			url := scheme + "://hooks.example.com.:" + port + "/"
			if err := guard.CheckURL(t.Context(), url); err != nil {
				t.Fatalf("register %s: %v", url, err)
			}
			registered.Store(true)
			got := sender.Send(t.Context(), anAttempt(url))
			if got.Class != ClassBlocked || got.Error != "host not found" {
				t.Errorf("%s, now %s: got %s, error %q", url, inside, got.Class, got.Error)
			}
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	other := newServer(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, location := range []string{"http://169.254.169.254/latest/meta-data/", other.URL, "/", "://"} {
		var requests atomic.Int32
		server := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		})
		got := newSender(t, Options{}).Send(t.Context(), anAttempt(server.URL))
		if got.Class != ClassRedirect || got.Error != "status 302" || requests.Load() != 1 || reached.Load() != 0 {
			t.Errorf("to %q: got %s, error %q after %d requests", location, got.Class, got.Error, requests.Load())
		}
	}
}

func TestASenderReachesPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	plain := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("this machine was reached") })
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	sender := New(Options{ConnectTimeout: time.Second})
	defer sender.Close()
	at := func(host string) string { return strings.Replace(plain.URL, "127.0.0.1", host, 1) }
	for _, url := range []string{
		plain.URL, secure.URL, at("localhost"), at("[::ffff:127.0.0.1]"), "http://169.254.169.254/",
		"http://93.184.215.14/", "http://[::1%25lo]:8080/", "https://93.184.215.14:25/", "nonsense\x00",
	} {
		got := sender.Send(t.Context(), anAttempt(url))
		if got.Class != ClassBlocked || got.Error != "address not allowed" {
			t.Errorf("%s: got %s, error %q", url, got.Class, got.Error)
		}
	}
}

// A request to a name of an internal address ends like one to a name that does not exist.
func TestANameInsideEndsLikeAnUnknownOne(t *testing.T) {
	t.Parallel()
	resolver := newDNS(t, func(name string) (netip.Addr, bool) {
		return netip.MustParseAddr("10.0.0.1"), strings.HasPrefix(name, "inside.")
	})
	s := newSender(t, Options{Guard: guard.New(guard.Options{AllowHTTP: true}), Resolver: resolver})
	inside := s.Send(t.Context(), anAttempt("http://inside.example.com./"))
	unknown := s.Send(t.Context(), anAttempt("http://other.example.com./"))
	if inside.Error != unknown.Error || inside.Class != ClassBlocked || unknown.Class != ClassDNS {
		t.Errorf("internal: %s (%s), unknown: %s (%s)", inside.Error, inside.Class, unknown.Error, unknown.Class)
	}
}
