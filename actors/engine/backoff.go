package engine

import (
	"log/slog"
	"time"
)

const (
	firstBackoff = 250 * time.Millisecond
	// LastBackoff is the longest pause of a Backoff.
	LastBackoff = 5 * time.Second
)

// Backoff is how long an actor waits before it tries again what has failed: a quarter of
// a second, and from one failure to the next twice as long, up to LastBackoff. The zero
// value is that nothing has failed.
type Backoff struct{ d time.Duration }

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	b.d = min(max(2*b.d, firstBackoff), LastBackoff)
	return b.d
}

// Level returns at which level a failure is logged, ahead of Next: only the first one
// of a row is of interest.
func (b *Backoff) Level() slog.Level {
	if b.d == 0 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Reset notes a success.
func (b *Backoff) Reset() { b.d = 0 }
