package webhooks

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Package guard tests which URLs it accepts; here are those that show its settings and its errors.
func TestURLsOfWebhooks(t *testing.T) {
	t.Parallel()
	strict, account := e2e.Shared(t).Account(t) // by the default settings
	lenient, _ := e2e.SharedHooks(t).Account(t) // this machine is allowed
	tests := []struct{ url, strict, lenient string }{
		{"https://93.184.216.34/hook", "", ""},
		{"http://93.184.216.34/hook", "https_required", "https_required"},
		{"https://127.0.0.1:8443/hook", "url_not_allowed", ""},
		{"http://127.0.0.1:8080/hook", "url_not_allowed https_required", ""},
		{"https://10.1.2.3/hook", "url_not_allowed", "url_not_allowed"},
		{"/hook", "invalid_format", "invalid_format"},
	}
	there := map[*e2e.Client]e2e.WireWebhook{strict: strict.Hook("https://93.184.216.34/"),
		lenient: lenient.Hook("https://93.184.216.34/")}
	for _, test := range tests {
		for c, want := range map[*e2e.Client]string{strict: test.strict, lenient: test.lenient} {
			change := c.Do(http.MethodPatch, "/v1/webhooks/"+there[c].ID, e2e.JsonOf(t, map[string]string{"url": test.url}))
			another := test.url
			if want == "" {
				another += "?another" // an account has a URL once
			}
			for what, a := range map[string]e2e.Answer{"registered": c.TryHook(another), "changed": change} {
				if want == "" {
					if a.Status != http.StatusOK {
						t.Errorf("%s is not %s: %d %s", test.url, what, a.Status, a.Body)
					}
					continue
				}
				var codes []string
				for _, e := range a.Fails(t, "invalid_request").Errors {
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
	canary, hooks := e2e.NewHookEndpoint(t, nil), e2e.Shared(t).Webhooks()
	w, err := hooks.Webhook(t.Context(), account.ID, signal.WebhookID(there[strict].ID))
	e2e.Must(t, err)
	w.URL = canary.URL
	if _, err := hooks.ChangeWebhook(t.Context(), w, false); err != nil {
		t.Fatal(err)
	}
	d := strict.AwaitDelivery(there[strict], strict.Test(there[strict]).ID, "tried",
		func(d e2e.WireDelivery) bool { return d.AttemptCount > 0 })
	if textOf(d.Error) != "address not allowed" || d.ResponseStatus != nil || len(canary.Got()) > 0 {
		t.Errorf("a request to an address that is not allowed ends as %+v", d)
	}
}

// rawEndpoint accepts connections and calls answer after the request of each. It returns its
// URL.
func rawEndpoint(tb testing.TB, answer func(net.Conn)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	e2e.Must(tb, err)
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

const okStatus = "HTTP/1.1 200 OK\r\n"

// TestBadEndpointsDoNoHarm checks that endpoints that misbehave leak no goroutines and no memory. Package sender
// tests more of them.
func TestBadEndpointsDoNoHarm(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	canary := e2e.NewHookEndpoint(t, nil)
	elsewhere := e2e.NewHookEndpoint(t, func(w http.ResponseWriter, _ e2e.HookRequest) {
		w.Header().Set("Location", canary.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
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
		{"headers without end", rawEndpoint(t,
			func(c net.Conn) { io.WriteString(c, okStatus+"X: "+megabyte+megabyte) }), "failed", "connection failed"},
		{"a reset", rawEndpoint(t, func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }), "failed", "connection failed"},
		{"a redirect", elsewhere.URL, "failed", "status 307"},
		{"a host that is not known", "https://no-such-host.invalid/", "failed", "host not found"},
	}
	c := e2e.LaunchReady(t, e2e.ChildSettings(t, redistest.New(t).URL(),
		hookSettings("WEBHOOKS_RETRY_SCHEDULE=10ms", "WEBHOOKS_TIMEOUT=3s", "WEBHOOKS_CONNECT_TIMEOUT=3s")...)...)
	trader := e2e.Register(c.Client(t))
	hooks := make([]e2e.WireWebhook, len(tests))
	for i, test := range tests {
		hooks[i] = trader.Hook(test.url, "webhook.test")
	}
	round := func() {
		ids := make([][]string, len(tests))
		for i := range tests {
			for range 6 {
				ids[i] = append(ids[i], trader.Test(hooks[i]).ID)
			}
		}
		for i, test := range tests {
			for _, id := range ids[i] {
				d := trader.AwaitDelivery(hooks[i], id, "at its end",
					func(d e2e.WireDelivery) bool { return d.Status != "pending" })
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
		text := c.Client(t).Get("/metrics").Ok(t).Body
		return e2e.MetricOf(text, "go_goroutines"), e2e.MetricOf(text, "process_resident_memory_bytes")
	}
	round()
	var goroutines, memory float64
	e2e.Eventually(t, "the first round is over", func() bool {
		before := goroutines
		time.Sleep(time.Second) // for which /metrics repeats its answer
		goroutines, memory = use()
		return goroutines == before
	})
	round()
	var goroutinesThen, memoryThen float64
	e2e.Eventually(t, "the goroutines of the second round have ended", func() bool {
		goroutinesThen, memoryThen = use()
		return goroutinesThen <= goroutines+5
	})
	if memoryThen > memory+100<<20 {
		t.Errorf("the service has %.0f MB, after the first round it had %.0f", memoryThen/1e6, memory/1e6)
	}
	t.Logf("%.0f goroutines, then %.0f; %.0f MB, then %.0f", goroutines, goroutinesThen, memory/1e6, memoryThen/1e6)
	if n := len(canary.Got()); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// challenged returns a client of a service with webhooks.challenge.
func challenged(t *testing.T) *e2e.Client {
	t.Helper()
	c := e2e.HookConfig(t, redistest.New(t).URL())
	c.Webhooks.Challenge = true
	s := e2e.Begin(t, c)
	s.AwaitReady(t)
	user, _ := s.Account(t)
	return user
}

func TestAWebhookAnswersItsChallenge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	user := challenged(t)
	silent := e2e.NewHookEndpoint(t, nil)
	body := func(url string) string {
		return `{"url":"` + url + `","events":["webhook.test"],"secret":"new secret of 1"}`
	}
	a := user.Post("/v1/webhooks", body(silent.URL)).Want(t, http.StatusBadRequest)
	if text := a.Body; !strings.Contains(text, "url_not_allowed") || !strings.Contains(text, "data.challenge") {
		t.Errorf("an endpoint that does not answer is refused with %s", text)
	}
	_, listening := e2e.SpawnListener(t, "new secret of 1")
	user.Post("/v1/webhooks", body(listening)).Ok(t)
}
