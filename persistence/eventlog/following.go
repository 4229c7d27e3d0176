package eventlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// following is why a partition is followed, whether it is, and up to where subscribers have its events.
type following struct {
	number    int
	started   time.Time     // of the tail
	idle      time.Duration // TailOptions.Idle
	reader    *tailReader
	confirmed *newest       // that replicas have
	held      *atomic.Int64 // partitions of which events are withheld

	mu    sync.Mutex     // guards the rest; after tailPartition.reading
	holds [reasons]int   // calls of Follow without their release
	used  [reasons]int64 // the last use, by clock; 0 before the first
	// attached is also guarded by tailPartition.reading: it changes with both locks held.
	attached bool
	ready    chan struct{} // closed while it is attached
	passed   signal.Position
	withheld bool // events are, until replicas have them
	waiters  []waiter
}

// waiter is a caller of Tail.Wait.
type waiter struct {
	position signal.Position
	passed   chan struct{} // closed when position has been passed
}

// clock returns the time since the tail was made, in nanoseconds. It is never 0.
func (f *following) clock() int64 { return int64(time.Since(f.started)) + 1 }

// isNeeded reports whether there is a reason to follow the partition.
func (f *following) isNeeded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.needs()
}

// needs is isNeeded where mu is held.
func (f *following) needs() bool {
	needed, now := len(f.waiters) > 0, f.clock()
	for r := range reasons {
		needed = needed || f.has(r, now)
	}
	return needed
}

func (f *following) has(r Reason, now int64) bool {
	return f.holds[r] > 0 || f.used[r] > 0 && now-f.used[r] < int64(f.idle)
}

// reasons returns the names of the reasons to follow the partition, or none if it is not attached.
func (f *following) reasons() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	for r := range reasons {
		if f.attached && f.has(r, now) {
			names = append(names, reasonNames[r])
		}
	}
	return names
}

// isAttached reports whether subscribers get every later event.
func (f *following) isAttached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attached
}

// attach records that the partition is read. tailPartition.reading is held.
func (f *following) attach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached = true
	close(f.ready)
}

// detach records that it is no longer read, unless there is a reason for it by now. tailPartition.reading is held.
func (f *following) detach() (detached bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.attached || f.needs() {
		return false
	}
	f.attached, f.ready = false, make(chan struct{})
	f.passed = signal.Position{}
	f.setWithheld(false)
	return true
}

// wait returns when subscribers have been given everything up to p, or what replicas have of it while they
// are missing. The partition is followed meanwhile.
func (f *following) wait(ctx context.Context, p signal.Position) error {
	f.mu.Lock()
	if p.Compare(f.passed) <= 0 || f.unreachable(p) {
		f.mu.Unlock()
		return nil
	}
	w := waiter{p, make(chan struct{})}
	f.waiters = append(f.waiters, w)
	f.used[Waits] = f.clock()
	if f.attached {
		f.reader.pacing.wake()
	} else {
		f.reader.request()
	}
	f.mu.Unlock()
	select {
	case <-w.passed:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters = slices.DeleteFunc(f.waiters, func(other waiter) bool { return other == w })
	return redisclient.Unavailable(fmt.Errorf("wait for event %v of partition %d: %w", p, f.number, ctx.Err()))
}

// unreachable reports whether the event at p is withheld, or may be one that is. mu is held.
func (f *following) unreachable(p signal.Position) bool {
	return f.withheld && f.confirmed.position().Compare(p) < 0
}

// position returns the position up to which subscribers have been given the events.
func (f *following) position() signal.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

// end returns the end of what subscribers can be given, where that is known without a question to Redis: while events are
// withheld.
func (f *following) end() (end signal.Position, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed.Later(f.confirmed.position()), f.withheld
}

// pass records that subscribers have been given everything up to p.
func (f *following) pass(p signal.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed = p
	f.release(func(awaited signal.Position) bool { return awaited.Compare(p) <= 0 })
}

// release ends the waits for the events that are over. mu is held.
func (f *following) release(over func(awaited signal.Position) bool) {
	f.waiters = slices.DeleteFunc(f.waiters, func(w waiter) bool {
		if !over(w.position) {
			return false
		}
		close(w.passed)
		return true
	})
}

// awaited reports whether a caller waits for an event.
func (f *following) awaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters) > 0
}

// hold notes whether events are withheld. While they are, nothing waits for events that replicas may lack.
func (f *following) hold(missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setWithheld(missing)
	if missing {
		confirmed := f.confirmed.position()
		f.release(func(awaited signal.Position) bool { return confirmed.Compare(awaited) < 0 })
	}
}

// setWithheld notes whether events are withheld. mu is held.
func (f *following) setWithheld(is bool) {
	switch {
	case is && !f.withheld:
		f.held.Add(1)
	case f.withheld && !is:
		f.held.Add(-1)
	}
	f.withheld = is
}
