package http

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentsignal/agentsignal/http/limits"
)

// metricsAge is how long an answer of /metrics is reused: it takes 8 ms to make, and
// requests need no credential.
const metricsAge = time.Second

// openMetrics is the media type of the other format of /metrics, which has exemplars.
const openMetrics = "application/openmetrics-text"

// exposition holds the newest answer of /metrics in one format.
type exposition struct {
	handler http.Handler
	accept  string

	mu     sync.Mutex
	made   time.Time
	newest *document
}

// MetricsHandlers answer with the metrics.
type MetricsHandlers struct{ text, open exposition }

// NewMetricsHandlers returns the handlers of the metrics that are registered with g.
func NewMetricsHandlers(g prometheus.Gatherer) *MetricsHandlers {
	h := promhttp.HandlerFor(g, promhttp.HandlerOpts{DisableCompression: true, EnableOpenMetrics: true})
	return &MetricsHandlers{
		text: exposition{handler: h},
		open: exposition{handler: h, accept: openMetrics + ";version=1.0.0"},
	}
}

// Routes implements Resource.
func (h *MetricsHandlers) Routes() []*Route {
	m := open(h.metrics)
	m[http.MethodGet].class = limits.Scrapes
	return []*Route{route("/metrics", probed(m))}
}

// metrics answers GET /metrics, in the text format or, for who accepts it, as OpenMetrics.
func (h *MetricsHandlers) metrics(c *call) error {
	e := &h.text
	if strings.Contains(c.r.Header.Get("Accept"), openMetrics) {
		e = &h.open
	}
	d, err := e.document()
	if err != nil {
		return err
	}
	return c.document(d)
}

// document returns the metrics of now or of less than metricsAge ago.
func (e *exposition) document() (*document, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.newest != nil && time.Since(e.made) < metricsAge {
		return e.newest, nil
	}
	w := recorder{header: make(http.Header)}
	e.handler.ServeHTTP(&w, &http.Request{Method: http.MethodGet, Header: http.Header{"Accept": {e.accept}}})
	if w.status >= http.StatusBadRequest {
		return nil, errors.New("make metrics: " + w.body.String())
	}
	e.newest, e.made = &document{types: w.header["Content-Type"], plain: w.body.Bytes()}, time.Now()
	return e.newest, nil
}
