package partition

import (
	"sync"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// maxInbox is how many events the tail may be ahead of an owner. Beyond it they are
// dropped, and the owner reads them from the log.
const maxInbox = 10_000

// inbox takes events from the tail, which must not wait, to a partition actor.
type inbox struct {
	owner engine.Ref

	mu       sync.Mutex
	batches  [][]signal.Event
	events   int
	missed   bool // something was dropped, or was missed by the tail
	notified bool // inboxFilled is in the owner's mailbox
}

// inboxFilled notifies a partition actor that its inbox is not empty.
type inboxFilled struct{}

// put hands events over. The slice must not be changed afterwards.
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

// gap notes that the tail has missed events.
func (b *inbox) gap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed, b.batches, b.events = true, nil, 0
	b.notify()
}

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
