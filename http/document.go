package http

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// document is an answer to many requests, which is compressed once.
type document struct {
	types []string // its Content-Type
	plain []byte
	once  sync.Once
	small []byte // compressed
}

// compressed returns the document in gzip.
func (d *document) compressed() []byte {
	d.once.Do(func() {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(d.plain) // a buffer takes all
		_ = w.Close()
		d.small = b.Bytes()
	})
	return d.small
}

// document answers with d, compressed if the client takes that.
func (c *call) document(d *document) error {
	h, body := c.Header(), d.plain
	h["Content-Type"] = d.types
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(c.r.Header["Accept-Encoding"]) {
		h["Content-Encoding"] = []string{"gzip"}
		body = d.compressed()
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(body) // fails if the client has left
	return nil
}

// takesGzip reports whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3).
func takesGzip(values []string) bool {
	any := false
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			coding, weight, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			allowed := !strings.EqualFold(name, "q") || err == nil && q > 0
			switch coding = strings.TrimSpace(coding); {
			case strings.EqualFold(coding, "gzip"):
				return allowed
			case coding == "*":
				any = allowed
			}
		}
	}
	return any
}

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

// metrics answers GET /metrics, in the text format or, for who accepts it, as OpenMetrics.
func (s *Server) metrics() func(*call) error {
	h := promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{DisableCompression: true, EnableOpenMetrics: true})
	text, open := exposition{handler: h}, exposition{handler: h, accept: openMetrics + ";version=1.0.0"}
	return func(c *call) error {
		e := &text
		if strings.Contains(c.r.Header.Get("Accept"), openMetrics) {
			e = &open
		}
		d, err := e.document()
		if err != nil {
			return err
		}
		return c.document(d)
	}
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

// recorder records an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
