package fetch

import (
	"sync"
	"time"
)

const (
	// failuresAllowed is after how many failures in a row a server is left alone.
	failuresAllowed = 5
	// firstRest is for how long, the next ones being twice as long up to longestRest.
	firstRest   = 15 * time.Second
	longestRest = 5 * time.Minute
	// longestBan bounds what a server may ask for: bans last up to three days.
	longestBan = 72 * time.Hour
)

// breaker keeps requests from a server that fails or wants rest. After a rest one request is let
// through: its outcome decides whether the next ones are.
type breaker struct {
	mu       sync.Mutex
	failures int
	rest     time.Duration // the last one
	until    time.Time     // no request before
	trying   bool          // one request finds out whether the rest helped
}

// allow returns 0 if a request may be made now, else how long not.
func (b *breaker) allow(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.until.Sub(now); wait > 0 {
		return wait
	}
	if b.failures < failuresAllowed {
		return 0
	}
	if b.trying {
		return time.Second
	}
	b.trying = true
	return 0
}

// done notes how a request ended. failed reports whether the server is to blame.
func (b *breaker) done(now time.Time, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if !failed {
		b.failures, b.rest = 0, 0
		return
	}
	b.failures++
	if b.failures >= failuresAllowed {
		b.rest = min(max(2*b.rest, firstRest), longestRest)
		b.later(now.Add(b.rest))
	}
}

// drop notes that a request which was allowed was not made.
func (b *breaker) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// pause leaves the server alone for as long as it asked for.
func (b *breaker) pause(now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.later(now.Add(min(d, longestBan)))
}

func (b *breaker) later(t time.Time) {
	if t.After(b.until) {
		b.until = t
	}
}
