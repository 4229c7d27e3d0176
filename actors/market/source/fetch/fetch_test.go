package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
)

type answer = func(*http.Request) (*http.Response, error)

// script is a server with scripted answers. It repeats the last one.
type script struct {
	mu      sync.Mutex
	answers []answer
	asked   []time.Time
}

func newScript(answers ...answer) *script { return &script{answers: answers} }

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	f := s.answers[min(len(s.asked), len(s.answers))-1]
	s.mu.Unlock()
	return f(r)
}

// reply returns an answer with headers, which are pairs of name and value.
func reply(status int, body string, headers ...string) answer {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i+1 < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func breaks(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") }

// stops sends a part of the body and then breaks off.
func stops(*http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	go func() {
		w.Write([]byte(`[1,`))
		w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: r}, nil
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// trickles sends a part of the body and then hangs.
func trickles(r *http.Request) (*http.Response, error) {
	out, in := io.Pipe()
	go func() {
		in.Write([]byte(`[1,`))
		<-r.Context().Done()
		in.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: out}, nil
}

func TestTriesAndFaults(t *testing.T) {
	t.Parallel()
	ok := reply(200, `[]`)
	for name, c := range map[string]struct {
		answers []answer
		tries   int
		kind    Kind // empty: an answer
		after   time.Duration
	}{
		"well":                       {[]answer{ok}, 1, "", 0},
		"with charset":               {[]answer{reply(200, `[]`, "Content-Type", "application/json; charset=UTF-8")}, 1, "", 0},
		"network, then well":         {[]answer{breaks, ok}, 2, "", 0},
		"5xx, then well":             {[]answer{reply(503, ""), reply(500, ""), ok}, 3, "", 0},
		"5xx":                        {[]answer{reply(502, "")}, 3, Server, 0},
		"network":                    {[]answer{breaks}, 3, Network, 0},
		"breaks off":                 {[]answer{stops}, 3, Network, 0},
		"hangs":                      {[]answer{hangs}, 3, Network, 0},
		"trickles, then well":        {[]answer{trickles, ok}, 2, "", 0},
		"429 for a moment":           {[]answer{reply(429, "", "Retry-After", "2"), ok}, 2, "", 0},
		"429 for long":               {[]answer{reply(429, "", "Retry-After", "60")}, 1, Limited, time.Minute},
		"429 without a delay":        {[]answer{reply(429, "")}, 1, Limited, defaultRest},
		"418":                        {[]answer{reply(418, "", "Retry-After", "7200")}, 1, Banned, 2 * time.Hour},
		"418 without a delay":        {[]answer{reply(418, "")}, 1, Banned, defaultBan},
		"400":                        {[]answer{reply(400, `{"code":-1121}`)}, 1, Refused, 0},
		"403":                        {[]answer{reply(403, "")}, 1, Refused, 0},
		"HTML":                       {[]answer{reply(200, "<html>", "Content-Type", "text/html")}, 1, Content, 0},
		"HTML with the type of JSON": {[]answer{reply(200, "\n <!DOCTYPE html><html>")}, 1, Content, 0},
		"no type":                    {[]answer{reply(200, `[]`, "Content-Type", "")}, 1, Content, 0},
		"too large":                  {[]answer{reply(200, strings.Repeat(" ", maxBody+1))}, 1, Large, 0},
		"304 not requested":          {[]answer{reply(304, "")}, 1, Refused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, results, sum := newScript(c.answers...), map[string]int{}, 0
				done := func(_, result string) { results[result]++; sum++ }
				client := New(Options{Name: "x", Transport: server, Done: done})
				a, err := client.Get(t.Context(), Request{URL: "http://x/"})
				fault, isFault := errors.AsType[*Error](err)
				switch {
				case c.kind == "" && (err != nil || string(a.Body) != "[]"):
					t.Errorf("%v", err)
				case c.kind != "" && (!isFault || fault.Kind != c.kind || fault.RetryAfter != c.after):
					t.Errorf("%v, want %s and %s", err, c.kind, c.after)
				}
				if len(server.asked) != c.tries {
					t.Errorf("%d tries, want %d", len(server.asked), c.tries)
				}
				for i := 1; i < len(server.asked); i++ {
					if pause := server.asked[i].Sub(server.asked[i-1]); pause < backoff.DefaultMin/2 {
						t.Errorf("try %d came after %s", i, pause)
					}
				}
				if sum != c.tries || c.kind != "" && results[string(c.kind)] == 0 {
					t.Errorf("counted %v", results)
				}
			})
		})
	}
}

func TestBanIsObeyed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(reply(418, "", "Retry-After", "120"), reply(200, "1"))
		client := New(Options{Name: "x", Transport: server})
		get := func() error {
			_, err := client.Get(t.Context(), Request{URL: "http://x/"})
			return err
		}
		get()
		for range 10 {
			if fault, ok := errors.AsType[*Error](get()); !ok || fault.Kind != Resting || fault.RetryAfter <= 0 {
				t.Fatalf("not at rest: %v", fault)
			}
			time.Sleep(10 * time.Second)
		}
		if len(server.asked) != 1 {
			t.Errorf("%d requests in the ban", len(server.asked))
		}
		time.Sleep(21 * time.Second)
		if err := get(); err != nil {
			t.Error(err)
		}
	})
}

func TestFailingServerGetsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(reply(500, ""))
		client := New(Options{Name: "x", Transport: server})
		begun := time.Now()
		for time.Since(begun) < time.Hour {
			client.Get(t.Context(), Request{URL: "http://x/"})
			time.Sleep(time.Second)
		}
		if n := len(server.asked); n < 12 || n > 30 {
			t.Errorf("%d requests in an hour", n)
		}
		server.mu.Lock()
		server.answers = []answer{reply(200, "1")}
		server.mu.Unlock()
		time.Sleep(maxRest)
		for range 5 {
			if _, err := client.Get(t.Context(), Request{URL: "http://x/"}); err != nil {
				t.Errorf("after it works again: %v", err)
			}
		}
	})
}

func TestEqualRequestsAreSentOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return reply(200, "1")(r)
		})
		client := New(Options{Name: "x", Transport: server})
		first, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := client.Get(first, Request{URL: "http://x/"}); !errors.Is(err, context.Canceled) {
				t.Errorf("the canceled request: %v", err)
			}
		}()
		synctest.Wait()
		var answered atomic.Int32
		for range 9 {
			go func() {
				if _, err := client.Get(t.Context(), Request{URL: "http://x/"}); err == nil {
					answered.Add(1)
				}
			}()
		}
		go client.Get(t.Context(), Request{URL: "http://x/other"})
		synctest.Wait()
		leave()
		time.Sleep(2 * time.Second)
		if len(server.asked) != 2 || answered.Load() != 9 {
			t.Errorf("%d requests, %d answers", len(server.asked), answered.Load())
		}
	})
}

func TestRateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(reply(200, "1"))
		client := New(Options{Name: "x", Transport: server, Rate: 2, Burst: 4})
		begun := time.Now()
		for i := range 12 {
			if _, err := client.Get(t.Context(), Request{URL: fmt.Sprint("http://x/", i), Cost: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("12 requests that cost 2 took %s", took)
		}
	})
}

// A request that would wait too long fails with the time to wait, and does not use up the rate.
func TestRequestBeyondTheRateFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(reply(200, "1"))
		client := New(Options{Name: "x", Transport: server, Rate: 1, Burst: 600})
		for i := range 3 {
			_, err := client.Get(t.Context(), Request{URL: fmt.Sprint("http://x/", i), Cost: 600})
			e, _ := errors.AsType[*Error](err)
			resting := e != nil && e.Kind == Resting && e.RetryAfter == 600*time.Second
			if i == 0 && err != nil || i > 0 && !resting {
				t.Errorf("request %d: %v", i, err)
			}
		}
		time.Sleep(600 * time.Second)
		if _, err := client.Get(t.Context(), Request{URL: "http://x/", Cost: 600}); err != nil {
			t.Errorf("ten minutes later: %v", err)
		}
	})
}

// A body may ask for rest whatever the status of the answer.
func TestBodyMayAskForRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newScript(reply(400, "busy"), reply(200, "1"))
		rest := func(body []byte) time.Duration { return time.Duration(len(body)) * time.Second }
		client := New(Options{Name: "x", Transport: server, Rest: rest})
		begun := time.Now()
		_, err := client.Get(t.Context(), Request{URL: "http://x/"})
		if took := time.Since(begun); err != nil || took < 4*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	server := newScript(func(r *http.Request) (*http.Response, error) {
		h := r.Header
		if h.Get("If-None-Match") == `"v1"` && h.Get("If-Modified-Since") == "then" && h.Get("X-Key") == "k" {
			return reply(304, "")(r)
		}
		return reply(200, "1", "ETag", `"v1"`, "Last-Modified", "then")(r)
	})
	client := New(Options{Name: "x", Transport: server, Header: http.Header{"X-Key": {"k"}}})
	a, err := client.Get(t.Context(), Request{URL: "http://x/"})
	if err != nil || a.Unchanged || a.ETag != `"v1"` || a.LastModified != "then" {
		t.Fatalf("%+v, %v", a, err)
	}
	a, err = client.Get(t.Context(), Request{URL: "http://x/", ETag: a.ETag, LastModified: a.LastModified})
	if err != nil || !a.Unchanged {
		t.Errorf("%+v, %v", a, err)
	}
}
