package eventlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// waiter is a caller of Wait.
type waiter struct {
	position signal.Position
	passed   chan struct{} // closed when position has been passed
}

// Wait returns when subscribers have been given everything up to p, which Head or Append has
// returned, or what replicas have of it while they are missing. The partition is followed meanwhile.
// KindUnavailable: ctx ended first.
func (t *Tail) Wait(ctx context.Context, partition int, p signal.Position) error {
	part := &t.partitions[partition]
	part.mu.Lock()
	if p.Compare(part.passed) <= 0 || t.unreachable(partition, p) {
		part.mu.Unlock()
		return nil
	}
	w := waiter{p, make(chan struct{})}
	part.waiters = append(part.waiters, w)
	part.used[Waits] = t.clock()
	if part.attached {
		t.readers[partition%len(t.readers)].pacing.wake()
	} else {
		t.request(partition)
	}
	part.mu.Unlock()
	select {
	case <-w.passed:
		return nil
	case <-ctx.Done():
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	part.waiters = slices.DeleteFunc(part.waiters, func(other waiter) bool { return other == w })
	return redisclient.Unavailable(fmt.Errorf("wait for event %v of partition %d: %w", p, partition, ctx.Err()))
}

// unreachable reports whether the event at p is withheld, or may be one that is. part.mu is held.
func (t *Tail) unreachable(partition int, p signal.Position) bool {
	return t.partitions[partition].withheld && t.store.confirmed[partition].position().Compare(p) < 0
}

// passed returns the position up to which subscribers have been given the events of a
// partition.
func (t *Tail) passed(partition int) signal.Position {
	part := &t.partitions[partition]
	part.mu.Lock()
	defer part.mu.Unlock()
	return part.passed
}

// pass records that subscribers have been given everything up to p.
func (part *tailPartition) pass(p signal.Position) {
	part.mu.Lock()
	defer part.mu.Unlock()
	part.passed = p
	part.release(func(awaited signal.Position) bool { return awaited.Compare(p) <= 0 })
}

// release ends the waits for the events that are over. part.mu is held.
func (part *tailPartition) release(over func(awaited signal.Position) bool) {
	part.waiters = slices.DeleteFunc(part.waiters, func(w waiter) bool {
		if !over(w.position) {
			return false
		}
		close(w.passed)
		return true
	})
}

// awaited reports whether a caller waits for an event.
func (part *tailPartition) awaited() bool {
	part.mu.Lock()
	defer part.mu.Unlock()
	return len(part.waiters) > 0
}
