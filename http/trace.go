package http

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// traced makes a span for each request, in the trace of the client's traceparent.
func traced(next http.Handler) http.Handler { return otelhttp.NewHandler(next, "http") }

// nameSpan names the request's span by its path template. Without tracing it does nothing.
func (c *call) nameSpan() {
	span := trace.SpanFromContext(c.r.Context())
	if !span.IsRecording() || c.endpoint == nil {
		return
	}
	span.SetName(c.r.Method + " " + c.endpoint.template)
	span.SetAttributes(attribute.String("http.route", c.endpoint.template))
}

// Offsets in a traceparent (W3C Trace Context): version, trace id, parent, flags.
const (
	traceFrom, traceTo = 3, 35
	traceparentLength  = 55
)

// traceID returns the trace ID of a request in hexadecimal, or "". It reads the client's
// traceparent even if tracing is off.
func traceID(r *http.Request) string {
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		return span.TraceID().String()
	}
	values := r.Header["Traceparent"]
	if len(values) != 1 || len(values[0]) < traceparentLength || values[0][:2] == "ff" ||
		values[0][traceFrom-1] != '-' || values[0][traceTo] != '-' {
		return ""
	}
	id, zeros := values[0][traceFrom:traceTo], 0
	for i := range len(id) {
		switch c := id[i]; {
		case c == '0':
			zeros++
		case '1' <= c && c <= '9', 'a' <= c && c <= 'f':
		default:
			return ""
		}
	}
	if zeros == len(id) {
		return ""
	}
	return id
}
