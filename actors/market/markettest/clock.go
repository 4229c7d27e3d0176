package markettest

import (
	"sync"
	"testing"
	"time"
)

// Patience bounds every wait of a test.
const Patience = time.Minute

// Clock is a clock that a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at the beginning of a minute.
func NewClock() *Clock { return ClockAt(time.UnixMilli(1_795_253_400_000)) }

// ClockAt returns a clock that stands at a time.
func ClockAt(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Instant parses a time in RFC 3339.
func Instant(tb testing.TB, text string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

// Eventually waits until ok returns true.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: did not happen within %s", what, Patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
