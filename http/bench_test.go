package http_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// discard is a ResponseWriter that discards all.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// benchmark measures this package only: on fakes, without a network, and with log lines that
// are encoded but not written.
func benchmark(b *testing.B, method, target, body string) {
	many := make([]signal.Listing, 25)
	for i := range many {
		many[i] = newSignal().Listing()
	}
	f := &fakes{list: func(catalogue.Query) ([]signal.Listing, int, error) { return many, 1_000_000, nil }}
	registry := prometheus.NewRegistry()
	s := newServer(b, f, func(o *config) {
		o.Metrics, o.Log = signalhttp.NewMetrics(registry), slog.New(slog.NewJSONHandler(io.Discard, nil))
	})
	h := s.Handler()
	request := httptest.NewRequest(method, target, nil)
	request.Header.Set("Authorization", "Bearer key")
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = int64(len(body))
	reader := strings.NewReader(body)
	var header http.Header
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		r := *request
		r.Body = io.NopCloser(reader)
		header = make(http.Header, 16)
		h.ServeHTTP(&discard{header}, &r)
	}
	if !bytes.Contains([]byte(header.Get("Content-Type")), []byte("application/json")) {
		b.Fatalf("answered with %v", header)
	}
}

func BenchmarkRun(b *testing.B) {
	benchmark(b, "POST", "/v1/agents/trading/run",
		`{"asset":"BTC","strategy":"momentum","timeframe":"1h","risk_level":"medium"}`)
}

func BenchmarkListSignals(b *testing.B) {
	benchmark(b, "GET", "/v1/signals?asset=BTC&direction=long&min_confidence=0.25", "")
}
