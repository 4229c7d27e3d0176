package receive

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// listening is a webhook listen command under test.
type listening struct {
	url       string
	out, errs *commandtest.Journal
	stop      func() error
}

// listenFor starts the command on a free port.
func listenFor(tb testing.TB, args ...string) *listening {
	tb.Helper()
	l := &listening{out: &commandtest.Journal{}, errs: &commandtest.Journal{}}
	ctx, cancel := context.WithCancel(tb.Context())
	root := Command(nil)
	root.SetArgs(append([]string{"listen", "--addr", "127.0.0.1:0"}, args...))
	root.SetOut(l.out)
	root.SetErr(l.errs)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	l.stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(commandtest.WaitLimit):
			return fmt.Errorf("listen did not end within %s", commandtest.WaitLimit)
		}
	}
	tb.Cleanup(func() { l.stop() })
	commandtest.Eventually(tb, "it listens", func() bool {
		select {
		case err := <-ended:
			ended <- err
			tb.Fatalf("listen ended: %v\n%s", err, l.errs)
		default:
		}
		_, l.url, _ = strings.Cut(strings.TrimSpace(l.errs.Line("listening on ")), "listening on ")
		return l.url != ""
	})
	return l
}

// deliver sends a delivery as the service does and returns the answer.
func (l *listening) deliver(tb testing.TB, secrets []string, body string, change ...func(http.Header)) answer {
	tb.Helper()
	r, err := http.NewRequest(http.MethodPost, l.url+"/hooks?x=1", strings.NewReader(body))
	commandtest.Must(tb, err)
	now, signers := time.Now().Unix(), signature.NewSigners(secrets...)
	r.Header = http.Header{"Content-Type": {"application/json"},
		signature.HeaderSignature: {signature.Sign(secrets[0], []byte(body))},
		signature.HeaderEvent:     {"webhook.test"}, signature.HeaderDelivery: {"dlv_1"},
		signature.HeaderAttempt:   {"2"},
		signature.HeaderTimestamp: {fmt.Sprint(now)}, signature.HeaderStandardID: {"evt_1"},
		signature.HeaderStandardTimestamp: {fmt.Sprint(now)},
		signature.HeaderStandardSignature: {string(signers.AppendStandard(nil, "evt_1", now, []byte(body)))}}
	for _, f := range change {
		f(r.Header)
	}
	w, err := http.DefaultClient.Do(r)
	commandtest.Must(tb, err)
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	commandtest.Must(tb, err)
	return answer{w.StatusCode, w.Header, string(text)}
}

func TestListenVerifiesAndPrints(t *testing.T) {
	t.Parallel()
	l := listenFor(t, "--secret", "new", "--secret-file", commandtest.Written(t, "old\n"))
	const body = `{"id":"evt_1","type":"webhook.test"}`
	for _, secrets := range [][]string{{"new"}, {"old"}, {"newest", "new"}} {
		l.deliver(t, secrets, body).want(t, http.StatusOK)
	}
	challenge := `{"id":"evt_1","type":"webhook.challenge","data":{"challenge":"the token"}}`
	if a := l.deliver(t, []string{"new"}, challenge).want(t, http.StatusOK); a.Body != "the token" {
		t.Errorf("a challenge is answered with %q", a.Body)
	}
	if line := l.out.Line("webhook.test", "dlv_1", "attempt 2", "200  ok"); line == "" || l.out.Line(body) == "" {
		t.Errorf("listen prints\n%s", l.out)
	}
	for want, send := range map[string]func() answer{
		"does not match": func() answer { return l.deliver(t, []string{"other"}, body) },
		"too long ago": func() answer {
			return l.deliver(t, []string{"new"}, body, func(h http.Header) {
				const old = 1795000000
				h.Set(signature.HeaderStandardTimestamp, fmt.Sprint(old))
				h.Set(signature.HeaderStandardSignature, signature.SignStandard("new", "evt_1", old, []byte(body)))
			})
		},
		"no signature": func() answer {
			return l.deliver(t, []string{"new"}, body,
				func(h http.Header) { h.Del(signature.HeaderSignature); h.Del(signature.HeaderStandardSignature) })
		},
	} {
		send().want(t, http.StatusUnauthorized)
		if l.out.Line("401", want) == "" {
			t.Errorf("listen does not contain %q:\n%s", want, l.out)
		}
	}
	l.deliver(t, []string{"new"}, strings.Repeat("x", maxDeliveryBytes+1)).want(t, http.StatusRequestEntityTooLarge)
	l.deliver(t, []string{"new"}, "\x1b[2Jcleared").want(t, http.StatusOK)
	if strings.Contains(l.out.String(), "\x1b") || l.out.Line("[2Jcleared") == "" {
		t.Error("listen prints control characters of a body")
	}
	l.deliver(t, []string{"new"}, "{}\n2026-11-21T09:30:00.000Z  forged").want(t, http.StatusOK)
	if line := l.out.Line("forged"); !strings.HasPrefix(line, "  ") {
		t.Errorf("listen prints a line of a body as its own: %q", line)
	}
	w, err := http.Get(l.url)
	commandtest.Must(t, err)
	w.Body.Close()
	if w.StatusCode != http.StatusMethodNotAllowed || w.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET is answered with %d", w.StatusCode)
	}
	if err := l.stop(); err != nil {
		t.Errorf("listen ended with: %v", err)
	}
}

func TestListenForwardsWhatIsGenuine(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Request]
	var gotBody atomic.Value
	var count atomic.Int32
	var odd atomic.Bool
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		count.Add(1)
		got.Store(r)
		gotBody.Store(string(text))
		if odd.Load() { // an invalid status
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(conn, "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n")
				conn.Close()
			}
			return
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "later")
	}))
	t.Cleanup(behind.Close)
	l := listenFor(t, "--secret", "s", "--forward-to", behind.URL+"/in?y=2", "--print", "json")
	const body = "{ \"n\": 1.0 }\n"
	a := l.deliver(t, []string{"s"}, body, func(h http.Header) {
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Accept-Encoding", "identity")
	}).want(t, http.StatusServiceUnavailable)
	if a.Body != "later" || a.Header.Get("Retry-After") != "7" {
		t.Errorf("answered %+v", a)
	}
	r := got.Load()
	if r.URL.String() != "/in?y=2" || gotBody.Load() != body || r.Header.Get(signature.HeaderDelivery) != "dlv_1" ||
		r.Header.Get("X-Hop") != "" {
		t.Errorf("forwarded %s %v %q", r.URL, r.Header, gotBody.Load())
	}
	if err := signature.Verify("s", r.Header, []byte(body), time.Now()); err != nil {
		t.Errorf("what is forwarded does not verify: %v", err)
	}
	printed := decode[printedDelivery](t, l.out.Line("dlv_1"))
	if !printed.OK || printed.Status != 503 || printed.Body != body || printed.Event != "webhook.test" ||
		printed.Attempt != "2" {
		t.Errorf("printed %+v", printed)
	}
	l.deliver(t, []string{"other"}, body).want(t, http.StatusUnauthorized)
	if count.Load() != 1 {
		t.Error("what is not genuine was forwarded")
	}
	odd.Store(true)
	l.deliver(t, []string{"s"}, body).want(t, http.StatusBadGateway)
	odd.Store(false)
	behind.Close()
	l.deliver(t, []string{"s"}, body).want(t, http.StatusBadGateway)
	if printed := decode[printedDelivery](t, l.out.Line(`"status":502`)); printed.OK ||
		!strings.Contains(printed.Why, "forwarding failed") {
		t.Errorf("printed %+v", printed)
	}
}

func TestListenSavesWhatVerifyReads(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "saved")
	l := listenFor(t, "--secret", "s", "--save", dir)
	l.deliver(t, []string{"s"}, `{"id":"evt_1","type":"webhook.test"}`).want(t, http.StatusOK)
	l.deliver(t, []string{"other"}, `{}`).want(t, http.StatusUnauthorized)
	files, err := filepath.Glob(filepath.Join(dir, "*.http"))
	if err != nil || len(files) != 2 {
		t.Fatalf("saved %v, %v", files, err)
	}
	genuine := 0
	for _, name := range files {
		if _, err := operator(t).Try("", "verify", "--secret", "s", "--request", name); err == nil {
			genuine++
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if genuine != 1 {
		t.Errorf("%d of the saved requests are genuine, want 1", genuine)
	}
}

func TestListenRegistersItself(t *testing.T) {
	t.Parallel()
	var made atomic.Pointer[map[string]any]
	var removed atomic.Int32
	var refuse atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer ask_key" || refuse.Load():
			http.Error(w, `{"detail":"1 value is not valid.","errors":[{"pointer":"/url","detail":"must be public"}]}`,
				http.StatusBadRequest)
		case r.Method == http.MethodPost && r.URL.Path == "/v1/webhooks":
			var in map[string]any
			json.NewDecoder(r.Body).Decode(&in)
			made.Store(&in)
			// A delivery may come before this answer does.
			l := &listening{url: in["url"].(string)}
			l.deliver(t, []string{in["secret"].(string)}, `{}`).want(t, http.StatusOK)
			io.WriteString(w, `{"webhook_id":"whk_1"}`)
		case r.Method == http.MethodDelete && r.URL.Path == "/v1/webhooks/whk_1":
			removed.Add(1)
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(api.Close)
	l := listenFor(t, "--register", "--url", api.URL+"/", "--key", "ask_key", "--events",
		"signal.created,signal.closed")
	commandtest.Eventually(t, "it is registered", func() bool { return l.errs.Line("registered whk_1") != "" })
	in := *made.Load()
	if in["url"] != l.url || fmt.Sprint(in["events"]) != "[signal.created signal.closed]" ||
		len(in["secret"].(string)) != 50 {
		t.Errorf("registered %v", in)
	}
	if err := l.stop(); err != nil || removed.Load() != 1 {
		t.Errorf("removed %d times, ended with %v", removed.Load(), err)
	}
	l = listenFor(t, "--register", "--url", api.URL, "--key", "ask_key", "--secret", "a secret of mine")
	commandtest.Eventually(t, "it is registered", func() bool { return l.errs.Line("registered whk_1") != "" })
	if in := *made.Load(); in["secret"] != "a secret of mine" {
		t.Errorf("registered %v", in)
	}
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	refuse.Store(true)
	operator(t).Fails("(400): /url: must be public", "listen", "--addr", "127.0.0.1:0", "--register", "--url", api.URL,
		"--key", "ask_key")
	operator(t).Fails("give an API key", "listen", "--addr", "127.0.0.1:0", "--register", "--url", api.URL)
}

func TestListenRefusesBadFlags(t *testing.T) {
	t.Parallel()
	o := operator(t)
	o.Fails("give the secret", "listen", "--addr", "127.0.0.1:0")
	o.Fails("--addr", "listen", "--secret", "s", "--addr", "nowhere")
	taken := httptest.NewServer(nil)
	defer taken.Close()
	o.Fails("address already in use: choose another, such as 127.0.0.1:0 for any free port", "listen", "--secret", "s",
		"--addr", taken.Listener.Addr().String())
	o.Fails("--print", "listen", "--secret", "s", "--print", "xml")
	o.Fails("--forward-to", "listen", "--secret", "s", "--forward-to", "localhost:3000")
	o.Fails("--save", "listen", "--secret", "s", "--save", commandtest.Written(t, ""))
}
