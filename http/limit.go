package http

import (
	"context"

	"github.com/agentsignal/agentsignal/http/limits"
)

// Limiter counts requests against the rate limits. See limits.Limiter.
type Limiter interface {
	// Take counts a request of class by who, an account or an address. It always
	// answers.
	Take(ctx context.Context, class limits.Class, who string) limits.Decision
	// Peek says what Take would, without counting, as far as this process knows.
	Peek(class limits.Class, who string) limits.Decision
}

// limit counts the request and says in the headers what is left. Without a class
// nothing is limited.
func (s *Server) limit(c *call, class limits.Class) error {
	if class == "" {
		return nil
	}
	d := s.o.Limits.Take(c.r.Context(), class, c.limited(class))
	if d.Allowed && c.limitTold() {
		return nil // a failure: the headers tell of the limit of the endpoint
	}
	d.Write(c.Header(), s.o.Now())
	if d.Allowed {
		return nil
	}
	s.o.Metrics.refused(class)
	e := *errRateLimited
	e.RetryAfter = d.RetryAfter
	return &e
}

// tellLimit says in the headers what is left of the endpoint's limit, if the answer
// was found before a request was counted: no credential, no scope, draining.
func (s *Server) tellLimit(c *call) {
	if c.operation == nil || c.operation.class == "" || c.limitTold() {
		return
	}
	d := s.o.Limits.Peek(c.operation.class, c.limited(c.operation.class))
	d.Allowed = true // it is not the limit that refuses
	d.Write(c.Header(), s.o.Now())
}

// limited returns who is limited: the account, or the address where none is known
// or the class is about addresses.
func (c *call) limited(class limits.Class) string {
	if c.principal.Account != "" && class != limits.Sessions && class != limits.Failures {
		return string(c.principal.Account)
	}
	return c.address
}

// limitTold says that the headers tell of a limit.
func (c *call) limitTold() bool { return c.Header()["Ratelimit"] != nil }
