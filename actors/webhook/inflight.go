package webhook

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// A delivery whose first attempt succeeds at once, as nearly all do, is stored once: in
// its final state. Until then it is in flight: only this process has it, and the position
// of the partition in the log stays before its event, so that the next owner makes it
// again. Each delivery of an event goes this way:
//
//	                     ┌────────────────── outcome stored ─────────────────┐
//	                     │                                                   ▼
//	event ─Record─▶ in flight ──▶ being stored ──stored as pending──▶ known to Redis
//	                     │         (pending)  │                     (stored, passed)
//	                     ▼             ▲      │
//	                 released ─────────┘      └─too many pending─▶ dropped (passed)
//
// In flight: no flag is set; the endpoint has it and tries it. After inFlightFor, or when
// Redis was away for longer than that, it is stored as pending. Released: the endpoint has
// given it back, or one before it; it is stored as pending in the next pass. Being stored:
// an endpoint that gets it only now reads it from Redis instead. An attempt may end
// meanwhile; its outcome then is stored over the pending state. Known to Redis: whoever
// owns the partition finds it there. Dropped: the account has too many pending ones; an
// attempt that is under way still counts, and fails for good if it is to be retried.
//
// A delivery that was read from Redis has no event and is known to Redis from the start.

const (
	// inFlightFor is how long a delivery may be in flight, and inFlightEvery how often those
	// that are overdue are stored.
	inFlightFor   = 2 * time.Second
	inFlightEvery = 100 * time.Millisecond
	// maxInFlight is how many deliveries of a partition may be in flight. With more, the events
	// of the log wait until they are stored.
	maxInFlight = 32_768
	// inFlightPage is how many are stored at once.
	inFlightPage = 1000
)

// item is a delivery with what it sends, as an endpoint has it.
type item struct {
	delivery.PendingDelivery
	event *inFlightEvent // that it was made of; nil: it was read from Redis

	// The state, as drawn above. Flags are set, never cleared.
	released atomic.Bool // by the endpoint: it, or one after it, was given back
	pending  atomic.Bool // by the Recorder: it is, or is being, stored as pending
	stored   atomic.Bool // by either, after a write: Redis has it, in whatever state
	passed   atomic.Bool // by either: the position in the log need not wait for it

	signal signal.SignalID // that it is about; empty if its order does not matter
	place  place           // in the endpoint's queue
	chain  *chain          // of that queue that holds it; nil: none does
}

// isInFlight reports whether Redis may not have the delivery.
func (i *item) isInFlight() bool { return i.event != nil && !i.stored.Load() }

// noteStored notes that Redis has the delivery.
func (i *item) noteStored() {
	if i.event != nil {
		i.stored.Store(true)
		i.pass()
	}
}

// pass lets the position in the log go on behind the delivery.
func (i *item) pass() {
	if i.event != nil && i.passed.CompareAndSwap(false, true) {
		i.event.count.Add(-1)
	}
}

// inFlightEvent is an event with deliveries that are in flight.
type inFlightEvent struct {
	before signal.Position // where the event before it lies
	at     time.Time       // when its deliveries were handed to their endpoints
	items  []*item
	count  atomic.Int32 // of items that are in flight
}

// inFlight is the table of the deliveries of a partition that are in flight, by event in
// the order of the log. It is safe for concurrent use.
type inFlight struct {
	mu    sync.Mutex
	list  []*inFlightEvent
	count int // items in list

	storing sync.Mutex // held by who stores some of them; mu is not, meanwhile
}

// add adds events that lie behind all others.
func (t *inFlight) add(events []*inFlightEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, events...)
	for _, e := range events {
		t.count += len(e.items)
	}
}

// trim drops the events at the front that have nothing in flight, and returns how many
// deliveries the others have, and the position before them.
func (t *inFlight) trim() (count int, before signal.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) > 0 && t.list[0].count.Load() == 0 {
		t.count -= len(t.list[0].items)
		t.list[0].items = nil // an endpoint may keep one of them for long
		t.list[0] = nil
		t.list = t.list[1:]
	}
	if len(t.list) == 0 {
		t.list = nil
		return 0, before
	}
	return t.count, t.list[0].before
}

// overdue returns the deliveries that are to be stored: those handed out until then, and
// those that are released.
func (t *inFlight) overdue(then time.Time) (items []*item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.list {
		if e.count.Load() == 0 {
			continue
		}
		for _, i := range e.items {
			if !i.passed.Load() && (!e.at.After(then) || i.released.Load()) {
				items = append(items, i)
			}
		}
	}
	return items
}

// storeInFlight stores deliveries as pending that were handed out until then, and those
// that are released, and notifies the partition's webhooks of them.
func (r *Recorder) storeInFlight(ctx context.Context, then time.Time) error {
	r.inFlight.storing.Lock()
	defer r.inFlight.storing.Unlock()
	items := r.inFlight.overdue(then)
	for len(items) > 0 {
		page := items[:min(len(items), inFlightPage)]
		items = items[len(page):]
		for _, i := range page {
			i.pending.Store(true)
		}
		if err := r.storePending(ctx, page); err != nil {
			return err
		}
	}
	r.inFlight.trim()
	return nil
}

// byEvent groups deliveries by what they send. Those of an event follow each other.
func byEvent(items []*item) (batch []delivery.EventDeliveries) {
	for _, i := range items {
		n := len(batch) - 1
		for n >= 0 && batch[n].Event == i.Event && &batch[n].Body[0] != &i.Body[0] {
			n--
		}
		if n < 0 || batch[n].Event != i.Event {
			n = len(batch)
			batch = append(batch, delivery.EventDeliveries{Event: i.Event, Body: i.Body})
		}
		batch[n].Deliveries = append(batch[n].Deliveries, i.Delivery)
	}
	return batch
}

// byWebhook groups deliveries by their webhooks, in their order.
func byWebhook(items []*item) (batches []batch) {
	index := map[signal.WebhookID]int{}
	for _, i := range items {
		n, ok := index[i.Webhook]
		if !ok {
			n = len(batches)
			index[i.Webhook] = n
			batches = append(batches, batch{account: i.Account, id: i.Webhook})
		}
		batches[n].items = append(batches[n].items, i)
	}
	return batches
}
