package http_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/agentsignal/agentsignal/http/limits"
)

// gathered counts the gatherings of metrics.
type gathered struct {
	prometheus.Gatherer
	times atomic.Int32
}

func (g *gathered) Gather() ([]*dto.MetricFamily, error) {
	g.times.Add(1)
	return g.Gatherer.Gather()
}

// get sends a request to a handler without a network, so that it works in a bubble.
func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func unzip(t *testing.T, b []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMetricsAreMadeOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "ticks_total",
			Help: strings.Repeat("A long text. ", 200)})
		registry.MustRegister(counter)
		g := &gathered{Gatherer: registry}
		h := newServer(t, &fakes{}, func(o *config) { o.Gatherer = g }).Handler()
		for second, want := range []string{"ticks_total 0", "ticks_total 1000"} {
			for range 1000 {
				w := get(h, "/metrics")
				if w.Code != 200 || !strings.Contains(w.Body.String(), want) ||
					w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8; escaping=underscores" {
					t.Fatalf("second %d: %d %v\n%s", second, w.Code, w.Header(), w.Body)
				}
				counter.Inc()
			}
			w := get(h, "/metrics", "Accept-Encoding: gzip")
			if w.Header().Get("Content-Encoding") != "gzip" || !strings.Contains(unzip(t, w.Body.Bytes()), want) {
				t.Errorf("compressed: %v", w.Header())
			}
			if n := g.times.Load(); int(n) != 2*second+1 {
				t.Errorf("second %d: gathered %d times", second, n)
			}
			for range 2 { // as Prometheus asks
				w = get(h, "/metrics", "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3")
				if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text; version=1.0.0") ||
					!strings.HasSuffix(w.Body.String(), "# EOF\n") {
					t.Errorf("OpenMetrics: %v\n%s", w.Header(), w.Body)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

func TestMetricsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	failing := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, io.ErrUnexpectedEOF })
	s := newServer(t, &fakes{}, func(o *config) { o.Gatherer = failing })
	a := do(t, s, "GET", "/metrics", "")
	if p := a.problem(t); a.Status != 500 || p.Code != "internal" || strings.Contains(a.Body, "EOF") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestScrapesAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	limiter := limits.New(nil,
		limits.Options{Quotas: limits.Quotas{limits.Scrapes: {Requests: 2, Period: time.Minute}}})
	s := newServer(t, &fakes{}, func(o *config) { o.Limits = limiter })
	for i, want := range []int{200, 200, 429, 429} {
		a := do(t, s, "GET", "/metrics", "", "Authorization: Bearer jwt")
		if a.Status != want || want == 429 && a.Header.Get("Retry-After") == "" {
			t.Errorf("request %d: %d %v", i, a.Status, a.Header)
		}
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.RemoteAddr = "192.0.2.99:1234"
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("another address: %d", w.Code)
	}
}

func TestDescriptionsAreCompressed(t *testing.T) {
	t.Parallel()
	h := newServer(t, &fakes{}).Handler()
	for _, path := range []string{"/v1/openapi.json", "/v1/openapi.yaml", "/v1/asyncapi.yaml"} {
		plain, small := get(h, path), get(h, path, "Accept-Encoding: gzip")
		if small.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" ||
			unzip(t, small.Body.Bytes()) != plain.Body.String() {
			t.Errorf("%s: %v and %v", path, plain.Header(), small.Header())
		}
		for _, w := range []*httptest.ResponseRecorder{plain, small} {
			if w.Header().Get("Vary") != "Accept-Encoding" ||
				w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) ||
				w.Header().Get("Cache-Control") != "public, max-age=300" {
				t.Errorf("%s: %v", path, w.Header())
			}
		}
	}
}
