package http

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/tracing"
)

// Metrics are the counters of the HTTP layer. A nil *Metrics counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	// connections counts refused ones.
	connections prometheus.Counter
	// public counts requests for public records by whether their files were there.
	public  map[bool]prometheus.Counter
	limited map[limits.Class]prometheus.Counter
}

// NewMetrics registers the counters with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_http_requests_total",
			Help: "Answered HTTP requests, by path template, method and status."}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "agentsignal_http_request_duration_seconds",
			Help:    "Time from the end of a request's header to the end of its answer, for methods that the path has.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentsignal_http_requests_in_flight",
			Help: "HTTP requests being answered; connections of the stream count only until they begin."}),
		connections: prometheus.NewCounter(prometheus.CounterOpts{Name: "agentsignal_http_connections_refused_total",
			Help: "Connections refused because their address had too many without a credential."}),
		limited: make(map[limits.Class]prometheus.Counter),
	}
	public := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_public_record_requests_total",
		Help: "Requests for files of public records, by whether these were in the cache of the process: hit or miss."},
		[]string{"cache"})
	m.public = map[bool]prometheus.Counter{true: public.WithLabelValues("hit"), false: public.WithLabelValues("miss")}
	limited := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_http_rate_limited_total",
		Help: "Requests refused by a rate limit, by its class."}, []string{"class"})
	for _, c := range limits.Classes {
		m.limited[c] = limited.WithLabelValues(string(c))
	}
	r.MustRegister(m.requests, m.duration, m.inFlight, m.connections, public, limited)
	return m
}

// refused counts a request that was over its rate limit.
func (m *Metrics) refused(c limits.Class) {
	if m != nil {
		m.limited[c].Inc()
	}
}

// publicRecord counts a request for a public record.
func (m *Metrics) publicRecord(hit bool) {
	if m != nil {
		m.public[hit].Inc()
	}
}

// refusedConnection counts a connection over the limit of those without a credential.
func (m *Metrics) refusedConnection() {
	if m != nil {
		m.connections.Inc()
	}
}

// began and ended bracket each request.
func (m *Metrics) began() {
	if m != nil {
		m.inFlight.Inc()
	}
}

func (m *Metrics) ended(c *call, took time.Duration) {
	if m == nil {
		return
	}
	m.inFlight.Dec()
	route := unmatched
	if c.route != nil {
		route = c.route.template
	}
	if c.operation == nil || c.r.Method != c.operation.method {
		method := methodLabel(c.r.Method)
		if c.status == http.StatusMethodNotAllowed {
			method = otherMethod // else each path would have a series for each method that it does not have
		}
		m.requests.WithLabelValues(route, method, strconv.Itoa(c.status)).Inc()
		return
	}
	c.operation.tally.count(m, route, c.r.Method, c.status)
	o := c.operation.tally.observer(m, route, c.r.Method)
	if e, ok := o.(prometheus.ExemplarObserver); ok && took >= slowRequest {
		e.ObserveWithExemplar(took.Seconds(), exemplar(c))
	} else {
		o.Observe(took.Seconds())
	}
}

// slowRequest is from when the duration of a request has an exemplar.
const slowRequest = 100 * time.Millisecond

// exemplar returns the attributes of a request's line in the log that find it. They are below the 128 characters
// that an exemplar may have.
func exemplar(c *call) prometheus.Labels {
	labels := prometheus.Labels{"request": c.id}
	if trace := tracing.TraceID(c.r); trace != "" {
		labels["trace_id"] = trace
	}
	return labels
}

// unmatched stands for the path template of paths that do not exist.
const unmatched = "unmatched"

// otherMethod stands for methods that HTTP does not know, or the path does not have.
const otherMethod = "other"

// methodLabel returns method, or otherMethod for one that HTTP does not know.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return otherMethod
}

// tally holds the counters of one operation, so that counting needs no lookup by labels.
// Other methods of a path have no histogram of durations, which would be 17 series.
type tally struct {
	codes    [len(tallied)]atomic.Pointer[prometheus.Counter]
	duration atomic.Pointer[prometheus.Observer]
}

// tallied lists the statuses that have a counter in a tally.
var tallied = [...]int{200, 201, 204, 304, 400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503, statusClientGone, 101}

// count counts an answer. If two goroutines look the counter up at the same time, they find
// the same one.
func (t *tally) count(m *Metrics, route, method string, status int) {
	for i, known := range tallied {
		if known != status {
			continue
		}
		counter := t.codes[i].Load()
		if counter == nil {
			found := m.requests.WithLabelValues(route, method, strconv.Itoa(status))
			counter = &found
			t.codes[i].Store(counter)
		}
		(*counter).Inc()
		return
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
}

// observer returns the histogram of durations.
func (t *tally) observer(m *Metrics, route, method string) prometheus.Observer {
	o := t.duration.Load()
	if o == nil {
		found := m.duration.WithLabelValues(route, method)
		o = &found
		t.duration.Store(o)
	}
	return *o
}
