// Package backoff paces retries: pauses that grow from failure to failure, up to a limit, and waits that a
// service asks for.
package backoff

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// The limits of a Backoff that has none of its own.
const (
	DefaultMin = 250 * time.Millisecond
	DefaultMax = 5 * time.Second
)

// Backoff is the pause before a retry: Min after the first failure, then twice as long
// after each further one, up to Max. The zero value has the default limits and no failure.
// It is for one goroutine at a time.
type Backoff struct {
	Min, Max time.Duration
	// Jitter spreads a pause evenly from half to one and a half of it, so that those who
	// failed together do not retry together.
	Jitter bool

	pause time.Duration // the last one, without jitter; 0 after a success
}

// Next records a failure and returns how long to wait after it.
func (b *Backoff) Next() time.Duration {
	if limit := cmp.Or(b.Max, DefaultMax); b.pause > limit/2 { // twice as long might overflow
		b.pause = limit
	} else {
		b.pause = min(max(2*b.pause, cmp.Or(b.Min, DefaultMin)), limit)
	}
	if b.Jitter {
		return b.pause/2 + rand.N(b.pause)
	}
	return b.pause
}

// Wait records a failure and waits after it. It reports false if ctx ends first.
func (b *Backoff) Wait(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Reset records a success.
func (b *Backoff) Reset() { b.pause = 0 }

// Log logs a failure: the first one in a row as a warning, further ones at debug level.
// Call it before Next.
func (b *Backoff) Log(log *slog.Logger, message string, args ...any) {
	if b.pause == 0 {
		log.Warn(message, args...)
	} else {
		log.Debug(message, args...)
	}
}

// Sleep waits for d. It reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
