package limits

import (
	"net/http"
	"strconv"
	"time"
)

// Decision is whether a request is allowed, and the state of its limit.
type Decision struct {
	Class     Class
	Allowed   bool
	Limit     int           // the quota; 0: the class is off, and the rest is zero
	Window    time.Duration // in which an empty bucket fills up
	Remaining int
	// Reset is the time until the bucket is full or, if nothing remains, until the next
	// request is possible.
	Reset time.Duration
	// RetryAfter is 0 if the request is allowed, otherwise at least a second.
	RetryAfter time.Duration
}

// decide returns a decision on a request of class c with quota q.
func decide(c Class, q Quota, allowed bool, remaining int, reset time.Duration) Decision {
	d := Decision{
		Class:     c,
		Allowed:   allowed,
		Limit:     q.Requests,
		Window:    q.Period,
		Remaining: remaining,
		Reset:     max(0, reset),
	}
	if !allowed {
		d.RetryAfter = max(time.Second, d.Reset)
	}
	return d
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Write sets the RateLimit headers, the older X-RateLimit ones and, if the request is
// refused, Retry-After. It sets nothing for a class that is off. now is the time of the
// answer.
func (d Decision) Write(h http.Header, now time.Time) {
	if d.Limit == 0 {
		return
	}
	name := `"` + string(d.Class) + `"`
	limit, remaining := strconv.Itoa(d.Limit), strconv.Itoa(d.Remaining)
	// The names are canonical: unlike Set, this does not allocate for them.
	h["Ratelimit-Policy"] = []string{name + ";q=" + limit + ";w=" + strconv.FormatInt(seconds(d.Window), 10)}
	h["Ratelimit"] = []string{name + ";r=" + remaining + ";t=" + strconv.FormatInt(seconds(d.Reset), 10)}
	h["X-Ratelimit-Limit"] = []string{limit}
	h["X-Ratelimit-Remaining"] = []string{remaining}
	h["X-Ratelimit-Reset"] = []string{strconv.FormatInt(now.Add(d.Reset+time.Second-1).Unix(), 10)}
	if !d.Allowed {
		h.Set("Retry-After", strconv.FormatInt(seconds(d.RetryAfter), 10))
	}
}
