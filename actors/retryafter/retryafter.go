// Package retryafter reads the header Retry-After of answers that the service gets.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Max is the longest wait that is accepted; a server that asks for more gets it. It keeps
// sums of durations in range; callers have limits of their own.
const Max = 365 * 24 * time.Hour

// Parse returns how long after now a header asks to wait, by a number of seconds or a date
// (RFC 9110, section 10.2.3). It returns 0 for a header that is absent, malformed or in the
// past.
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
