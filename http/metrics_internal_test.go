package http

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A slow request leads by its exemplar to its line in the log. Exemplars are in OpenMetrics alone.
func TestSlowRequestsLeadToTheLog(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	s := &Server{log: slog.New(slog.NewTextHandler(&lines, nil))}
	for _, request := range []struct {
		id, trace string
		took      time.Duration
	}{
		{"traced", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 200 * time.Millisecond},
		{strings.Repeat("u", 64), "", 400 * time.Millisecond},
		{"fast", "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01", 99 * time.Millisecond},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/signals", nil)
		if request.trace != "" {
			r.Header.Set("Traceparent", request.trace)
		}
		o := &operation{method: http.MethodGet}
		c := &call{r: r, id: request.id, status: 200, server: s, route: &Route{template: "/v1/signals"}, operation: o}
		m.began()
		m.ended(c, request.took)
		s.logCall(c, request.took)
	}
	expose := func(accept string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
		return w.Body.String()
	}
	open := expose(openMetrics)
	// The order of an exemplar's labels is not fixed.
	open = strings.ReplaceAll(open, `{trace_id="0af7651916cd43dd8448eb211c80319c",request="traced"}`,
		`{request="traced",trace_id="0af7651916cd43dd8448eb211c80319c"}`)
	for _, exemplar := range []string{
		`le="0.25"} 2 # {request="traced",trace_id="0af7651916cd43dd8448eb211c80319c"} 0.2`,
		`le="0.5"} 3 # {request="` + strings.Repeat("u", 64) + `"} 0.4`,
		`le="0.1"} 1` + "\n",
	} {
		if !strings.Contains(open, exemplar) {
			t.Errorf("%s is not in\n%s", exemplar, open)
		}
	}
	for _, part := range []string{"request=traced ", "trace_id=0af7651916cd43dd8448eb211c80319c"} {
		if !strings.Contains(lines.String(), part) {
			t.Errorf("%s is not in the log\n%s", part, lines.String())
		}
	}
	if strings.Contains(expose("text/plain"), "traced") {
		t.Error("the text format has exemplars")
	}
}
