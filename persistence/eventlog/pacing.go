package eventlog

import (
	"context"
	"time"
)

// Reads that bring fewer events than fewEvents are made less often, and those that bring
// manyEvents more often. One whose events are shown manyShown times is followed by the next
// without a long pause: to write them costs twenty times as much as the read.
const (
	fewEvents  = 16
	manyEvents = 128
	manyShown  = 200
)

// pacing chooses the time from the beginning of one read to that of the next. A read costs Redis
// and this process as much as some ten events.
type pacing struct {
	min, max time.Duration
	pause    time.Duration
	hurry    chan struct{} // holds a value when a caller waits for an event
}

func newPacing(shortest, longest time.Duration) pacing {
	return pacing{min: shortest, max: max(shortest, longest), pause: shortest, hurry: make(chan struct{}, 1)}
}

// adapt takes into account a read that brought some events in a time. Where events are so
// rare that a read waits longer than any pause, a pause would save no read. Nor does it save much
// where the events are shown many times, once for each connection and event, and it delays what
// clients see.
func (p *pacing) adapt(events, shown int, took time.Duration) {
	switch {
	case shown >= manyShown, took >= p.max:
		p.pause = p.min
	case events < fewEvents:
		p.pause = min(2*p.pause, p.max)
	case events >= manyEvents:
		p.pause = max(p.pause/2, p.min)
	}
}

// wait waits until the next read after one that began at start: until the pause is over or, after
// the shortest one, until a caller waits for an event.
func (p *pacing) wait(ctx context.Context, start time.Time) {
	sleep(ctx, p.min-time.Since(start), nil)
	sleep(ctx, p.pause-time.Since(start), p.hurry)
}

// wake ends a pause, since a caller waits for an event.
func (p *pacing) wake() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}

// sleep waits for d, until ctx ends or until early has a value.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-ctx.Done():
	}
}
