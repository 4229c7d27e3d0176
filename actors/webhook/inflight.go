package webhook

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// A delivery whose first attempt succeeds at once, like nearly all, is stored once, in its
// final state. Until then it is in flight: only this process has it, and the position of
// the partition in the log stays before its event, so that the next owner would make the
// delivery again. The states of a delivery:
//
//	                     ┌────────────────── outcome stored ─────────────────┐
//	                     │                                                   ▼
//	event ─Record─▶ in flight ──▶ being stored ──stored as pending──▶ known to Redis
//	                     │         (pending)  │                     (stored, passed)
//	                     ▼             ▲      │
//	                 released ─────────┘      └─too many pending─▶ dropped (passed)
//
// In flight: no flag is set; the endpoint has it and tries it. After inFlightFor, when
// Redis is available again, or with too many in flight, it is stored as pending. Released:
// the endpoint has given it, or a later one, back; it is stored as pending in the next pass.
// Being stored: an endpoint that receives it now reads it from Redis instead. If an attempt
// ends meanwhile, its outcome overwrites the pending state. Known to Redis: every owner of
// the partition finds it there. Dropped: the account has too many pending ones; an attempt
// in flight still counts, but is not retried.
//
// A delivery that was read from Redis has no event and is known to Redis from the start.

const (
	// inFlightFor is how long a delivery may be in flight, inFlightEvery how often overdue
	// ones are stored.
	inFlightFor   = 2 * time.Second
	inFlightEvery = 100 * time.Millisecond
	// maxInFlight bounds the deliveries of a partition in flight. With more, the log waits until
	// the oldest are stored. maxHeld bounds the table: those in flight, and all of later events,
	// even if Redis has them.
	maxInFlight = 32_768
	maxHeld     = 4 * maxInFlight
	// inFlightPage is how many are stored at once.
	inFlightPage = 1000
)

// item is a delivery with its body, as held by an endpoint.
type item struct {
	delivery.PendingDelivery
	event *inFlightEvent // nil if it was read from Redis

	// The state, as drawn above. Flags are set, never cleared.
	released atomic.Bool // by the endpoint: it, or a later one, was given back
	pending  atomic.Bool // by the Recorder: it is stored as pending, or being stored
	stored   atomic.Bool // by either, after a write: Redis has it, in any state
	passed   atomic.Bool // by either: the position in the log need not wait for it

	signal signal.SignalID // empty if its order does not matter
	place  place           // in the endpoint's queue
	chain  *chain          // of that queue, or nil
}

// isInFlight reports whether Redis may lack the delivery.
func (i *item) isInFlight() bool { return i.event != nil && !i.stored.Load() }

// spent returns how many attempts of the schedule were made, or more than all of them if the next one is the last.
func (i *item) spent() int {
	if i.Single {
		return math.MaxInt
	}
	return i.Scheduled
}

// noteStored records that Redis has the delivery.
func (i *item) noteStored() {
	if i.event != nil {
		i.stored.Store(true)
		i.pass()
	}
}

// pass lets the position in the log advance past the delivery.
func (i *item) pass() {
	if i.event != nil && i.passed.CompareAndSwap(false, true) {
		i.event.count.Add(-1)
		if i.event.table != nil { // nil if a previous owner may have made it
			i.event.table.open.Add(-1)
		}
	}
}

// inFlightEvent is an event with deliveries that are in flight.
type inFlightEvent struct {
	before signal.Position // of the previous event
	at     time.Time       // when its deliveries were sent to their endpoints
	items  []*item
	count  atomic.Int32 // of items that are in flight
	table  *inFlight    // that has the event, or nil
}

// inFlight is the table of a partition's deliveries in flight, by event in the order of the
// log. It is safe for concurrent use.
type inFlight struct {
	mu    sync.Mutex
	list  []*inFlightEvent
	count int          // items in list
	open  atomic.Int64 // items that have not passed

	storing sync.Mutex // held while some of them are stored, without mu
}

// add adds events, which must be later than all others.
func (t *inFlight) add(events []*inFlightEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, events...)
	for _, e := range events {
		e.table = t
		t.open.Add(int64(e.count.Load()))
		t.count += len(e.items)
	}
}

// fits reports whether more deliveries may be in flight.
func (t *inFlight) fits(more int) bool {
	held, _ := t.trim()
	return int(t.open.Load())+more <= maxInFlight && held+more <= maxHeld
}

// trim drops the oldest events without deliveries in flight, and returns the number of
// deliveries of the others, and the position before them.
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

// overdue returns the deliveries in flight that must be stored: those sent to their
// endpoints until then, and released ones.
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

// byEvent groups deliveries by event and body. Those of one event must be consecutive.
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

// byWebhook groups deliveries by webhook and keeps their order.
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
