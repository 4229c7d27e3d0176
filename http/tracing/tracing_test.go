package tracing

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

func TestParent(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Parent{
		"00-" + traceID + "-" + parentID + "-01":                   {traceID, parentID, true},
		"00-" + traceID + "-" + parentID + "-02":                   {traceID, parentID, false},
		"01-" + traceID + "-" + parentID + "-01-more":              {traceID, parentID, true},
		"ff-" + traceID + "-" + parentID + "-01":                   {},
		"00-" + strings.ToUpper(traceID) + "-" + parentID + "-01":  {},
		"00-" + strings.Repeat("0", 32) + "-" + parentID + "-01":   {},
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01":    {},
		"00-" + traceID + "_" + parentID + "-01":                   {},
		"00-" + strings.Repeat("\n", 32) + "-" + parentID + "-01 ": {},
		"nonsense": {},
		"":         {},
	} {
		if got := ParentOf(&http.Request{Header: http.Header{"Traceparent": {value}}}); got != want {
			t.Errorf("%q: got %+v", value, got)
		}
	}
}

// TestSpansReachACollector passes requests of a sampled trace, of one that is not sampled and of none.
func TestSpansReachACollector(t *testing.T) {
	t.Parallel()
	type received struct {
		path, key string
		body      exportRequest
	}
	got := make(chan received, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m := received{path: r.URL.Path, key: r.Header.Get("Api-Key")}
		if err := json.NewDecoder(r.Body).Decode(&m.body); err != nil {
			t.Error(err)
		}
		got <- m
	}))
	t.Cleanup(collector.Close)
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b",
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=signals"}
	e, err := Start(func(name string) string { return env[name] }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := e.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := Of(r)
		s.Route, s.Status = "/v1/signals", 503
		if TraceID(r) == "" {
			t.Error("a request has no trace")
		}
	}))
	for _, parent := range []string{"00-" + traceID + "-" + parentID + "-01", "00-" + traceID + "-" + parentID + "-00", ""} {
		r := httptest.NewRequest(http.MethodGet, "/v1/signals", nil)
		r.Header.Set("Traceparent", parent)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := <-got
	spans := m.body.ResourceSpans[0].ScopeSpans[0].Spans
	if m.path != "/v1/traces" || m.key != "a b" || len(spans) != 2 || len(spans[1].Trace) != 32 || spans[1].Parent != "" {
		t.Fatalf("the collector has %+v", m)
	}
	if service := m.body.ResourceSpans[0].Resource.Attributes; service[0].Value["stringValue"] != "signals" {
		t.Errorf("the service is %v", service)
	}
	want := spanJSON{Trace: traceID, Parent: parentID, Name: "GET /v1/signals", Kind: kindServer, Attributes: []attribute{
		textAttribute("http.request.method", "GET"), textAttribute("http.route", "/v1/signals"),
		{"http.response.status_code", map[string]string{"intValue": "503"}}}}
	want.Status.Code = statusError
	if d := cmp.Diff(want, spans[0], cmpopts.IgnoreFields(spanJSON{}, "ID", "Start", "End")); d != "" ||
		len(spans[0].ID) != 16 || spans[0].Start > spans[0].End {
		t.Errorf("the span is %+v\n%s", spans[0], d)
	}
}

func TestWhatTheEnvironmentMayName(t *testing.T) {
	t.Parallel()
	for value, fails := range map[string]bool{"": false, "localhost:4318": true, "ftp://localhost": true} {
		e, err := Start(func(name string) string {
			if name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
				return value
			}
			return ""
		}, slog.New(slog.DiscardHandler))
		if e != nil || (err != nil) != fails {
			t.Errorf("%q: %v, %v", value, e, err)
		}
	}
}
