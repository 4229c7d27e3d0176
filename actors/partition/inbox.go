package partition

import (
	"sync"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// maxInbox bounds how many events the tail may be ahead of an owner. Beyond it they are
// dropped, and the owner reads them from the log later.
const maxInbox = 10_000

// inbox passes events from the tail, which must not block, to a partition actor.
type inbox struct {
	owner engine.Ref

	mu       sync.Mutex
	batches  [][]signal.Event
	events   int
	missed   bool // events were dropped here or missed by the tail
	notified bool // inboxFilled was sent since the last take
}

// inboxFilled notifies a partition actor that its inbox is not empty.
type inboxFilled struct{}

// put adds events. The caller must not change the slice afterwards.
func (b *inbox) put(events []signal.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.missed:
	case b.events+len(events) > maxInbox:
		b.missed, b.batches, b.events = true, nil, 0
	default:
		b.batches = append(b.batches, events)
		b.events += len(events)
	}
	b.notify()
}

// gap records that the tail has missed events.
func (b *inbox) gap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed, b.batches, b.events = true, nil, 0
	b.notify()
}

// notify notifies the owner once until it calls take. The caller holds b.mu.
func (b *inbox) notify() {
	if !b.notified {
		b.notified = true
		b.owner.Tell(inboxFilled{})
	}
}

// take empties the inbox.
func (b *inbox) take() (batches [][]signal.Event, missed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	batches, missed = b.batches, b.missed
	b.batches, b.events, b.missed, b.notified = nil, 0, false, false
	return batches, missed
}
