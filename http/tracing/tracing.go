// Package tracing sends a span of each request to a collector, by OTLP over HTTP in JSON, and reads the W3C
// Trace Context of requests. It has what the service needs of OpenTelemetry, whose exporter brings gRPC into the
// binary.
package tracing

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"time"
)

// Parent is what a traceparent says. The zero value is none.
type Parent struct {
	Trace, Span string // in hexadecimal
	Sampled     bool
}

// Offsets in a traceparent: version, trace ID, parent, flags.
const (
	traceFrom, traceTo = 3, 35
	spanFrom, spanTo   = 36, 52
	flagsFrom          = 53
	traceparentLength  = 55
)

// ParentOf returns the parent that the client of a request names.
func ParentOf(r *http.Request) Parent {
	values := r.Header["Traceparent"]
	if len(values) != 1 || len(values[0]) < traceparentLength || values[0][:2] == "ff" {
		return Parent{}
	}
	v := values[0]
	p := Parent{Trace: v[traceFrom:traceTo], Span: v[spanFrom:spanTo]}
	if v[traceFrom-1] != '-' || v[traceTo] != '-' || v[spanTo] != '-' || !isID(p.Trace) || !isID(p.Span) {
		return Parent{}
	}
	flags, err := hex.DecodeString(v[flagsFrom:traceparentLength])
	p.Sampled = err == nil && flags[0]&1 == 1
	return p
}

// isID reports whether text is an ID in lower case: not only zeros.
func isID(text string) bool {
	zeros := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '0':
			zeros++
		case '1' <= c && c <= '9', 'a' <= c && c <= 'f':
		default:
			return false
		}
	}
	return zeros < len(text)
}

// Span is what becomes known of a request. One goroutine at a time may use it.
type Span struct {
	Method string
	Route  string // template of the path, or "" for one that does not exist
	Status int

	parent     Parent
	trace, id  string
	start, end time.Time
}

// TraceID returns the trace ID of a request, in hexadecimal, or "". A request that Exporter.Handler has passed
// always has one.
func TraceID(r *http.Request) string {
	if s := Of(r); s != nil {
		return s.trace
	}
	return ParentOf(r).Trace
}

// spanKey is the key of a span in the context of its request.
type spanKey struct{}

// Of returns the span of a request, or nil without tracing.
func Of(r *http.Request) *Span {
	s, _ := r.Context().Value(spanKey{}).(*Span)
	return s
}

// Handler makes a span of each request to next, in the trace of the client's traceparent. It is exported unless
// the client has said that its trace is not sampled.
func (e *Exporter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &Span{Method: r.Method, parent: ParentOf(r), id: newID(8), start: time.Now()}
		if s.trace = s.parent.Trace; s.trace == "" {
			s.trace = newID(16)
		}
		defer func() { // after a panic, too
			if s.end = time.Now(); s.parent.Trace == "" || s.parent.Sampled {
				e.add(s)
			}
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), spanKey{}, s)))
	})
}

// newID returns a random ID of n bytes.
func newID(n int) string {
	id := make([]byte, n)
	for i := range id {
		id[i] = byte(rand.Uint32()) //nolint:gosec // IDs of traces are no secrets
	}
	id[0] |= 1 // never only zeros
	return hex.EncodeToString(id)
}
