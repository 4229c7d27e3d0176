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
// value means that nothing has failed.
type Backoff struct{ d time.Duration }

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	b.d = min(max(2*b.d, firstBackoff), LastBackoff)
	return b.d
}

// Log logs a failure, ahead of Next: the first one of a row as a warning, the others for
// debugging only.
func (b *Backoff) Log(log *slog.Logger, message string, args ...any) {
	if b.d == 0 {
		log.Warn(message, args...)
	} else {
		log.Debug(message, args...)
	}
}

// Reset notes a success.
func (b *Backoff) Reset() { b.d = 0 }
