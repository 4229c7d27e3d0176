package limits

import (
	"math"
	"sync"
	"time"
)

// bucket is the state of one bucket in this process. Times are relative to the start of the
// limiter.
type bucket struct {
	mu    sync.Mutex
	quota Quota // on which the rest is based
	// full is when the bucket will be full if the leased tokens count as used.
	full time.Duration
	// leased tokens have been taken from the store but not used. They are valid until
	// leaseEnd and returned afterwards.
	leased   int
	leaseEnd time.Duration
	size     int // of the next lease
	// empty is set if the store has answered that it has no token.
	empty bool
	// asking is closed when the request in flight to the store is answered; nil without one.
	asking  chan struct{}
	waiting int // requests that wait for asking
	gone    bool
}

// All methods are called with mu held.

// settle adapts b to a changed quota: b fills up within the new period at the latest, and
// the next request asks the store again.
func (b *bucket) settle(q Quota, now time.Duration) {
	if b.quota != q {
		b.quota, b.empty = q, false
		b.full = min(b.full, now+q.Period)
	}
}

// free returns the number of tokens in the bucket without the leased ones.
func (b *bucket) free(q Quota, now time.Duration) int {
	owed := max(0, b.full-now)
	// The small number compensates rounding, so that a full bucket has its quota.
	n := math.Floor(float64(q.Period-owed)/q.each() + 1e-6)
	return min(max(0, int(n)), q.Requests)
}

// take uses n free tokens.
func (b *bucket) take(q Quota, now time.Duration, n int) {
	b.full = max(b.full, now) + time.Duration(math.Round(float64(n)*q.each()))
}

// untilFree returns the time until the bucket has a token.
func (b *bucket) untilFree(q Quota, now time.Duration) time.Duration {
	return b.full - now - (q.Period - time.Duration(q.each()))
}

// untilFull returns the time until the bucket is full, leased tokens included.
func (b *bucket) untilFull(q Quota, now time.Duration) time.Duration {
	return b.full - now - time.Duration(float64(b.leased)*q.each())
}

// state returns the remaining tokens and Decision.Reset.
func (b *bucket) state(q Quota, now time.Duration) (remaining int, reset time.Duration) {
	remaining = min(b.free(q, now)+b.leased, q.Requests)
	if remaining == 0 {
		return 0, b.untilFree(q, now)
	}
	return remaining, b.untilFull(q, now)
}

// unlease counts the leased tokens as free again and returns their number.
func (b *bucket) unlease(q Quota) int {
	n := b.leased
	b.full -= time.Duration(math.Round(float64(n) * q.each()))
	b.leased = 0
	return n
}

// idle reports whether b is the same as a new bucket.
func (b *bucket) idle(now time.Duration) bool {
	return b.asking == nil && b.leased == 0 && b.full <= now
}
