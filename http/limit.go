package http

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/http/limits"
)

// Limiter counts requests against the rate limits. See limits.Limiter.
type Limiter interface {
	// Take counts a request of class by who, an account, a reader or an address. It always decides,
	// even if the store fails.
	Take(ctx context.Context, class limits.Class, who string) limits.Decision
	// Peek is Take without counting, from what this process knows.
	Peek(class limits.Class, who string) limits.Decision
}

// rateLimits counts requests and shows the limits in the headers of answers.
type rateLimits struct {
	limiter Limiter
	metrics *Metrics
	now     func() time.Time
}

// take counts the request and sets the headers of its limit. Without a class nothing is
// limited.
func (l rateLimits) take(c *call, class limits.Class) error {
	if class == "" {
		return nil
	}
	d := l.limiter.Take(c.r.Context(), class, l.who(c, class))
	if d.Allowed && l.shown(c) {
		return nil // of the class Failures: the headers show the limit of the endpoint
	}
	d.Write(c.Header(), l.now())
	if d.Allowed {
		return nil
	}
	l.metrics.refused(class)
	e := *errRateLimited
	e.RetryAfter = d.RetryAfter
	return &e
}

// show sets the headers of the operation's limit for a request that was answered before
// it was counted: without a credential or scope, or while the process drains.
func (l rateLimits) show(c *call) {
	if c.operation == nil || c.operation.class == "" || l.shown(c) {
		return
	}
	d := l.limiter.Peek(c.operation.class, l.who(c, c.operation.class))
	d.Allowed = true // another reason refuses it
	d.Write(c.Header(), l.now())
}

// who returns who is limited: the account, a reader of it by itself, the address if the account is unknown or
// the class counts addresses, or the intake.
func (rateLimits) who(c *call, class limits.Class) string {
	if class == limits.Intakes {
		return string(c.alert.intake.ID)
	}
	switch {
	case c.principal.Account == "", class == limits.Sessions, class == limits.Failures:
		return c.address
	case c.principal.View != nil:
		return string(c.principal.Key)
	}
	return string(c.principal.Account)
}

// shown reports whether the headers show a limit.
func (rateLimits) shown(c *call) bool { return c.Header()["Ratelimit"] != nil }
