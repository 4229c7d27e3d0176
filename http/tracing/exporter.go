package tracing

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
)

const (
	maxQueue    = 2048 // spans that wait; others are dropped
	maxBatch    = 512
	batchEvery  = 5 * time.Second
	sendTimeout = 10 * time.Second
)

// Exporter sends spans to a collector in batches. Spans of a batch that cannot be sent are lost.
type Exporter struct {
	url      string
	headers  map[string]string
	resource []attribute
	client   http.Client
	log      *slog.Logger

	mu      sync.Mutex // guards waiting and ended
	waiting []*Span
	ended   bool

	full chan struct{} // a batch waits
	end  chan struct{}
	done chan struct{}
}

// Start returns an exporter to the collector that the environment names, by the variables of OpenTelemetry
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or nil if it names none.
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read too.
func Start(getenv func(string) string, log *slog.Logger) (*Exporter, error) {
	e := &Exporter{log: log, client: http.Client{Timeout: sendTimeout},
		full: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	if e.url = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); e.url == "" {
		endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
		if endpoint == "" {
			return nil, nil //nolint:nilnil // no exporter is no error
		}
		e.url = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	if u, err := url.Parse(e.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q: must be an HTTP URL", e.url)
	}
	var err error
	e.headers, err = pairs(cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), getenv("OTEL_EXPORTER_OTLP_HEADERS")))
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	of, err := pairs(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	of["service.name"] = cmp.Or(getenv("OTEL_SERVICE_NAME"), of["service.name"], "agentsignal")
	for name, v := range of {
		e.resource = append(e.resource, textAttribute(name, v))
	}
	go e.run()
	return e, nil
}

// pairs reads name=value pairs with commas between them; values are percent-encoded.
func pairs(text string) (map[string]string, error) {
	all := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%q is not of the form name=value", pair)
		}
		all[name] = value
	}
	return all, nil
}

// Close sends what waits and ends the exporter.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.ended {
		e.ended = true
		close(e.end)
	}
	e.mu.Unlock()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add takes a span, unless too many wait.
func (e *Exporter) add(s *Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == maxQueue || e.ended {
		return
	}
	if e.waiting = append(e.waiting, s); len(e.waiting) == maxBatch {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// run sends spans until Close.
func (e *Exporter) run() {
	defer close(e.done)
	for ended := false; !ended; {
		select {
		case <-e.full:
		case <-time.After(batchEvery):
		case <-e.end:
			ended = true
		}
		e.mu.Lock()
		all := e.waiting
		e.waiting = nil
		e.mu.Unlock()
		for len(all) > 0 {
			n := min(len(all), maxBatch)
			panics.Guard(e.log, panics.Background, func() {
				if err := e.send(all[:n]); err != nil {
					e.log.Warn("spans are not exported", "err", err)
				}
			})
			all = all[n:]
		}
	}
}

// send sends a batch.
func (e *Exporter) send(spans []*Span) error {
	body, err := json.Marshal(e.request(spans))
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, e.url, bytes.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range e.headers {
		r.Header.Set(name, value)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers with status %d", answer.StatusCode)
	}
	return nil
}

// The JSON of ExportTraceServiceRequest, as far as it is used.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	spanJSON struct {
		Trace      string      `json:"traceId"`
		ID         string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
		Status     struct {
			Code int `json:"code,omitempty"`
		} `json:"status"`
	}
	attribute struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	}
)

func textAttribute(name, v string) attribute {
	return attribute{name, map[string]string{"stringValue": v}}
}

// Of OTLP.
const (
	kindServer  = 2
	statusError = 2
)

// request returns the message with a batch.
func (e *Exporter) request(spans []*Span) exportRequest {
	var list scopeSpans
	list.Scope.Name = "github.com/agentsignal/agentsignal/http"
	for _, s := range spans {
		j := spanJSON{
			Trace:      s.trace,
			ID:         s.id,
			Parent:     s.parent.Span,
			Name:       strings.TrimSpace(s.Method + " " + s.Route),
			Kind:       kindServer,
			Start:      strconv.FormatInt(s.start.UnixNano(), 10),
			End:        strconv.FormatInt(s.end.UnixNano(), 10),
			Attributes: []attribute{textAttribute("http.request.method", s.Method)},
		}
		if s.Route != "" {
			j.Attributes = append(j.Attributes, textAttribute("http.route", s.Route))
		}
		if s.Status != 0 {
			j.Attributes = append(j.Attributes,
				attribute{"http.response.status_code", map[string]string{"intValue": strconv.Itoa(s.Status)}})
		}
		if s.Status >= http.StatusInternalServerError {
			j.Status.Code = statusError
		}
		list.Spans = append(list.Spans, j)
	}
	return exportRequest{[]resourceSpans{{attributes{e.resource}, []scopeSpans{list}}}}
}
