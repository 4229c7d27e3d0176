package http

import (
	"context"

	"github.com/agentsignal/agentsignal/http/limits"
)

// Limiter counts requests against the rate limits. See limits.Limiter.
type Limiter interface {
	// Take counts a request of class by who, an account or an address. It always decides,
	// even if the store fails.
	Take(ctx context.Context, class limits.Class, who string) limits.Decision
	// Peek is Take without counting, from what this process knows.
	Peek(class limits.Class, who string) limits.Decision
}

// limit counts the request and sets the headers of its limit. Without a class nothing is
// limited.
func (s *Server) limit(c *call, class limits.Class) error {
	if class == "" {
		return nil
	}
	d := s.o.Limits.Take(c.r.Context(), class, c.limited(class))
	if d.Allowed && c.limitShown() {
		return nil // of the class Failures: the headers show the limit of the endpoint
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

// showLimit sets the headers of the endpoint's limit for a request that was answered before
// it was counted: without a credential or scope, or while the process drains.
func (s *Server) showLimit(c *call) {
	if c.operation == nil || c.operation.class == "" || c.limitShown() {
		return
	}
	d := s.o.Limits.Peek(c.operation.class, c.limited(c.operation.class))
	d.Allowed = true // another reason refuses it
	d.Write(c.Header(), s.o.Now())
}

// limited returns who is limited: the account, or the address if the account is unknown or
// the class counts addresses.
func (c *call) limited(class limits.Class) string {
	if c.principal.Account != "" && class != limits.Sessions && class != limits.Failures {
		return string(c.principal.Account)
	}
	return c.address
}

// limitShown reports whether the headers show a limit.
func (c *call) limitShown() bool { return c.Header()["Ratelimit"] != nil }
