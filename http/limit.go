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
	// Peek returns what Take would, without counting, as far as this process knows.
	Peek(class limits.Class, who string) limits.Decision
}

// limit counts the request and shows in the headers what is left. Without a class
// nothing is limited.
func (s *Server) limit(c *call, class limits.Class) error {
	if class == "" {
		return nil
	}
	d := s.o.Limits.Take(c.r.Context(), class, c.limited(class))
	if d.Allowed && c.limitShown() {
		return nil // a failure: the headers show the limit of the endpoint
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

// showLimit shows in the headers what is left of the endpoint's limit, if the answer
// was found before a request was counted: no credential, no scope, draining.
func (s *Server) showLimit(c *call) {
	if c.operation == nil || c.operation.class == "" || c.limitShown() {
		return
	}
	d := s.o.Limits.Peek(c.operation.class, c.limited(c.operation.class))
	d.Allowed = true // it is not the limit that refuses
	d.Write(c.Header(), s.o.Now())
}

// limited returns what is limited: the account, or the address where no account is known
// or the class is about addresses.
func (c *call) limited(class limits.Class) string {
	if c.principal.Account != "" && class != limits.Sessions && class != limits.Failures {
		return string(c.principal.Account)
	}
	return c.address
}

// limitShown reports whether the headers show a limit.
func (c *call) limitShown() bool { return c.Header()["Ratelimit"] != nil }
