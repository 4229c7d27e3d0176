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
}

// limit counts the request and says in the headers what is left. Without a class
// nothing is limited.
func (s *Server) limit(c *call, class limits.Class) error {
	if class == "" {
		return nil
	}
	who := c.address
	if c.principal.Account != "" && class != limits.Sessions && class != limits.Failures {
		who = string(c.principal.Account)
	}
	d := s.o.Limits.Take(c.r.Context(), class, who)
	if class == limits.Failures && d.Allowed {
		return nil // the headers tell of the limit of the endpoint
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
