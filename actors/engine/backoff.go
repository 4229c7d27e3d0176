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

// Backoff is the pause before an actor retries something that failed: a quarter of a
// second after the first failure, then twice as long each time, up to LastBackoff. The
// zero value means that nothing has failed.
type Backoff struct{ d time.Duration }

// Next records a failure and returns how long to wait after it.
func (b *Backoff) Next() time.Duration {
	b.d = min(max(2*b.d, firstBackoff), LastBackoff)
	return b.d
}

// Log logs a failure: the first one in a row as a warning, further ones at debug level.
// Call it before Next.
func (b *Backoff) Log(log *slog.Logger, message string, args ...any) {
	if b.d == 0 {
		log.Warn(message, args...)
	} else {
		log.Debug(message, args...)
	}
}

// Reset records a success.
func (b *Backoff) Reset() { b.d = 0 }
