package backoff

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that RetryAfter returns. It keeps sums of durations in range;
// callers have limits of their own.
const MaxRetryAfter = 365 * 24 * time.Hour

// RetryAfter returns the wait after now that a header Retry-After requests as a number of seconds or a date
// (RFC 9110, section 10.2.3), or 0 if the header is absent, malformed or in the past.
func RetryAfter(header string, now time.Time) time.Duration {
	text := strings.TrimSpace(header)
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
