package limits

import (
	"math"
	"sync"
	"time"
)

// bucket is what this process knows of one bucket. Times are counted from the
// start of its limiter.
type bucket struct {
	mu    sync.Mutex
	quota Quota // that the rest is about
	// full is when the bucket will be full, if the leased tokens count as used.
	full time.Duration
	// leased tokens were taken from the store and not yet used; they serve until
	// leaseEnd and are given back after.
	leased   int
	leaseEnd time.Duration
	size     int // of the next lease
	// empty is set while the store has no token to give: from when it answered so until full.
	empty bool
	// asking is closed when the question under way to the store is answered; nil if
	// there is no question.
	asking  chan struct{}
	waiting int // requests that wait for it
	gone    bool
}

// All methods are called with mu held.

// settle adapts b to a quota that was changed: no more is owed than the new period
// allows, and the store is asked again whether it has a token.
func (b *bucket) settle(q Quota, now time.Duration) {
	if b.quota != q {
		b.quota, b.empty = q, false
		b.full = min(b.full, now+q.Period)
	}
}

// free returns how many tokens are in the bucket, leased ones left out.
func (b *bucket) free(q Quota, now time.Duration) int {
	owed := max(0, b.full-now)
	// The small number makes up for rounding, so that a full bucket has its quota.
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

// state returns what remains, and the time that goes with it.
func (b *bucket) state(q Quota, now time.Duration) (remaining int, reset time.Duration) {
	remaining = min(b.free(q, now)+b.leased, q.Requests)
	if remaining == 0 {
		return 0, b.untilFree(q, now)
	}
	return remaining, b.untilFull(q, now)
}

// unlease counts the leased tokens as free again and returns how many there were.
func (b *bucket) unlease(q Quota) int {
	n := b.leased
	b.full -= time.Duration(math.Round(float64(n) * q.each()))
	b.leased = 0
	return n
}

// idle reports whether forgetting b changes nothing.
func (b *bucket) idle(now time.Duration) bool {
	return b.asking == nil && b.leased == 0 && b.full <= now
}
