package limits

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Class names a rate limit.
type Class string

// The classes, after the API decisions.
const (
	Reads         Class = "reads"
	Runs          Class = "runs"
	Intakes       Class = "intakes" // alerts, by intake
	Writes        Class = "writes"
	Streams       Class = "streams"
	Logins        Class = "logins"
	Registrations Class = "registrations"
	Sessions      Class = "sessions"
	Failures      Class = "failures"
	Pages         Class = "pages"   // public records, by address; each process counts its own
	Scrapes       Class = "scrapes" // of /metrics, by address; each process counts its own
)

// Classes lists all classes.
var Classes = [...]Class{Reads, Runs, Intakes, Writes, Streams, Logins, Registrations, Sessions, Failures, Pages,
	Scrapes}

// index returns the index of c in Classes and whether the class exists.
func (c Class) index() (int, bool) {
	for i, known := range Classes {
		if c == known {
			return i, true
		}
	}
	return 0, false
}

// local reports whether each process counts the requests of c by itself, without the store.
func (c Class) local() bool { return c == Scrapes || c == Pages }

// maxRequests is the maximum of Quota.Requests.
const maxRequests = 1_000_000

// Quota is the number of requests allowed in a period, all of them at once if necessary. The
// zero value is off: everything is allowed.
type Quota struct {
	Requests int           // 1 to 1,000,000
	Period   time.Duration // a second, a minute or an hour
}

// Off reports whether nothing is limited.
func (q Quota) Off() bool { return q.Requests <= 0 || q.Period <= 0 }

// each returns the time for one token, in nanoseconds.
func (q Quota) each() float64 { return float64(q.Period) / float64(q.Requests) }

// lease returns the most tokens to hold ahead: a twentieth of the quota.
func (q Quota) lease() int { return max(1, q.Requests/20) }

// String returns the form that ParseQuota reads.
func (q Quota) String() string {
	if q.Off() {
		return "off"
	}
	unit := "/h"
	switch q.Period {
	case time.Second:
		unit = "/s"
	case time.Minute:
		unit = "/m"
	}
	return strconv.Itoa(q.Requests) + unit
}

// ParseQuota reads NUMBER/s, NUMBER/m, NUMBER/h or off.
func ParseQuota(s string) (Quota, error) {
	if s == "off" {
		return Quota{}, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	var period time.Duration
	switch unit {
	case "s":
		period = time.Second
	case "m":
		period = time.Minute
	case "h":
		period = time.Hour
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || period == 0 || n < 1 || n > maxRequests || number[0] == '+' {
		const form = "%q is not NUMBER/s, NUMBER/m, NUMBER/h with a number of 1 to %d, or off"
		return Quota{}, fmt.Errorf(form, s, maxRequests)
	}
	return Quota{Requests: int(n), Period: period}, nil
}

// Quotas are those of the classes. A class without one has its default.
type Quotas map[Class]Quota

// Defaults returns the quotas of the API decisions.
func Defaults() Quotas {
	return Quotas{
		Reads:         {3000, time.Minute},
		Runs:          {600, time.Minute},
		Intakes:       {120, time.Minute},
		Writes:        {300, time.Minute},
		Streams:       {20_000, time.Minute},
		Logins:        {20, time.Minute},
		Registrations: {5, time.Hour},
		Sessions:      {60, time.Minute},
		Failures:      {300, time.Minute},
		Pages:         {1200, time.Minute},
		Scrapes:       {600, time.Minute},
	}
}

// table returns the quotas by the index of their class, with defaults.
func (q Quotas) table() *[len(Classes)]Quota {
	all := Defaults()
	maps.Copy(all, q)
	var t [len(Classes)]Quota
	for i, c := range Classes {
		t[i] = all[c]
	}
	return &t
}
