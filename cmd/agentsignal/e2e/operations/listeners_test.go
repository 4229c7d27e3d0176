package operations

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheDemoShowsSignalsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var keys []string
	for _, round := range []string{"first", "second", "third"} {
		c := e2e.LaunchArgs(t, []string{"serve", "--demo"}, "DATA_DIR="+dir)
		c.AwaitReady(t)
		var key string
		e2e.Eventually(t, "the key is printed", func() bool {
			_, rest, found := strings.Cut(c.Log.String(), "API key   ")
			key, _, _ = strings.Cut(rest, "\n")
			return found && strings.Contains(rest, "\n")
		})
		trader := c.Client(t).With(strings.TrimSpace(key))
		e2e.Eventually(t, "a signal is there", func() bool { return trader.Signals("").Total > 0 })
		e2e.Eventually(t, "the agent on this machine is asked", func() bool {
			return trader.Signals("agent_id=moving_averages&limit=1").Total > 0 && trader.Post("/v1/agents/moving_averages/run",
				`{"asset":"SOL","strategy":"trend","timeframe":"5m"}`).Status == http.StatusOK
		})
		if round == "first" {
			e2e.Eventually(t, "a signal has closed", func() bool { return trader.Signals("status=closed").Total > 0 })
			_, password, _ := strings.Cut(c.Log.String(), "password  ")
			password, _, _ = strings.Cut(password, "\n")
			e2e.TryDocumentedRequests(t, trader, strings.TrimSpace(password))
			trader.Post("/v1/webhooks",
				`{"url":"http://127.0.0.1:61999","events":["signal.closed"],"secret":"a secret of the demo's user"}`).
				Ok(t)
		}
		if line := c.Log.Line("prices are simulated"); line != "" {
			t.Errorf("the demo logs %s", line)
		}
		if c.Log.Line("redis is started in the data directory", `"dir":"`+dir, fmt.Sprintf(`"new":%t`, round == "first")) == "" {
			t.Errorf("at the %s start its directory is not logged:\n%s", round, c.Log.Newest())
		}
		newOne := "account set-password --email demo@example.com --data-dir " + dir + ")"
		if again := strings.Contains(c.Log.String(), newOne); again != (round != "first") {
			t.Errorf("at the %s start it logs:\n%s", round, c.Log.Newest())
		}
		keys = append(keys, trader.Token)
		kept := filepath.Join(dir, "demo.key")
		info, err := os.Stat(kept)
		e2e.Must(t, err)
		if info.Mode().Perm() != 0o600 || !strings.Contains(c.Log.String(), "kept in   "+kept+"\n") {
			t.Errorf("the key is kept with mode %v; it logs:\n%s", info.Mode(), c.Log.Newest())
		}
		// A command finds the key there.
		own := e2e.Operator(t, "--data-dir", dir)
		if out := own.Do("tail", "--url", c.URL, "--json", "--channels", "signal.new", "-n", "1"); !strings.Contains(out,
			"sig_") {
			t.Errorf("tail prints %q", out)
		}
		switch round {
		case "second":
			if keys[1] != keys[0] {
				t.Error("the key is another one after a restart")
			}
			// The file of a key that is not the demo's own is not used.
			foreign := e2e.Decode[e2e.KeyJSON](t, own.Do("key", "create", "--email", "demo@example.com", "--name", "another"))
			e2e.Must(t, os.WriteFile(kept, []byte(foreign.APIKey), 0o600))
		case "third":
			if slices.Contains(keys[:2], keys[2]) {
				t.Error("a key is used that is not the demo's")
			}
			trader.With(keys[0]).Get("/v1/signals").Fails(t, "invalid_token")
		}
		c.Signal(syscall.SIGTERM)
		c.Exits(0)
	}
}

func TestOperatorsHaveAListenerOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.HTTP.AdminAddr = "127.0.0.1:0"
	s := e2e.Start(t, c)
	s.Client(t).Get("/metrics").Fails(t, "not_found")
	for path, want := range map[string]string{"/metrics": "agentsignal_ready 1",
		"/debug/pprof/goroutine?debug=1": "goroutine profile"} {
		w, err := http.Get("http://" + s.AdminAddr().String() + path)
		e2e.Must(t, err)
		text, _ := io.ReadAll(w.Body)
		w.Body.Close()
		if w.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s is answered with %d %.200s", path, w.StatusCode, text)
		}
	}
}

// systemd is the socket by which systemd is notified, and what it received.
type systemd struct {
	file string
	got  e2e.Journal
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	s := &systemd{file: filepath.Join(t.TempDir(), "notify")}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.file, Net: "unixgram"})
	e2e.Must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			fmt.Fprintf(&s.got, "%s\n", b[:n])
		}
	})
	t.Cleanup(func() {
		socket.Close()
		wg.Wait()
	})
	return s
}

// count returns how many received messages have the field.
func (s *systemd) count(field string) int { return strings.Count("\n"+s.got.String(), "\n"+field+"\n") }

func (s *systemd) await(t *testing.T, field string, times int) {
	t.Helper()
	e2e.Eventually(t, fmt.Sprintf("systemd has %s %d times", field, times), func() bool { return s.count(field) >= times })
}

// A child that systemd started notifies it of its start, of reloads, that it works, and of its end. A reload takes
// a renewed certificate into service.
func TestSIGHUPReloadsSettings(t *testing.T) {
	t.Parallel()
	unit := newSystemd(t)
	dir := t.TempDir()
	file, certFile, keyFile := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	former := certificateFor(t, certFile, keyFile)
	renewed := certificateFor(t, certFile+".new", keyFile+".new")
	write := func(text string) {
		e2e.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	base := "data_dir: " + t.TempDir() + "\nredis:\n  url: " + redistest.New(t).
		URL() + "\nmarket:\n  source: stream\nauth:\n  registration: open\n" +
		"tls:\n  cert_file: " + certFile + "\n  key_file: " + keyFile + "\n"
	write(base + "rate_limit:\n  reads: 7/h\nlog:\n  level: info\n")
	c := e2e.Launch(t, "CONFIG="+file, e2e.Plain+"NOTIFY_SOCKET="+unit.file, e2e.Plain+"WATCHDOG_USEC=30000")
	c.URL = "https" + strings.TrimPrefix(c.URL, "http")
	public := c.Client(t).Trust(former)
	public.Base.TLSClientConfig.RootCAs.AddCert(renewed) // it may connect again at any time
	e2e.Eventually(t, "the child is ready", func() bool {
		a, err := public.Try(http.MethodGet, "/readyz", "")
		return err == nil && a.Status == http.StatusOK
	})
	unit.await(t, "STATUS=serves", 1)
	trader := e2e.Register(public)
	limit := func() string { return trader.Get("/v1/account").Header.Get("X-RateLimit-Limit") }
	if got := limit(); got != "7" {
		t.Errorf("at first the limit is %s, want 7", got)
	}
	write(base + "rate_limit:\n  reads: 9000/m\nlog:\n  level: debug\n")
	e2e.Must(t, os.Rename(certFile+".new", certFile))
	e2e.Must(t, os.Rename(keyFile+".new", keyFile))
	e2e.NewClient(t, c.URL, trader.Token).Trust(former).Get("/healthz").Ok(t)
	c.Signal(syscall.SIGHUP)
	e2e.Eventually(t, "the new limit is in force", func() bool { return limit() == "9000" })
	e2e.NewClient(t, c.URL, trader.Token).Trust(renewed).Get("/healthz").Ok(t)
	if _, err := e2e.NewClient(t, c.URL, trader.Token).Trust(former).Try(http.MethodGet, "/healthz", ""); err == nil {
		t.Error("after SIGHUP the former certificate is still shown")
	}
	e2e.Eventually(t, "the new level is in force", func() bool {
		trader.Get("/healthz")
		return c.Log.Line(`"level":"DEBUG"`, "/healthz") != ""
	})
	write(base + "rate_limit:\n  reads: lots\n")
	c.Signal(syscall.SIGHUP)
	e2e.Eventually(t, "the bad file is logged",
		func() bool { return c.Log.Line(`"level":"ERROR"`, "rate_limit.reads") != "" })
	if got := limit(); got != "9000" {
		t.Errorf("a bad file made the limit %s", got)
	}
	unit.await(t, "READY=1", 3)
	unit.await(t, "WATCHDOG=1", unit.count("WATCHDOG=1")+1)
	if n := unit.count("RELOADING=1"); n != 2 {
		t.Errorf("systemd has %d reloads, want 2", n)
	}
	c.Signal(syscall.SIGTERM)
	c.Exits(0)
	unit.await(t, "STOPPING=1", 1)
	c.Log.Forget(`"level":"ERROR","msg":"settings were not reloaded`)
}

// certificateFor writes a new certificate for 127.0.0.1, valid for a day, and returns it.
func certificateFor(tb testing.TB, certFile, keyFile string) *x509.Certificate {
	tb.Helper()
	return certificateUntil(tb, time.Now().Add(24*time.Hour), certFile, keyFile)
}

func certificateUntil(tb testing.TB, end time.Time, certFile, keyFile string) *x509.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	e2e.Must(tb, err)
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	e2e.Must(tb, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	e2e.Must(tb, err)
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		e2e.Must(tb, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	certificate, err := x509.ParseCertificate(der)
	e2e.Must(tb, err)
	return certificate
}

func TestTheServiceUsesTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis := redistest.New(t)
	c := e2e.TestConfig(t, redis.URL())
	c.TLS.CertFile, c.TLS.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := certificateFor(t, c.TLS.CertFile, c.TLS.KeyFile)
	s := e2e.Start(t, c)
	s.URL = "https" + strings.TrimPrefix(s.URL, "http")
	e2e.NewMarket(t, redis.Client()).Open("ACME", "101.25")
	s.AwaitTrade(t, "ACME", 101.25)
	trader, _ := s.Account(t)
	trader.Trust(first)
	live := trader.Dial()
	var made []string
	for range 40 { // enough for partial writes
		made = append(made, trader.Run("ACME", "momentum").ID)
	}
	live.Signals(made...)
	if a := trader.Get("/v1/account"); a.Header.Get("Strict-Transport-Security") == "" {
		t.Error("Strict-Transport-Security is missing")
	}
	settings := fmt.Sprintf("http:\n  addr: %s\ntls:\n  cert_file: %s\n  key_file: %s\n",
		s.Addr(), c.TLS.CertFile, c.TLS.KeyFile)
	if out := e2e.Operator(t, "--config", e2e.Written(t, settings)).Do("healthcheck"); !strings.Contains(out,
		`"status":"ready"`) {
		t.Errorf("healthcheck prints %q", out)
	}

	// New connections get the new certificate.
	second := certificateFor(t, c.TLS.CertFile, c.TLS.KeyFile)
	e2e.Must(t, s.ReloadCertificate())
	e2e.NewClient(t, s.URL, trader.Token).Trust(second).Get("/v1/account").Ok(t)
	if _, err := e2e.NewClient(t, s.URL, trader.Token).Trust(first).Try(http.MethodGet, "/v1/account", ""); err == nil {
		t.Error("the old certificate is still shown")
	}
	live.Ping()
	if got, want := s.Metric(t, "agentsignal_tls_certificate_expiry_timestamp_seconds"),
		float64(second.NotAfter.Unix()); got != want {
		t.Errorf("the metric shows %g as the certificate's end, want %g", got, want)
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.TLS.CertFile, c.TLS.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificateFor(t, c.TLS.CertFile, c.TLS.KeyFile)
	s := e2e.Start(t, c)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true,
		tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", s.Addr().String(),
			&tls.Config{MinVersion: version, MaxVersion: version, InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// relay forwards connections to a service that may come back at another address.
type relay struct {
	listener net.Listener
	to       atomic.Pointer[string] // http://host:port
}

// newRelay starts a relay, which is stopped when the test ends.
func newRelay(tb testing.TB) *relay {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	e2e.Must(tb, err)
	tb.Cleanup(func() { listener.Close() })
	r := &relay{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.forward(conn)
		}
	}()
	return r
}

func (r *relay) forward(conn net.Conn) {
	defer conn.Close()
	other, err := net.Dial("tcp", strings.TrimPrefix(*r.to.Load(), "http://"))
	if err != nil {
		return
	}
	defer other.Close()
	go func() {
		io.Copy(other, conn)
		other.Close()
	}()
	io.Copy(conn, other)
}

func TestTailResumesWhereItWas(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	first, trader, _ := e2e.StartTrading(t, redis)
	relay := newRelay(t)
	relay.to.Store(&first.URL)

	ctx, cancel := context.WithCancel(t.Context())
	var out, errs e2e.Journal
	args := []string{"tail", "--json", "--channels", "signal.new", "--key-file", e2e.Written(t, trader.Token),
		"--url", "ws://" + relay.listener.Addr().String() + "/ws/dashboard"}
	e2e.Program(t) // builds it here: a goroutine may not end the test
	ended := make(chan error, 1)
	go func() { ended <- e2e.RunCommand(ctx, t, nil, &out, &errs, args...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("tail ended with: %v", err)
		}
	})
	e2e.Eventually(t, "tail has subscribed", func() bool { return out.Line("subscribed") != "" })
	before := trader.Run("ACME", "momentum")
	e2e.Eventually(t, "tail shows a signal", func() bool { return out.Line(before.ID) != "" })

	// Another node makes a signal while tail is away.
	first.Stop(t)
	e2e.Eventually(t, "tail tries again", func() bool { return errs.Line("going away", "trying again") != "" })
	second := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	second.AwaitTrade(t, "ACME", 101.25)
	trader = trader.At(second.URL)
	missed := trader.Run("ACME", "momentum")
	relay.to.Store(&second.URL)
	e2e.Eventually(t, "tail shows what it missed", func() bool { return out.Line(missed.ID) != "" })
	after := trader.Run("ACME", "momentum")
	e2e.Eventually(t, "tail goes on", func() bool { return out.Line(after.ID) != "" })
	for _, s := range []e2e.WireSignal{before, missed, after} {
		if n := strings.Count(out.String(), s.ID); n != 1 {
			t.Errorf("tail shows %s %d times", s.ID, n)
		}
	}
}
