// Package retryafter parses the header Retry-After of responses from other services.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Max is the longest wait that Parse returns. It keeps sums of durations in range; callers
// have limits of their own.
const Max = 365 * 24 * time.Hour

// Parse returns the wait after now that a header requests as a number of seconds or a date
// (RFC 9110, section 10.2.3), or 0 if the header is absent, malformed or in the past.
func Parse(header string, now time.Time) time.Duration {
	text := strings.TrimSpace(header)
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(Max/time.Second) {
			return Max
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), Max)
}
