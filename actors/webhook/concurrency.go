package webhook

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Limits of a concurrencyLimit.
const (
	slowAbove    = time.Second // an endpoint is slow if most of its attempts take longer,
	slowTimeouts = 3           // or after so many timeouts in a row
	recentTimes  = 15          // recent attempts that count
	minTimes     = 3           // with fewer an endpoint is not slow
)

// concurrencyLimit is the number of concurrent requests to an endpoint. It begins at the
// maximum. Each failure halves it and each success adds one, so that an endpoint that
// recovers from an outage gets its backlog step by step. A slow one moves to the slow
// class, where it gets one at a time until it is fast again.
type concurrencyLimit struct {
	max      int
	allowed  int
	timeouts int // in a row
	times    [recentTimes]time.Duration
	attempts int // in times; the oldest is overwritten
	class    class
}

func newConcurrencyLimit(limit int) concurrencyLimit {
	return concurrencyLimit{max: limit, allowed: limit}
}

// limit returns how many requests may be in flight.
func (p *concurrencyLimit) limit() int {
	if p.class == slowClass {
		return 1
	}
	return p.allowed
}

// recovering reports whether an attempt has failed and too few have succeeded since.
func (p *concurrencyLimit) recovering() bool { return p.allowed < p.max }

// after records the result of an attempt.
func (p *concurrencyLimit) after(r *sender.Result) {
	success := r.Error == ""
	switch {
	case success && p.timeouts >= slowTimeouts && r.Duration <= slowAbove:
		p.timeouts, p.attempts = 0, 0 // the endpoint no longer hangs: drop its old times
	case r.Class == sender.ClassTimeout:
		p.timeouts++
	default:
		p.timeouts = 0
	}
	p.times[p.attempts%recentTimes] = r.Duration
	p.attempts++
	if success {
		p.allowed = min(p.max, p.allowed+1)
	} else {
		p.allowed = max(1, p.allowed/2)
	}
	p.class = fastClass
	if p.timeouts >= slowTimeouts || p.medianSlow() {
		p.class = slowClass
	}
}

// medianSlow reports whether the median of the recent times is above slowAbove.
func (p *concurrencyLimit) medianSlow() bool {
	n := min(p.attempts, recentTimes)
	slow := 0
	for _, d := range p.times[:n] {
		if d > slowAbove {
			slow++
		}
	}
	return n >= minTimes && 2*slow > n
}
