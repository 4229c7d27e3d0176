package fetch

import (
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
)

const (
	// maxFailures is the number of failures in a row after which a server gets rests.
	maxFailures = 5
	minRest     = 15 * time.Second
	maxRest     = 5 * time.Minute
	// maxBan bounds what a server may ask for: bans last up to three days.
	maxBan = 72 * time.Hour
)

// breaker keeps requests from a server that fails or wants rest. After a rest one request is let
// through: its outcome decides whether the next ones are.
type breaker struct {
	mu       sync.Mutex
	failures int
	rests    backoff.Backoff
	until    time.Time // no request before
	trying   bool      // one request finds out whether the rest helped
}

// allow returns 0 if a request may be made now, else the time until then.
func (b *breaker) allow(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.until.Sub(now); wait > 0 {
		return wait
	}
	if b.failures < maxFailures {
		return 0
	}
	if b.trying {
		return time.Second
	}
	b.trying = true
	return 0
}

// done records how a request ended. failed reports whether the server is to blame.
func (b *breaker) done(now time.Time, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if !failed {
		b.failures = 0
		b.rests.Reset()
		return
	}
	if b.failures++; b.failures >= maxFailures {
		b.later(now.Add(b.rests.Next()))
	}
}

// drop records that an allowed request was not made.
func (b *breaker) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// pause gives the server the rest that it asked for.
func (b *breaker) pause(now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.later(now.Add(min(d, maxBan)))
}

func (b *breaker) later(t time.Time) {
	if t.After(b.until) {
		b.until = t
	}
}
