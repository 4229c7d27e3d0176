package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

const examplesPath = "../../../../deploy/webhooks/"

// examples are the receivers that the page offers: the file, and how it is started.
var examples = map[string]struct {
	file  string
	start func(tb testing.TB, file string) []string
}{
	"go": {"go/main.go", func(tb testing.TB, file string) []string {
		binary := filepath.Join(tb.TempDir(), "receiver")
		if out, err := e2e.StaticBuild(binary, file).CombinedOutput(); err != nil {
			tb.Fatalf("build the example: %v\n%s", err, out)
		}
		return []string{binary}
	}},
	"python": {"python/receiver.py", func(tb testing.TB, file string) []string {
		return []string{interpreter(tb, "python3"), file}
	}},
	"node": {"node/receiver.mjs", func(tb testing.TB, file string) []string {
		return []string{interpreter(tb, "node"), file}
	}},
}

// interpreter returns the path of a program without which the test is skipped.
func interpreter(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Skipf("%s is not installed: its example is not tried", name)
	}
	return path
}

// exampleClient talks to examples.
var exampleClient = &http.Client{Timeout: e2e.WaitLimit}

// exampleReceiver is a running example.
type exampleReceiver struct {
	tb  testing.TB
	url string
	out *e2e.Journal
	end func() // the process, and the reading of what it wrote
}

// startExample runs an example on a free port. settings are variables without the
// prefix WEBHOOK_.
func startExample(tb testing.TB, args []string, settings ...string) *exampleReceiver {
	tb.Helper()
	x := &exampleReceiver{tb: tb, out: &e2e.Journal{}}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PORT=0", "WEBHOOK_SECRET_2=", "WEBHOOK_TOLERANCE=")
	for _, s := range settings {
		cmd.Env = append(cmd.Env, "WEBHOOK_"+s)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = x.out, x.out
	e2e.Must(tb, cmd.Start())
	x.end = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	tb.Cleanup(func() {
		x.end()
		x.out.Blame(tb)
	})
	e2e.Eventually(tb, "the example listens", func() bool {
		_, x.url, _ = strings.Cut(strings.TrimSpace(x.out.Line("listening on ")), "listening on ")
		return x.url != ""
	})
	return x
}

// send posts a body and returns the status of the answer.
func (x *exampleReceiver) send(header http.Header, body io.Reader) int {
	x.tb.Helper()
	r, err := http.NewRequest(http.MethodPost, x.url+"/hooks", body)
	e2e.Must(x.tb, err)
	r.Header = header
	w, err := exampleClient.Do(r)
	e2e.Must(x.tb, err)
	defer w.Body.Close()
	if _, err := io.Copy(io.Discard, w.Body); err != nil {
		x.tb.Fatal(err)
	}
	return w.StatusCode
}

// cut sends the request with a part of its body and ends it there. It reports whether
// the answer was 2xx.
func (x *exampleReceiver) cut(header http.Header, body string, part int) bool {
	x.tb.Helper()
	conn := e2e.RawConn(x.tb, x.url)
	var b bytes.Buffer
	b.WriteString("POST /hooks HTTP/1.1\r\nHost: localhost\r\n")
	header.Write(&b)
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body[:part])
	if _, err := conn.Write(b.Bytes()); err != nil {
		x.tb.Fatal(err)
	}
	e2e.Must(x.tb, conn.(*net.TCPConn).CloseWrite())
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false // the connection was closed
	}
	w.Body.Close()
	return w.StatusCode/100 == 2
}

// handled ends the example and fails the test unless it handled exactly these events, each
// once.
func (x *exampleReceiver) handled(want ...string) {
	x.tb.Helper()
	x.end()
	var got []string
	for line := range strings.Lines(x.out.String()) {
		if id, ok := strings.CutPrefix(line, "event "); ok {
			id, _, _ = strings.Cut(id, " ")
			got = append(got, strings.Trim(id, `"`))
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		x.tb.Errorf("handled %v, want %v", got, want)
	}
}

// signedHeader are the headers of a delivery sent at the given time.
func signedHeader(secrets []string, event, body string, at time.Time) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set(signature.HeaderSignature, signature.Sign(secrets[0], []byte(body)))
	h.Set(signature.HeaderStandardID, event)
	h.Set(signature.HeaderStandardTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(signature.HeaderStandardSignature,
		string(signature.NewSigners(secrets...).AppendStandard(nil, event, at.Unix(), []byte(body))))
	return h
}

// testEvent returns the body of an event.
func testEvent(id string) string {
	return `{"id":"` + id + `","type":"webhook.test","api_version":"2026-11-01","data":{"message":"Grüße\u2028"}}`
}

func TestExampleReceivers(t *testing.T) {
	t.Parallel()
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := examplesPath + example.file
			// Only files that the test itself looks at make go test run it again.
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			args := example.start(t, file)
			t.Run("takes what the service sends", func(t *testing.T) {
				t.Parallel()
				tryDeliveries(t, args)
			})
			t.Run("demands a signature and a time", func(t *testing.T) {
				t.Parallel()
				tryForgeries(t, args)
			})
			t.Run("passes the test vector", func(t *testing.T) {
				t.Parallel()
				tryVector(t, args)
			})
		})
	}
}

// tryDeliveries sends an example the requests of a Sender, each twice.
func tryDeliveries(t *testing.T, args []string) {
	made, odd := delivery.NewSecret(), "whsec_no base64 пароль 鍵"
	x := startExample(t, args, "SECRET="+made, "SECRET_2="+odd)
	client := sender.New(sender.Options{Guard: guard.New(guard.Options{
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	t.Cleanup(client.Close)
	for i, secrets := range [][]string{{made}, {odd}, {"a newer one", made}, {odd, "an older one"}} {
		id := fmt.Sprintf("evt_%d", i)
		for range 2 {
			result := client.Send(t.Context(), sender.Request{To: sender.NewDestination(x.url, secrets...),
				Body: []byte(testEvent(id)), Event: signal.EventID(id),
				Type: signal.WebhookTest, Delivery: "dlv_1", Attempt: 1, At: time.Now()})
			if result.Status != http.StatusOK {
				t.Errorf("delivery %d ends with %+v", i, result)
			}
		}
	}
	node := webhook.New(nil, client, nil, webhook.Options{})
	hook := delivery.Webhook{ID: signal.NewWebhookID(), URL: x.url + "/hooks", APIVersion: "2026-11-01"}
	if err := node.Challenge(t.Context(), &hook, made); err != nil {
		t.Errorf("a challenge: %v", err)
	}
	if err := node.Challenge(t.Context(), &hook, "another"); err == nil {
		t.Error("a challenge that is not genuine is answered with its token")
	}
	x.handled("evt_0", "evt_1", "evt_2", "evt_3")
}

// tryForgeries sends an example what it must refuse.
func tryForgeries(t *testing.T, args []string) {
	const secret = "correct horse battery staple"
	x := startExample(t, args, "SECRET="+secret)
	without := func(names ...string) func(http.Header) {
		return func(h http.Header) {
			for _, name := range names {
				h.Del(name)
			}
		}
	}
	for name, c := range map[string]struct {
		secret string              // signs; empty: the one that the receiver knows
		age    time.Duration       // since the request was sent
		change func(http.Header)   // after signing
		body   func(string) string // likewise
		want   int
	}{
		"good":           {age: 4 * time.Minute, want: 200},
		"another secret": {secret: "another", want: 401},
		"another body": {body: func(b string) string {
			return strings.Replace(b, "test", "tess", 1)
		}, want: 401},
		"a truncated body":        {body: func(b string) string { return b[:len(b)-1] }, want: 401},
		"no body":                 {body: func(string) string { return "" }, want: 401},
		"an old request":          {age: 5*time.Minute + 30*time.Second, want: 401},
		"a request of the future": {age: -5*time.Minute - 30*time.Second, want: 401},
		"an old one with a new time": {age: time.Hour, change: func(h http.Header) {
			h.Set(signature.HeaderStandardTimestamp, strconv.FormatInt(time.Now().Unix(), 10))
		}, want: 401},
		"a malformed time": {change: func(h http.Header) { h.Set(signature.HeaderStandardTimestamp, "now") },
			want: 401},
		"another id": {change: func(h http.Header) { h.Set(signature.HeaderStandardID, "evt_other") }, want: 401},
		"half a signature": {change: func(h http.Header) {
			h.Set(signature.HeaderStandardSignature, h.Get(signature.HeaderStandardSignature)[:20])
		}, want: 401},
		"no signature": {
			change: without(signature.HeaderSignature, signature.HeaderStandardSignature), want: 401},
		"no signature that has a time": {change: without(signature.HeaderStandardSignature), want: 401},
	} {
		id := "evt_" + strings.ReplaceAll(name, " ", "_")
		body, by := testEvent(id), secret
		if c.secret != "" {
			by = c.secret
		}
		h := signedHeader([]string{by}, id, body, time.Now().Add(-c.age))
		if c.change != nil {
			c.change(h)
		}
		if c.body != nil {
			body = c.body(body)
		}
		if got := x.send(h, strings.NewReader(body)); got != c.want {
			t.Errorf("%s is answered with %d, want %d", name, got, c.want)
		}
	}
	for _, body := range []string{"", "[]", "{}", `{"id":1}`, "{\"id\":\"\xff", strings.Repeat("[", 100_000)} {
		if got := x.send(signedHeader([]string{secret}, "evt_1", body, time.Now()),
			strings.NewReader(body)); got != http.StatusBadRequest {
			t.Errorf("%.20q is answered with %d", body, got)
		}
	}
	whole := testEvent("evt_cut")
	if x.cut(signedHeader([]string{secret}, "evt_cut", whole, time.Now()), whole, len(whole)/2) {
		t.Error("half a request is answered with 2xx")
	}
	// The received part is a signed event, but the body is incomplete.
	if x.cut(signedHeader([]string{secret}, "evt_cut", whole, time.Now()), whole+"   ", len(whole)) {
		t.Error("a request without its end is answered with 2xx")
	}
	tryLarge(t, x, secret)
	x.handled("evt_good")
}

// tryLarge sends an example a genuine event of 2 MiB, with a length and without.
func tryLarge(t *testing.T, x *exampleReceiver, secret string) {
	body := testEvent("evt_large") + strings.Repeat(" ", 2<<20)
	for _, length := range []int64{int64(len(body)), -1} {
		r, err := http.NewRequest(http.MethodPost, x.url, strings.NewReader(body))
		e2e.Must(t, err)
		r.Header, r.ContentLength = signedHeader([]string{secret}, "evt_large", body, time.Now()), length
		w, err := exampleClient.Do(r)
		if err != nil {
			continue // the connection was closed before all was sent
		}
		w.Body.Close()
		if w.StatusCode/100 != 4 {
			t.Errorf("2 MiB with the length %d are answered with %d", length, w.StatusCode)
		}
	}
}

// tryVector sends an example the test vector as the page has it.
func tryVector(t *testing.T, args []string) {
	v := vectorOfPage(t)
	x := startExample(t, args, "SECRET=another", "SECRET_2="+v.secret, "TOLERANCE=4000000000")
	if got := x.send(v.header, strings.NewReader(v.body)); got != http.StatusOK {
		t.Errorf("the vector is answered with %d", got)
	}
	x.handled(v.header.Get(signature.HeaderStandardID))
	// The signature of the specification alone.
	x = startExample(t, args, "SECRET="+v.secret, "TOLERANCE=0")
	ours := http.Header{signature.HeaderSignature: {v.header.Get(signature.HeaderSignature)}}
	if got := x.send(ours.Clone(), strings.NewReader(v.body)); got != http.StatusOK {
		t.Errorf("the vector without a signed time is answered with %d", got)
	}
	for name, given := range map[string]string{
		"a digit less":     v.header.Get(signature.HeaderSignature)[:70],
		"capitals":         strings.ToUpper(v.header.Get(signature.HeaderSignature)),
		"another key":      signature.Sign("another", []byte(v.body)),
		"an empty one":     "",
		"a standard one":   v.header.Get(signature.HeaderStandardSignature),
		"nothing after it": "sha256=",
	} {
		ours.Set(signature.HeaderSignature, given)
		if got := x.send(ours.Clone(), strings.NewReader(v.body)); got != http.StatusUnauthorized {
			t.Errorf("%s is answered with %d", name, got)
		}
	}
	x.handled(v.header.Get(signature.HeaderStandardID))
}
