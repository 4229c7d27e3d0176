package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
	"github.com/agentsignal/agentsignal/http/tracing"
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
		address:        clientAddress(r, s.o.Connections.trusted),
	}
	s.o.Metrics.began()
	setHeaders(c)
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
	s.o.Origins.serve(c, c.r, s.dispatch)
	return false
}

// setHeaders sets the headers of every answer.
func setHeaders(c *call) {
	h := c.Header()
	h["X-Request-Id"] = []string{c.id}
	h["X-Content-Type-Options"] = headerNoSniff
	h["Referrer-Policy"] = headerNoRefer
	h[versionHeader] = apiVersions[0].header
	h["Content-Security-Policy"] = headerAPICSP
	h["Cache-Control"] = headerNoStore
	if c.r.TLS != nil {
		h["Strict-Transport-Security"] = headerHSTS
	}
}

// dispatch has the handler that the router finds answer a call. It answers with the error document of a failure.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	var match mux.RouteMatch // router.ServeHTTP would copy the request twice for it
	s.router.Match(r, &match)
	if match.Route != nil {
		c.route, c.vars = match.Route.GetHandler().(*Route), match.Vars
	}
	match.Handler.ServeHTTP(c, r)
	if c.failure != nil {
		s.answer(c, c.failure)
	}
}

// step returns a middleware that makes a check of a call. The call ends with an error of the check, or if
// the check has answered.
func step(check func(*call) error) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := w.(*call)
			if c.failure = check(c); c.failure == nil && c.status == 0 {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// notFound is the error of a path that does not exist.
func (s *Server) notFound(c *call) error {
	if s.o.Waiting {
		return errWaiting
	}
	return unknownPath(c.r.URL.Path, s.routes)
}

// choose chooses the operation of the route that the router has found. It answers OPTIONS.
func (s *Server) choose(c *call) error {
	if c.route.page {
		delete(c.Header(), "Content-Security-Policy")
	}
	if c.route.cached {
		delete(c.Header(), "Cache-Control")
	}
	if s.o.Waiting && c.r.Method != http.MethodOptions && !c.route.always(c.r.Method) {
		return errWaiting
	}
	if span := tracing.Of(c.r); span != nil {
		span.Route = c.route.template
	}
	if c.r.Method == http.MethodOptions {
		c.Header()["Allow"] = c.route.allow
		return c.noContent()
	}
	if c.operation = c.route.operation(c.r.Method); c.operation == nil {
		c.Header()["Allow"] = c.route.allow
		return &signal.Error{Kind: signal.KindInvalid, Code: "method_not_allowed",
			Message: "the path has only the methods " + c.route.allow[0]}
	}
	return nil
}

// admit checks the credential of the request, its scope and the rate limit.
func (s *Server) admit(c *call) error {
	if s.refusing.Load() && !c.operation.always {
		c.Header()["Connection"] = []string{"close"}
		return errDraining
	}
	if err := s.auth.authenticate(c); err != nil {
		return err
	}
	if scope := c.operation.scope; scope != "" && !c.principal.Scopes.Has(scope) {
		return &scopeError{scope}
	}
	if c.principal.View != nil && !c.operation.readers {
		return errReader
	}
	if s.o.Waiting { // it has no limiter, and answers what costs little
		return nil
	}
	return s.limits.take(c, c.operation.class)
}

// readQuery reads the version that the request names, and the parameters of its query.
func (*Server) readQuery(c *call) error {
	apiVersions.choose(c)
	if !c.operation.anyQuery {
		c.query = request.NewQuery(c.r.URL.RawQuery, &c.faults, c.operation.params...)
	}
	return nil
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
		if limited := s.limits.take(c, limits.Failures); limited != nil {
			c.err = limited
			p = newProblem(limited)
		}
	}
	s.limits.show(c)
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

// shownPath returns the path of a request as answers show it.
func shownPath(r *http.Request) string {
	if masked, ok := maskPath(r.URL.Path); ok {
		return masked
	}
	return r.URL.EscapedPath()
}

// maskPath returns path with {token} in place of tokens of intakes, and whether it has any: all behind a part "intake", and
// parts with the prefix of tokens, which are at a wrong place.
func maskPath(path string) (masked string, ok bool) {
	folded := strings.ToLower(path)
	if !strings.Contains(folded, "intake/") && !strings.Contains(folded, signal.IntakeTokenPrefix) {
		return path, false
	}
	list := strings.Split(path, "/")
	for i, part := range list {
		if part != "" && i > 0 && strings.EqualFold(list[i-1], "intake") ||
			strings.Contains(strings.ToLower(part), signal.IntakeTokenPrefix) {
			list[i], ok = "{token}", true
		}
	}
	return strings.Join(list, "/"), ok
}

// maxLoggedPath is the length, in bytes, to which logged paths are cut.
const maxLoggedPath = 256

// logCall logs a request, without its query, which may hold a key.
func (s *Server) logCall(c *call, took time.Duration) {
	if span := tracing.Of(c.r); span != nil {
		span.Status = c.status
	}
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
	if masked, ok := maskPath(path); ok {
		path = masked
	}
	if len(path) > maxLoggedPath {
		path = path[:maxLoggedPath]
	}
	attrs := append(make([]slog.Attr, 0, 12), slog.String("method", methodLabel(c.r.Method)), slog.String("path", path),
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
	if trace := tracing.TraceID(c.r); trace != "" {
		attrs = append(attrs, slog.String("trace_id", trace))
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}
