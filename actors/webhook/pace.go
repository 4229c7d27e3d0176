package webhook

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Limits of a pace.
const (
	slowAbove    = time.Second // an attempt that takes longer is slow; if most are, the endpoint is
	slowTimeouts = 3           // so many timeouts in a row are, too
	paceSamples  = 15          // recent attempts that are looked at
	leastSamples = 3           // fewer say nothing
)

// pace says how many requests at once an endpoint gets. It begins with the most. Each
// failure halves it and each success adds one, so that an endpoint that comes back
// after an outage gets 1, 2, 4 and 8 of its backlog at once. One that hangs or is slow
// goes to the slow lane, where it gets one at a time, until it answers fast again.
type pace struct {
	most     int
	allowed  int
	timeouts int // in a row
	times    [paceSamples]time.Duration
	attempts int // in times; the oldest is overwritten
	lane     lane
}

func newPace(most int) pace { return pace{most: most, allowed: most} }

// limit returns how many requests may be under way.
func (p *pace) limit() int {
	if p.lane == slowLane {
		return 1
	}
	return p.allowed
}

// recovering reports whether an attempt has failed and too few have succeeded since.
func (p *pace) recovering() bool { return p.allowed < p.most }

// after notes how an attempt ended.
func (p *pace) after(r *sender.Result) {
	success := r.Error == ""
	switch {
	case success && p.timeouts >= slowTimeouts && r.Duration <= slowAbove:
		p.timeouts, p.attempts = 0, 0 // the hanging is over: its times do not count
	case r.Class == sender.ClassTimeout:
		p.timeouts++
	default:
		p.timeouts = 0
	}
	p.times[p.attempts%paceSamples] = r.Duration
	p.attempts++
	if success {
		p.allowed = min(p.most, p.allowed+1)
	} else {
		p.allowed = max(1, p.allowed/2)
	}
	p.lane = fastLane
	if p.timeouts >= slowTimeouts || p.mostlySlow() {
		p.lane = slowLane
	}
}

// mostlySlow says that the median of the recent times is above slowAbove.
func (p *pace) mostlySlow() bool {
	n := min(p.attempts, paceSamples)
	slow := 0
	for _, d := range p.times[:n] {
		if d > slowAbove {
			slow++
		}
	}
	return n >= leastSamples && 2*slow > n
}
