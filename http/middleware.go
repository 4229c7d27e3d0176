package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// serve handles every request: it gives it an ID, answers it whatever panics, counts and
// logs it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{
		ResponseWriter: w,
		r:              r,
		server:         s,
		start:          time.Now(),
		id:             requestID(r.Header),
		address:        clientAddress(r, s.o.TrustedProxies),
	}
	s.o.Metrics.began()
	c.endpoint, c.vars = s.match(r)
	c.setHeaders()
	broken := s.guarded(c)
	if c.status == 0 && !broken {
		c.status = http.StatusOK // net/http answers so where a handler sets no status
	}
	took := time.Since(c.start)
	s.o.Metrics.ended(c, took)
	s.logCall(c, took)
	if broken {
		panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
	}
	if c.then != nil {
		c.then()
	}
}

// guarded answers c and recovers from panics. It reports whether the answer was begun but
// not finished.
func (s *Server) guarded(c *call) (broken bool) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			broken = true
			return
		}
		s.log.Error("handler panicked", "panic", fmt.Sprint(reason), "request", c.id, "stack", string(debug.Stack()))
		if c.then = nil; c.status != 0 {
			broken = true
			return
		}
		c.err = fmt.Errorf("panic: %v", reason)
		p := newProblem(c.err)
		c.fail(&p)
	}()
	if s.cors != nil {
		s.cors.ServeHTTP(c, c.r, func(http.ResponseWriter, *http.Request) { s.dispatch(c) })
	} else {
		s.dispatch(c)
	}
	return false
}

// setHeaders sets the headers of every answer.
func (c *call) setHeaders() {
	h := c.Header()
	h["X-Request-Id"] = []string{c.id}
	h["X-Content-Type-Options"] = headerNoSniff
	h["Referrer-Policy"] = headerNoRefer
	h[versionHeader] = c.server.versions[0].header
	if c.endpoint == nil || !c.endpoint.page {
		h["Content-Security-Policy"] = headerAPICSP
	}
	if c.endpoint == nil || !c.endpoint.cached {
		h["Cache-Control"] = headerNoStore
	}
	if c.r.TLS != nil {
		h["Strict-Transport-Security"] = headerHSTS
	}
}

// dispatch answers with the outcome of the operation, or with an error document.
func (s *Server) dispatch(c *call) {
	if err := s.handle(c); err != nil {
		s.answer(c, err)
	}
}

// handle makes the checks that precede those of the request's values, in the order of the
// package comment, and runs the operation.
func (s *Server) handle(c *call) error {
	if s.o.Waiting && (c.endpoint == nil || c.r.Method != http.MethodOptions && !c.endpoint.always(c.r.Method)) {
		return errWaiting
	}
	if c.endpoint == nil {
		return s.unknownPath(c.r.URL.Path)
	}
	c.nameSpan()
	if c.r.Method == http.MethodOptions {
		c.Header()["Allow"] = c.endpoint.allow
		return c.noContent()
	}
	if c.operation = c.endpoint.operation(c.r.Method); c.operation == nil {
		c.Header()["Allow"] = c.endpoint.allow
		return &signal.Error{Kind: signal.KindInvalid, Code: "method_not_allowed",
			Message: "the path has only the methods " + c.endpoint.allow[0]}
	}
	if s.refusing.Load() && !c.operation.always {
		c.Header()["Connection"] = []string{"close"}
		return errDraining
	}
	if err := s.authenticate(c); err != nil {
		return err
	}
	if scope := c.operation.scope; scope != "" && !c.principal.Scopes.Has(scope) {
		return &scopeError{scope}
	}
	if !s.o.Waiting { // it has no limiter, and answers what costs little
		if err := s.limit(c, c.operation.class); err != nil {
			return err
		}
	}
	s.selectVersion(c)
	if !c.operation.anyQuery {
		c.query = request.NewQuery(c.r.URL.RawQuery, &c.faults, c.operation.params...)
	}
	c.confirms = c.operation.confirms
	err := c.operation.handle(c)
	if err != nil && c.confirms && dependsOnRecords(err) {
		if unconfirmed := c.confirm(); unconfirmed != nil {
			return unconfirmed
		}
	}
	return err
}

// answer writes the error document of err, unless the answer has begun or the client has
// left.
func (s *Server) answer(c *call, err error) {
	c.err = err
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, context.Canceled) && c.r.Context().Err() != nil {
		c.WriteHeader(statusClientGone)
		return
	}
	p := newProblem(err)
	if p.Status == http.StatusUnauthorized {
		if limited := s.limit(c, limits.Failures); limited != nil {
			c.err = limited
			p = newProblem(limited)
		}
	}
	s.showLimit(c)
	c.fail(&p)
}

// requestID returns the ID that the client gave the request if it is valid, or a new one.
func requestID(h http.Header) string {
	values := h["X-Request-Id"]
	if len(values) != 1 || !isRequestID(values[0]) {
		return signal.NewRequestID()
	}
	return values[0]
}

// isRequestID reports whether s is 1 to 64 letters, digits, dots, underscores and hyphens.
func isRequestID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// maxLoggedPath is the length, in bytes, to which logged paths are cut.
const maxLoggedPath = 256

// logCall logs a request, without its query, which may hold a key.
func (s *Server) logCall(c *call, took time.Duration) {
	level := slog.LevelInfo
	probe := c.operation != nil && c.operation.probe
	switch {
	case probe && c.status < 400:
		level = slog.LevelDebug
	case c.status == http.StatusInternalServerError && signal.KindOf(c.err) == signal.KindInternal:
		level = slog.LevelError
	case c.status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	}
	ctx := c.r.Context()
	if !s.log.Enabled(ctx, level) {
		return
	}
	path := c.r.URL.Path
	if len(path) > maxLoggedPath {
		path = path[:maxLoggedPath]
	}
	var room [12]slog.Attr
	attrs := append(room[:0], slog.String("method", methodLabel(c.r.Method)), slog.String("path", path),
		slog.Int("status", c.status),
		slog.Int64("bytes", c.bytes), slog.Float64("ms", float64(took.Microseconds())/1000))
	if !probe || level == slog.LevelDebug { // without these, failing probes are logged as one repeated fault
		attrs = append(attrs, slog.String("request", c.id), slog.String("address", c.address))
	}
	if c.principal.Account != "" {
		attrs = append(attrs, slog.String("account", string(c.principal.Account)))
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("err", c.err.Error()))
	}
	if trace := traceID(c.r); trace != "" {
		attrs = append(attrs, slog.String("trace_id", trace))
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}
