package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// redirecting returns the URL of a server that redirects every request.
func redirecting(t *testing.T, status int, to func(*http.Request) string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := to(r); to != "" {
			http.Redirect(w, r, to, status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`"here"`))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestSecretsStayWithTheHost(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Request]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`"there"`))
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		base := redirecting(t, status, func(*http.Request) string { return other.URL + "/x" })
		c := New(Options{Name: "src", Header: http.Header{"Apca-Api-Secret-Key": {"hidden"}}})
		_, err := c.Get(context.Background(), Request{URL: base + "/v1?apikey=secret"})
		fault, ok := errors.AsType[*Error](err)
		if !ok || fault.Kind != Refused {
			t.Fatalf("%d: %v", status, err)
		}
		if r := got.Load(); r != nil {
			t.Fatalf("%d: the other host got %v", status, r.Header)
		}
		text := err.Error()
		if !strings.Contains(text, other.URL+", which is not followed") || strings.Contains(text, "secret") ||
			strings.Contains(text, "/x") {
			t.Errorf("%d: %s", status, text)
		}
	}
	base := redirecting(t, 302, func(*http.Request) string { return other.URL + "/x" })
	a, err := New(Options{Name: "feeds", AnyHost: true}).Get(context.Background(), Request{URL: base + "/?t=1"})
	if err != nil || string(a.Body) != `"there"` {
		t.Errorf("a client without secrets: %v, %v", a, err)
	}
	if from := got.Load().Header.Get("Referer"); from != "" {
		t.Errorf("the other host got the Referer %s", from)
	}
}

func TestRedirectsWithinAHostAreFollowed(t *testing.T) {
	t.Parallel()
	base := redirecting(t, 301, func(r *http.Request) string {
		if r.URL.Path == "/old" {
			return "/new"
		}
		return ""
	})
	c := New(Options{Name: "src"})
	if a, err := c.Get(context.Background(), Request{URL: base + "/old"}); err != nil || string(a.Body) != `"here"` {
		t.Errorf("%v, %v", a, err)
	}
	round := redirecting(t, 302, func(*http.Request) string { return "/again" })
	_, err := c.Get(context.Background(), Request{URL: round})
	if fault, ok := errors.AsType[*Error](err); !ok || fault.Kind != Refused {
		t.Errorf("in a circle: %v", err)
	}
}

func TestErrorsDoNotShowTheAddress(t *testing.T) {
	t.Parallel()
	c := New(Options{Name: "src", Transport: newScript(breaks)})
	_, err := c.Get(context.Background(), Request{URL: "http://127.0.0.1:1/v1?apikey=secret"})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("%v", err)
	}
}
