package asked

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// newWire returns an Asked with a real sender, which may reach the given networks.
func newWire(tb testing.TB, networks ...string) *Asked {
	tb.Helper()
	var o guard.Options
	for _, n := range networks {
		o.AllowedNetworks = append(o.AllowedNetworks, netip.MustParsePrefix(n))
	}
	client := sender.New(sender.Options{Guard: guard.New(o)})
	tb.Cleanup(client.Close)
	sys := engine.NewSystem(engine.Options{})
	tb.Cleanup(func() {
		if err := sys.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return New(sys, Options{Sender: webhook.New(nil, client, nil, webhook.Options{}), Read: readDirection})
}

const loopback = "127.0.0.0/8"

// A question is signed as a delivery, and its id is the run.
func TestAQuestionIsSigned(t *testing.T) {
	t.Parallel()
	agent, run := newAgentOf(signal.NewAccountID(), "mine", ""), signal.NewRunID()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = signature.Verify(secret, r.Header, body, time.Now())
		}
		if err != nil || r.Header.Get("webhook-id") != string(run) || r.Header.Get("webhook-signature") == "" ||
			r.Method != http.MethodPost || r.URL.Path != "/ask" || r.Header.Get("X-Service-Event") != string(EventAsk) {
			t.Errorf("%s %s with %v: %v", r.Method, r.URL, r.Header, err)
		}
		want := string(appendQuestion(nil, run, requestOf(agent), snapshot(400), &barTexts{}))
		if diff := cmp.Diff(want, string(body)); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		io.WriteString(w, ` {"direction":"short"}`)
	}))
	t.Cleanup(server.Close)
	agent.Endpoint.URL = server.URL + "/ask"
	s, reason, err := newWire(t, loopback).Ask(t.Context(), run, requestOf(agent), snapshot(400))
	if err != nil || s.Direction != signal.Short || reason != "" {
		t.Errorf("the answer is %+v, %q, %v", s, reason, err)
	}
}

// raw writes a whole answer and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, text)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	spaces := strings.Repeat(" ", maxReply)
	const valid = `{"direction":"long"}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   string
		says   string // a part of the error's message, or the reason
	}{
		"a submission":         {text(valid), "", ""},
		"no signal":            {text(`{"signal":null,"reason":"no cross"}`), "", "no cross"},
		"no signal, no reason": {text(`{"signal":null}`), "", ""},
		"64 KiB":               {text(valid + spaces[len(valid):]), "", ""},
		"a byte more":          {text(valid + spaces[len(valid)-1:]), invalidReply, "more than 65536 bytes"},
		"no JSON":              {text(`{"direction":`), invalidReply, "cannot be read: unexpected end at byte 13"},
		"no text":              {text("{\"direction\":\"long\",\"a\":\"\xff\"}"), invalidReply, "UTF-8"},
		"nothing":              {status(204), invalidReply, "unexpected end"},
		"no submission":        {text(`{"direction":"up"}`), invalidReply, "direction must be long or short"},
		"a long reason": {text(`{"signal":null,"reason":"` + spaces[:501] + `"}`), invalidReply,
			"at most 500"},
		"a redirect": {status(307, "Location", "/elsewhere"), unreachable, "status 307, and redirects are not followed"},
		"no access":  {status(401), unreachable, "status 401"},
		"a failure":  {status(500), unreachable, "status 500"},
		"a break": {raw("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + valid), unreachable,
			"connection failed"},
		"a break in a chunk": {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + valid), unreachable,
			"connection failed"},
		"no answer": {raw(""), unreachable, "connection failed"},
		"no HTTP":   {raw(valid), unreachable, "connection failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			questions := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				questions++
				c.answer(w, r)
			}))
			t.Cleanup(server.Close)
			agent := newAgentOf("acc_1", "mine", server.URL)
			s, reason, err := newWire(t, loopback).Ask(t.Context(), signal.NewRunID(), requestOf(agent), nil)
			if codeOf(err) != c.code || (s != nil) != (err == nil && !strings.HasPrefix(name, "no signal")) {
				t.Errorf("the answer is %+v, %q, %v", s, reason, err)
			}
			said := reason
			if e, ok := errors.AsType[*signal.RunError](err); ok {
				said = e.Message
				if e.Retryable != (e.Code != signal.AgentReplyInvalid) {
					t.Errorf("retryable is %v", e.Retryable)
				}
			}
			if !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("it says %q", said)
			}
			if questions != 1 {
				t.Errorf("it was asked %d times", questions)
			}
		})
	}
}

func TestABusyEndpointIsAskedLater(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(status(503, "Retry-After", "7"))
	t.Cleanup(server.Close)
	agent := newAgentOf("acc_1", "mine", server.URL)
	_, _, err := newWire(t, loopback).Ask(t.Context(), signal.NewRunID(), requestOf(agent), nil)
	if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.AgentUnreachable || e.RetryAfter != 7*time.Second {
		t.Errorf("the answer is %+v", err)
	}
}

// Of an answer that does not end little is read.
func TestALargeAnswer(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	written := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, chunk := 0, bytes.Repeat([]byte(" "), 64<<10)
		for n < size {
			more, err := w.Write(chunk)
			if n += more; err != nil {
				break
			}
		}
		written <- n
	}))
	t.Cleanup(server.Close)
	agent := newAgentOf("acc_1", "mine", server.URL)
	_, _, err := newWire(t, loopback).Ask(t.Context(), signal.NewRunID(), requestOf(agent), nil)
	if codeOf(err) != invalidReply {
		t.Errorf("the answer is %v", err)
	}
	if n := <-written; n >= size { // what the kernel holds was written
		t.Errorf("all %d bytes were taken", n)
	}
}

// An endpoint that does not answer in time is given up, even if it has begun.
func TestAnEndpointThatHangs(t *testing.T) {
	t.Parallel()
	for _, begin := range []string{"", `{"direction":`} {
		gone := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if begin != "" {
				io.WriteString(w, begin)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
			close(gone)
		}))
		agent := newAgentOf("acc_1", "mine", server.URL)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _, err := newWire(t, loopback).Ask(ctx, signal.NewRunID(), requestOf(agent), nil)
		if codeOf(err) != timedOut {
			t.Errorf("after %q it ends with %v", begin, err)
		}
		<-gone
		cancel()
		server.Close()
	}
}

// The guard decides which addresses are asked, whatever the endpoint's name.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	a := newWire(t)
	for _, at := range []string{"https://127.0.0.1:8443/", "https://localhost:8443/", "https://10.1.2.3/",
		"https://169.254.169.254/", "https://[::1]:8443/"} {
		agent := newAgentOf("acc_1", "mine", at)
		_, _, err := a.Ask(t.Context(), signal.NewRunID(), requestOf(agent), nil)
		if codeOf(err) != unreachable || !strings.Contains(err.Error(), "address not allowed") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// BenchmarkAsk compares a question with 300 bars to a bare request with the same bodies by net/http, in turn.
func BenchmarkAsk(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"direction":"long"}`)
	}))
	b.Cleanup(server.Close)
	a, agent := newWire(b, loopback), newAgentOf("acc_1", "mine", server.URL)
	run, q, seen := signal.NewRunID(), requestOf(agent), snapshot(sentBars)
	body := appendQuestion(nil, run, q, seen, &barTexts{})
	var asked, bare time.Duration
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		begun := time.Now()
		if _, _, err := a.Ask(b.Context(), run, q, seen); err != nil {
			b.Fatal(err)
		}
		half := time.Now()
		r, err := http.Post(server.URL, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		asked, bare = asked+half.Sub(begun), bare+time.Since(half)
	}
	b.ReportMetric(float64(asked)/float64(bare), "of-bare")
	b.ReportMetric(float64(asked.Microseconds())/float64(b.N), "us/ask")
	b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "us/bare")
}
