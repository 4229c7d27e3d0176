package http

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rs/cors"
)

// Origins are the origins of pages that may use the API. Nil has none.
type Origins struct {
	allowed map[string]bool
	cors    *cors.Cors
}

// NewOrigins returns exact origins, such as https://app.example.com. The error names a malformed one.
func NewOrigins(origins []string) (*Origins, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	allowed := make(map[string]bool)
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("allow origin %q: must be a scheme and a host, such as https://app.example.com", origin)
		}
		allowed[strings.ToLower(origin)] = true
	}
	return &Origins{allowed: allowed, cors: cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-Id",
			"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Traceparent", "X-Request-Id", "X-Service-Version"},
		ExposedHeaders: []string{"Deprecation", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy",
			"Retry-After", "Sunset", "WWW-Authenticate", "X-RateLimit-Limit", "X-RateLimit-Remaining",
			"X-RateLimit-Reset", "X-Request-Id", "X-Run-Id", "X-Service-Version"},
		MaxAge:             600,
		OptionsPassthrough: true,
	})}, nil
}

// listed reports whether origin is one of these.
func (o *Origins) listed(origin string) bool { return o != nil && o.allowed[strings.ToLower(origin)] }

// serve sets the headers of CORS, if there are origins, and runs next.
func (o *Origins) serve(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	if o == nil {
		next(w, r)
		return
	}
	o.cors.ServeHTTP(w, r, next)
}

// ownOrListed reports whether a page of the request's origin is of the service itself or of these origins.
// Clients other than browsers send no origin.
func (o *Origins) ownOrListed(r *http.Request) bool {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	if o.listed(values[0]) {
		return true
	}
	u, err := url.Parse(values[0])
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// allListed reports whether the request has no origin but these. The service's own name is not accepted: a
// page may have made it the name of its own host (DNS rebinding).
func (o *Origins) allListed(r *http.Request) bool {
	for _, origin := range r.Header["Origin"] {
		if !o.listed(origin) {
			return false
		}
	}
	return true
}
