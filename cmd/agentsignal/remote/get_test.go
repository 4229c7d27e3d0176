package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// reader returns a reader of a service that gives the answers one after the other, and the
// pauses between its attempts.
func reader(t *testing.T, answers ...func(http.ResponseWriter)) (*Reader, *[]time.Duration) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.URL.RequestURI() != "/v1/x?a=1" {
			t.Errorf("%s with %v is requested", r.URL, r.Header)
		}
		n++
		answers[min(n, len(answers))-1](w)
	}))
	t.Cleanup(s.Close)
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var pauses []time.Duration
	return &Reader{Address: address, Key: "key", Sleep: func(_ context.Context, d time.Duration) bool {
		pauses = append(pauses, d)
		return true
	}}, &pauses
}

func status(code int, after, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func TestReadsAreRepeatedWhileTheServiceAsksForIt(t *testing.T) {
	t.Parallel()
	hangUp := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	r, pauses := reader(t, hangUp, status(429, "7", "{}"), status(503, "30", ""), status(503, "86400", ""),
		status(200, "", "[1]"))
	body, err := r.Get(t.Context(), "/v1/x?a=1")
	if string(body) != "[1]" || err != nil {
		t.Fatalf("%s, %v", body, err)
	}
	want := []time.Duration{7 * time.Second, 30 * time.Second, maxRetryPause}
	if p := *pauses; len(p) != 4 || p[0] < minRetryPause/2 || p[0] > 2*minRetryPause || !slices.Equal(p[1:], want) {
		t.Errorf("pauses %v", p)
	}
}

func TestReadsEnd(t *testing.T) {
	t.Parallel()
	r, pauses := reader(t, status(503, "", ""))
	if _, err := r.Get(t.Context(), "/v1/x?a=1"); err == nil ||
		!strings.Contains(err.Error(), "given up after 20 attempts") ||
		len(*pauses) != maxAttempts-1 {
		t.Errorf("%v after %d pauses", err, len(*pauses))
	}
	for code, want := range map[int]string{
		401: "refuses the key", 403: "refuses the request (403)", 404: "no agentsignal answers", 409: "not_signed"} {
		r, pauses := reader(t, status(code, "15", `{"detail":"not_signed"}`))
		_, err := r.Get(t.Context(), "/v1/x?a=1")
		fault, ok := errors.AsType[*Fault](err)
		if !ok || fault.Status != code || !strings.Contains(fault.Text, want) || len(*pauses) > 0 {
			t.Errorf("%d: %v after %d pauses", code, err, len(*pauses))
		}
	}
	r, _ = reader(t, status(200, "", strings.Repeat("x", maxReadAnswer+1)))
	if _, err := r.Get(t.Context(), "/v1/x?a=1"); err == nil ||
		!strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("a long answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _ = reader(t, status(503, "", ""))
	r.Sleep = func(context.Context, time.Duration) bool { cancel(); return false }
	if _, err := r.Get(ctx, "/v1/x?a=1"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
