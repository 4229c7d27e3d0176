package webhook

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Limits of a concurrencyLimit.
const (
	slowAbove    = time.Second // an attempt that takes longer is slow; if most are, the endpoint is
	slowTimeouts = 3           // so many timeouts in a row are, too
	recentTimes  = 15          // recent attempts that count
	minTimes     = 3           // with fewer an endpoint is not slow
)

// concurrencyLimit is how many requests at once an endpoint gets. It begins with the most. Each
// failure halves it and each success adds one, so that an endpoint that comes back
// after an outage gets 1, 2, 4 and 8 of its backlog at once. One that hangs or is slow
// goes to the slow class, where it gets one at a time, until it answers fast again.
type concurrencyLimit struct {
	max      int
	allowed  int
	timeouts int // in a row
	times    [recentTimes]time.Duration
	attempts int // in times; the oldest is overwritten
	class    class
}

func newConcurrencyLimit(most int) concurrencyLimit {
	return concurrencyLimit{max: most, allowed: most}
}

// limit returns how many requests may be under way.
func (p *concurrencyLimit) limit() int {
	if p.class == slowClass {
		return 1
	}
	return p.allowed
}

// recovering reports whether an attempt has failed and too few have succeeded since.
func (p *concurrencyLimit) recovering() bool { return p.allowed < p.max }

// after notes how an attempt ended.
func (p *concurrencyLimit) after(r *sender.Result) {
	success := r.Error == ""
	switch {
	case success && p.timeouts >= slowTimeouts && r.Duration <= slowAbove:
		p.timeouts, p.attempts = 0, 0 // the hanging is over: its times do not count
	case r.Class == sender.ClassTimeout:
		p.timeouts++
	default:
		p.timeouts = 0
	}
	p.times[p.attempts%recentTimes] = r.Duration
	p.attempts++
	if success {
		p.allowed = min(p.max, p.allowed+1)
	} else {
		p.allowed = max(1, p.allowed/2)
	}
	p.class = fastClass
	if p.timeouts >= slowTimeouts || p.mostlySlow() {
		p.class = slowClass
	}
}

// mostlySlow reports whether the median of the recent times is above slowAbove.
func (p *concurrencyLimit) mostlySlow() bool {
	n := min(p.attempts, recentTimes)
	slow := 0
	for _, d := range p.times[:n] {
		if d > slowAbove {
			slow++
		}
	}
	return n >= minTimes && 2*slow > n
}
