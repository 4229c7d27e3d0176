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

// pressure is the back-pressure of an endpoint: the wait that it has asked for, and the rate that
// its account or its format sets. Neither depends on the delivery that meets it, so both hold back all of
// them, and cost none an attempt.
//
// The endpoint is open, held until a time, or after that half open: one request at a time is sent,
// until one succeeds.
type pressure struct {
	until time.Time // zero while it is open

	interval time.Duration // between two requests, on average; 0 without a rate
	slack    time.Duration // by which a request may come too early after a late one
	next     time.Time     // when the next request is due
}

// slackPart is the part of a minute in which requests need not be evenly spread: one timer may
// send several of a high rate.
const slackPart = 600

// setRate sets the maximum number of requests in a minute; 0 for no limit. The first request may be sent at once.
func (p *pressure) setRate(perMinute int, now time.Time) {
	p.interval, p.slack = 0, 0
	if perMinute > 0 {
		p.interval = time.Minute / time.Duration(perMinute)
		p.slack = p.interval * time.Duration(perMinute/slackPart)
	}
	if first := now.Add(p.interval); p.next.After(first) { // after one of a lower rate
		p.next = first
	}
}

// held reports whether the endpoint has asked for no request now. A wait longer than any
// allowed one is due to a clock that was set back.
func (p *pressure) held(now time.Time) bool {
	left := p.until.Sub(now)
	return left > 0 && left <= maxHold
}

// halfOpen reports whether the wait is over, and no success has opened the endpoint yet.
func (p *pressure) halfOpen(now time.Time) bool { return !p.until.IsZero() && !p.held(now) }

// opens returns when to look again for what may be sent, or zero if nothing forbids it now. others are the requests
// that begin now.
func (p *pressure) opens(now time.Time, others int) time.Time {
	switch {
	case p.held(now):
		return p.until
	case p.early(now, others):
		return p.turn(now, others)
	default:
		return time.Time{}
	}
}

// early reports whether another request, after the others that begin now, would exceed the rate.
func (p *pressure) early(now time.Time, others int) bool {
	return p.interval > 0 && p.turn(now, others).After(now)
}

// turn returns when the request after the others that begin now may begin.
func (p *pressure) turn(now time.Time, others int) time.Time {
	next := now
	if p.next.After(now) && p.next.Sub(now) <= time.Minute { // else the clock was set back
		next = p.next
	}
	return next.Add(time.Duration(others)*p.interval - p.slack)
}

// begin counts a request that begins now.
func (p *pressure) begin(now time.Time) {
	if p.interval > 0 {
		p.next = p.turn(now, 1).Add(p.slack)
	}
}

// after records an answer. What succeeds within a wait began before it, and opens nothing.
func (p *pressure) after(r *sender.Result, now time.Time) {
	switch {
	case r.RetryAfter > 0:
		if until := now.Add(min(r.RetryAfter, maxHold)); until.After(p.until) || !p.held(now) {
			p.until = until
		}
	case r.Error == "" && !p.held(now):
		p.until = time.Time{}
	}
}
