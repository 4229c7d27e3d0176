package service

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestURLsOfWebhooks(t *testing.T) {
	t.Parallel()
	strict, account := shared(t).account(t) // by the default settings
	lenient, _ := sharedHooks(t).account(t) // this machine is allowed
	const ofTheMachine = "what the machine resolves"
	tests := []struct{ url, strict, lenient string }{
		{"https://93.184.216.34/hook", "", ""},
		{"https://93.184.216.34:8443/hook", "", ""},
		{"https://no-such-host.invalid/hook", "", ""}, // it may resolve later
		{"http://93.184.216.34/hook", "https_required", "https_required"},
		{"https://127.0.0.1:8443/hook", "url_not_allowed", ""},
		{"http://127.0.0.1:8080/hook", "url_not_allowed https_required", ""},
		{"http://localhost:8080/hook", "url_not_allowed https_required", ofTheMachine}, // perhaps [::1], too
		{"https://[::1]:8443/hook", "url_not_allowed", "url_not_allowed"},
		{"https://[::ffff:127.0.0.1]:8443/hook", "url_not_allowed", ""},
		{"https://10.1.2.3/hook", "url_not_allowed", "url_not_allowed"},
		{"https://192.168.0.1/hook", "url_not_allowed", "url_not_allowed"},
		{"https://169.254.169.254/latest/meta-data", "url_not_allowed", "url_not_allowed"},
		{"https://168.63.129.16/hook", "url_not_allowed", "url_not_allowed"},
		{"https://[fd00:ec2::254]/hook", "url_not_allowed", "url_not_allowed"},
		{"https://93.184.216.34:22/hook", "url_not_allowed", "url_not_allowed"},
		{"https://2130706433/hook", "url_not_allowed", "url_not_allowed"},
		{"https://user:word@93.184.216.34/hook", "invalid_format", "invalid_format"},
		{"https://93.184.216.34/hook#part", "invalid_format", "invalid_format"},
		{"ftp://93.184.216.34/hook", "invalid_format", "invalid_format"},
		{"/hook", "invalid_format", "invalid_format"},
	}
	there := map[*client]wireWebhook{strict: strict.hook("https://93.184.216.34/"),
		lenient: lenient.hook("https://93.184.216.34/")}
	for _, test := range tests {
		for c, want := range map[*client]string{strict: test.strict, lenient: test.lenient} {
			if want == ofTheMachine {
				continue
			}
			change := c.do(http.MethodPatch, "/v1/webhooks/"+there[c].ID, jsonOf(t, map[string]string{"url": test.url}))
			another := test.url
			if want == "" {
				another += "?another" // an account has a URL once
			}
			for what, a := range map[string]answer{"registered": c.tryHook(another), "changed": change} {
				if want == "" {
					if a.Status != http.StatusOK {
						t.Errorf("%s is not %s: %d %s", test.url, what, a.Status, a.Body)
					}
					continue
				}
				var codes []string
				for _, e := range a.fails(t, "invalid_request").Errors {
					if e.Pointer == "/url" {
						codes = append(codes, e.Code)
					}
				}
				if got := strings.Join(codes, " "); got != want {
					t.Errorf("%s is refused with %q, want %q", test.url, got, want)
				}
			}
		}
	}

	// The address is checked again at each connection: settings and names change.
	canary, hooks := newHookEndpoint(t, nil), shared(t).process.webhooks
	w, err := hooks.Webhook(t.Context(), account.ID, signal.WebhookID(there[strict].ID))
	must(t, err)
	w.URL = canary.url
	if _, err := hooks.ChangeWebhook(t.Context(), w, false); err != nil {
		t.Fatal(err)
	}
	d := strict.awaitDelivery(there[strict], strict.test(there[strict]).ID, "tried",
		func(d wireDelivery) bool { return d.AttemptCount > 0 })
	if textOf(d.Error) != "address not allowed" || d.ResponseStatus != nil || len(canary.got()) > 0 {
		t.Errorf("a request to an address that is not allowed ends as %+v", d)
	}
}

// rawEndpoint accepts connections and calls answer after the request of each. It returns its
// URL.
func rawEndpoint(tb testing.TB, answer func(net.Conn)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.Copy(io.Discard, r.Body)
					answer(conn)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// trickle writes a byte a second until the connection ends.
func trickle(c net.Conn, text string) {
	for i := range text {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		time.Sleep(time.Second) // the slowness is what is tested
	}
}

const okStatus = "HTTP/1.1 200 OK\r\n"

// TestBadEndpointsDoNoHarm checks the deliveries to endpoints that misbehave, and that they
// leak no goroutines and no memory.
func TestBadEndpointsDoNoHarm(t *testing.T) {
	t.Parallel()
	canary := newHookEndpoint(t, nil)
	elsewhere := func(target string) string {
		return newHookEndpoint(t, func(w http.ResponseWriter, _ hookRequest) {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}).url
	}
	unknown := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	t.Cleanup(unknown.Close)
	megabyte := strings.Repeat("x", 1<<20)
	tests := []struct{ name, url, status, error string }{
		{"a gigabyte", rawEndpoint(t, func(c net.Conn) {
			io.WriteString(c, okStatus+"Content-Length: 1073741824\r\n\r\n")
			for range 1024 {
				if _, err := io.WriteString(c, megabyte); err != nil {
					return
				}
			}
			t.Error("a gigabyte was read")
		}), "succeeded", ""},
		{"a body of a byte a second", rawEndpoint(t, func(c net.Conn) {
			io.WriteString(c, okStatus+"Content-Length: 1000\r\n\r\n")
			trickle(c, megabyte[:1000])
		}), "succeeded", ""},
		{"headers of a byte a second",
			rawEndpoint(t, func(c net.Conn) { trickle(c, okStatus+"Content-Length: 0\r\n\r\n") }), "failed", "timeout"},
		{"headers without end", rawEndpoint(t,
			func(c net.Conn) { io.WriteString(c, okStatus+"X: "+megabyte+megabyte) }), "failed", "connection failed"},
		{"a reset", rawEndpoint(t, func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }), "failed", "connection failed"},
		{"garbage", rawEndpoint(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n") }), "failed",
			"connection failed"},
		{"an untrusted certificate", unknown.URL, "failed", "TLS failed"},
		{"a redirect to the metadata", elsewhere("http://169.254.169.254/latest/meta-data"), "failed", "status 307"},
		{"a redirect", elsewhere(canary.url), "failed", "status 307"},
		{"a host that is not known", "https://no-such-host.invalid/", "failed", "host not found"},
	}
	c := launchReady(t, childSettings(t, redistest.New(t).URL(),
		hookSettings("WEBHOOKS_RETRY_SCHEDULE=10ms", "WEBHOOKS_TIMEOUT=6s", "WEBHOOKS_CONNECT_TIMEOUT=6s")...)...)
	trader := register(c.client(t))
	hooks := make([]wireWebhook, len(tests))
	for i, test := range tests {
		hooks[i] = trader.hook(test.url, "webhook.test")
	}
	round := func() {
		ids := make([][]string, len(tests))
		for i, test := range tests {
			n := 6
			if strings.HasSuffix(test.name, "a byte a second") {
				n = 1 // each takes the time limit of an attempt
			}
			for range n {
				ids[i] = append(ids[i], trader.test(hooks[i]).ID)
			}
		}
		for i, test := range tests {
			for _, id := range ids[i] {
				d := trader.awaitDelivery(hooks[i], id, "at its end",
					func(d wireDelivery) bool { return d.Status != "pending" })
				last := d.Attempts[len(d.Attempts)-1]
				if d.Status != test.status || textOf(d.Error) != test.error || textOf(last.Error) != test.error ||
					len(textOf(last.ResponseBody)) > 8<<10 {
					t.Errorf("%s: the delivery is %s, %s, error %q", test.name, d.ID, d.Status, textOf(d.Error))
				}
				if want := map[string]int{"failed": 2, "succeeded": 1}[test.status]; d.AttemptCount != want {
					t.Errorf("%s: %d attempts, want %d", test.name, d.AttemptCount, want)
				}
			}
		}
	}
	use := func() (goroutines, memory float64) {
		text := c.client(t).get("/metrics").ok(t).Body
		return metricOf(text, "go_goroutines"), metricOf(text, "process_resident_memory_bytes")
	}
	round()
	var goroutines, memory float64
	eventually(t, "the first round is over", func() bool {
		before := goroutines
		time.Sleep(time.Second) // for which /metrics repeats its answer
		goroutines, memory = use()
		return goroutines == before
	})
	round()
	var goroutinesThen, memoryThen float64
	eventually(t, "the goroutines of the second round have ended", func() bool {
		goroutinesThen, memoryThen = use()
		return goroutinesThen <= goroutines+5
	})
	if memoryThen > memory+100<<20 {
		t.Errorf("the service has %.0f MB, after the first round it had %.0f", memoryThen/1e6, memory/1e6)
	}
	t.Logf("%.0f goroutines, then %.0f; %.0f MB, then %.0f", goroutines, goroutinesThen, memory/1e6, memoryThen/1e6)
	if n := len(canary.got()); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// challenged returns a client of a service with webhooks.challenge.
func challenged(t *testing.T) *client {
	t.Helper()
	c := hookConfig(t, redistest.New(t).URL())
	c.Webhooks.Challenge = true
	s := begin(t, c)
	s.awaitReady(t)
	user, _ := s.account(t)
	return user
}

func TestAWebhookAnswersItsChallenge(t *testing.T) {
	t.Parallel()
	user := challenged(t)
	silent := newHookEndpoint(t, nil)
	body := func(url string) string {
		return `{"url":"` + url + `","events":["webhook.test"],"secret":"new secret of 1"}`
	}
	a := user.post("/v1/webhooks", body(silent.url)).want(t, http.StatusBadRequest)
	if text := a.Body; !strings.Contains(text, "url_not_allowed") || !strings.Contains(text, "data.challenge") {
		t.Errorf("an endpoint that does not answer is refused with %s", text)
	}
	_, listening := spawnListener(t, "new secret of 1")
	user.post("/v1/webhooks", body(listening)).ok(t)
}

// The endpoint of a URL that would be refused anyway gets no request.
func TestARefusedURLIsNotChallenged(t *testing.T) {
	t.Parallel()
	user := challenged(t)
	r := newHookEndpoint(t, func(w http.ResponseWriter, a hookRequest) {
		io.WriteString(w, webhook.ChallengeOf([]byte(a.Body)))
	})
	asked := 0
	refused := func(what, code string, status int, a answer) {
		t.Helper()
		if a.Status != status || !strings.Contains(a.Body, code) {
			t.Errorf("%s: %d %s, want %d, %q", what, a.Status, a.Body, status, code)
		}
		if n := len(r.got()); n != asked {
			t.Errorf("%s: the receiver has %d requests, want %d", what, n, asked)
		}
	}
	path := func(n int) string { return fmt.Sprintf("%s/%d", r.url, n) }
	first, second := user.hook(path(0)), user.hook(path(1))
	asked = 2
	refused("a URL twice", "duplicate", http.StatusBadRequest, user.tryHook(path(0)))
	change := func(url string) answer {
		return user.do(http.MethodPatch, "/v1/webhooks/"+second.ID, jsonOf(t, map[string]string{"url": url}))
	}
	refused("a change to the URL of another one", "duplicate", http.StatusBadRequest, change(first.URL))
	for asked < 100 {
		user.hook(path(asked))
		asked++
	}
	refused("one more", "limit_reached", http.StatusConflict, user.tryHook(path(100)))
	change(path(101)).ok(t)
	if n := len(r.got()); n != asked+1 {
		t.Errorf("the receiver has %d requests after a URL was changed, want %d", n, asked+1)
	}
}
