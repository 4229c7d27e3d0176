package sender

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

const aSecret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="

// anAttempt is a request to a URL.
func anAttempt(url string) Request {
	return Request{
		To:       NewDestination(url, aSecret),
		Body:     []byte(`{"id":"evt_1"}`),
		Event:    "evt_1",
		Type:     signal.SignalCreated,
		Delivery: "dlv_1",
		Attempt:  3,
		At:       time.Now(),
	}
}

// newSender returns a sender that may reach this machine.
func newSender(tb testing.TB, o Options) *Sender {
	tb.Helper()
	if o.Guard == nil {
		local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		o.Guard = guard.New(guard.Options{AllowedNetworks: local})
	}
	s := New(o)
	tb.Cleanup(s.Close)
	return s
}

// newServer starts a server of this machine.
func newServer(tb testing.TB, h http.HandlerFunc) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return server
}

func TestARequestIsSentAsSpecified(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var gotBody []byte
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		gotBody, _ = io.ReadAll(r.Body)
		io.WriteString(w, "thanks")
	})
	body, err := os.ReadFile("../testdata/vector.json")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Truncate(time.Millisecond)
	secrets := []string{"the new secret", aSecret}
	r := Request{
		To:       NewDestination(server.URL+"/hooks?x=%20y", secrets...),
		Body:     body,
		Event:    "evt_01M7YQ1X3DTRA4S2456P21NJZ0",
		Type:     signal.WebhookTest,
		Delivery: "dlv_01M7YQ1X7PE2DGEP087XGX6XDW",
		Attempt:  12,
		At:       at,
	}
	result := newSender(t, Options{UserAgent: "agentsignal/1.2.3"}).Send(t.Context(), r)
	if result.Duration <= 0 {
		t.Errorf("it took %s", result.Duration)
	}
	result.Duration = 0
	if diff := cmp.Diff(Result{At: at, Status: 200, Class: ClassSuccess, Body: "thanks"}, result); diff != "" {
		t.Fatalf("result (-want +got):\n%s", diff)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	line := fmt.Sprint(got.Method, " ", got.RequestURI, " ", got.Proto, " ", got.Host, " ", got.ContentLength)
	if want := "POST /hooks?x=%20y HTTP/1.1 " + host + " 238"; line != want {
		t.Errorf("got %s, want %s", line, want)
	}
	if string(gotBody) != string(r.Body) {
		t.Errorf("got the body %s", gotBody)
	}
	want := http.Header{}
	want.Set(signature.HeaderSignature, signature.Sign(secrets[0], body))
	want.Set(signature.HeaderStandardID, string(r.Event))
	want.Set(signature.HeaderStandardTimestamp, strconv.FormatInt(at.Unix(), 10))
	signers := signature.NewSigners(secrets...)
	want.Set(signature.HeaderStandardSignature,
		string(signers.AppendStandard(nil, string(r.Event), at.Unix(), body)))
	want.Set(signature.HeaderTimestamp, want.Get(signature.HeaderStandardTimestamp))
	want.Set(signature.HeaderEvent, "webhook.test")
	want.Set(signature.HeaderDelivery, string(r.Delivery))
	want.Set(signature.HeaderAttempt, "12")
	want.Set("Traceparent", string(appendTraceparent(nil, &r)))
	want.Set("Content-Type", "application/json")
	want.Set("User-Agent", "agentsignal/1.2.3")
	want.Set("Content-Length", "238")
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	for _, secret := range secrets {
		if err := signature.Verify(secret, got.Header, gotBody, at); err != nil {
			t.Errorf("verify with %q: %v", secret, err)
		}
	}
	raw, err := standardwebhooks.NewWebhookRaw([]byte(secrets[0]))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := standardwebhooks.NewWebhook(secrets[1])
	if err != nil {
		t.Fatal(err)
	}
	for i, official := range []*standardwebhooks.Webhook{raw, encoded} {
		if err := official.Verify(gotBody, got.Header); err != nil {
			t.Errorf("the official library with %q: %v", secrets[i], err)
		}
	}
}

func TestHeadersAreWrittenInTheirCanonicalForm(t *testing.T) {
	t.Parallel()
	r := anAttempt("http://example.com/")
	text := newSender(t, Options{}).appendRequest(nil, &r)
	head, _, _ := strings.Cut(string(text), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if lines[0] != "POST / HTTP/1.1" || len(lines) != 14 {
		t.Errorf("%q and %d headers", lines[0], len(lines)-1)
	}
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(line, ": ")
		if canonical := http.CanonicalHeaderKey(name); name != canonical {
			t.Errorf("%s is %s in its canonical form", name, canonical)
		}
	}
}

func TestClassesOfAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC) // of the service's clock, which counts
	inAMinute := now.Add(time.Minute).Format(http.TimeFormat)
	tests := []struct {
		status     int
		retryAfter string
		class      string
		wait       time.Duration
	}{
		{200, "", ClassSuccess, 0},
		{201, "", ClassSuccess, 0},
		{202, "30", ClassSuccess, 0},
		{204, "", ClassSuccess, 0},
		{226, "", ClassSuccess, 0},
		{299, "", ClassSuccess, 0},
		{300, "", ClassRedirect, 0},
		{301, "", ClassRedirect, 0},
		{302, "30", ClassRedirect, 0},
		{304, "", ClassRedirect, 0},
		{307, "", ClassRedirect, 0},
		{308, "", ClassRedirect, 0},
		{400, "30", ClassClientError, 0},
		{401, "", ClassClientError, 0},
		{404, "", ClassClientError, 0},
		{410, "", ClassClientError, 0},
		{429, "", ClassClientError, 0},
		{429, "30", ClassClientError, 30 * time.Second},
		{500, "30", ClassServerError, 0},
		{503, "120", ClassServerError, 2 * time.Minute},
		{503, "soon", ClassServerError, 0},
		{503, inAMinute, ClassServerError, time.Minute},
		{599, "", ClassServerError, 0},
		{999, "", ClassServerError, 0},
	}
	var elsewhere atomic.Int32
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			elsewhere.Add(1)
			return
		}
		test := tests[len(r.URL.RawQuery)]
		if test.retryAfter != "" {
			w.Header().Set("Retry-After", test.retryAfter)
		}
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("Set-Cookie", "a=b; Path=/")
		if r.Header.Get("Cookie") != "" {
			elsewhere.Add(1)
		}
		w.WriteHeader(test.status)
	})
	sender := newSender(t, Options{Now: func() time.Time { return now }})
	for i, test := range tests {
		got := sender.Send(t.Context(), anAttempt(server.URL+"/?"+strings.Repeat("x", i)))
		wantError := ""
		if test.class != ClassSuccess {
			wantError = fmt.Sprint("status ", test.status)
		}
		if got.Status != test.status || got.Class != test.class || got.Error != wantError {
			t.Errorf("status %d: %+v", test.status, got)
		}
		if got.RetryAfter != test.wait {
			t.Errorf("status %d, Retry-After %q: %s, want %s", test.status, test.retryAfter, got.RetryAfter, test.wait)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests followed a redirect or carried a cookie", n)
	}
}

// A receiver may close a connection just when its second request arrives, like a server
// whose idle time has ended.
func TestAConnectionThatClosedMeanwhile(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(c *rawConn) {
		if c.readRequest() {
			c.write("HTTP/1.1 204 No Content\r\n\r\n")
			c.readRequest()
		}
	})
	sender := newSender(t, Options{})
	for n := range 5 {
		if r := sender.Send(t.Context(), anAttempt(server)); r.Status != 204 {
			t.Fatalf("attempt %d: %+v", n, r)
		}
	}
}

func TestAnAttemptCanBeCancelled(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	server := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices a disconnect once it has read all
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	sender := newSender(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	for _, when := range []string{"in flight", "before it began"} {
		got := sender.Send(ctx, anAttempt(server.URL))
		if !got.Cancelled() || got.Error != "cancelled" || got.Class != "" || got.Status != 0 {
			t.Errorf("cancelled %s: %+v", when, got)
		}
	}
}

func TestASenderUsesNoProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if r := newSender(t, Options{}).Send(t.Context(), anAttempt(server.URL)); r.Status != http.StatusNoContent {
		t.Errorf("an attempt with a proxy in the environment: %+v", r)
	}
}

func TestEveryClassIsListed(t *testing.T) {
	t.Parallel()
	want := strings.Fields("success redirect client_error server_error timeout connection tls dns blocked")
	if !slices.Equal(Classes, want) {
		t.Errorf("classes %v, want %v", Classes, want)
	}
}

// A request may have a time limit of its own, and demand the whole answer.
func TestARequestWithLimitsOfItsOwn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20<<10)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			io.WriteString(w, long)
		case "/broken":
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "half")
		case "/hanging":
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	s := newSender(t, Options{Timeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, test := range []struct {
		path    string
		maxBody int
		timeout time.Duration
		want    Result
	}{
		{"/long", 20 << 10, 0, Result{Status: 200, Class: ClassSuccess, Body: long}},
		{"/long", 20<<10 - 1, 0, Result{Status: 200, Class: ClassSuccess, TooLong: true}},
		{"/long", 0, 0, Result{Status: 200, Class: ClassSuccess, Body: long[:delivery.MaxResponseBody]}},
		{"/broken", 100, 0, Result{Status: 200, Class: ClassConnection, Error: "connection failed"}},
		{"/broken", 0, 0, Result{Status: 200, Class: ClassSuccess, Body: "half"}},
		{"/hanging", 100, 300 * time.Millisecond, Result{Status: 200, Class: ClassTimeout, Error: "timeout"}},
	} {
		r := anAttempt(server.URL + test.path)
		r.MaxBody, r.Timeout, r.At = test.maxBody, test.timeout, time.Time{}
		got := s.Send(ctx, r)
		got.Duration = 0
		if got != test.want {
			t.Errorf("%s with at most %d bytes: %.200s, want %.200s", test.path, test.maxBody, fmt.Sprint(got),
				fmt.Sprint(test.want))
		}
	}
}
