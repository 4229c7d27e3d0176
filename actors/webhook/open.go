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
// its final state. Until then it is open: only the endpoint has it, and the position of
// the partition in the log stays before its event, so that whoever owns the partition
// next makes it anew. What is open for too long is stored as pending.

const (
	// openFor is how long a delivery may be open, and openEvery how often it is looked
	// at those that are.
	openFor   = 2 * time.Second
	openEvery = 100 * time.Millisecond
	// maxOpen is how many deliveries of a partition may be open. With more, the events
	// of the log wait until they are stored.
	maxOpen = 32_768
	// openPage is how many are stored at once.
	openPage = 1000
)

// item is a delivery with what it sends, as an endpoint has it.
type item struct {
	delivery.PendingDelivery
	event   *openEvent  // that it was made of; nil: it was read from Redis
	pending atomic.Bool // it is, or is being, stored as pending
	stored  atomic.Bool // Redis has it, in whatever state
	past    atomic.Bool // the position in the log need not wait for it: it is stored, or dropped
	let     atomic.Bool // it is to be stored soon: its endpoint has let it go, or a later one

	signal signal.SignalID // that it is about; empty if its order does not matter
	place  place           // in the endpoint's queue
	chain  *chain          // of that queue that holds it; nil: none does
}

// isOpen says that Redis may not have the delivery.
func (i *item) isOpen() bool { return i.event != nil && !i.stored.Load() }

// close notes that Redis has the delivery.
func (i *item) close() {
	if i.event != nil {
		i.stored.Store(true)
		i.pass()
	}
}

// pass lets the position in the log go on behind the delivery.
func (i *item) pass() {
	if i.event != nil && i.past.CompareAndSwap(false, true) {
		i.event.open.Add(-1)
	}
}

// openEvent is an event with deliveries that are open.
type openEvent struct {
	before signal.Position // where the event before it lies
	at     time.Time       // when its deliveries were told
	items  []*item
	open   atomic.Int32 // of items
}

// openEvents are those of a partition, in the order of the log. They are safe for
// concurrent use.
type openEvents struct {
	mu    sync.Mutex
	list  []*openEvent
	count int // items in list

	storing sync.Mutex // held by who stores some of them; mu is not, meanwhile
}

// add adds events that lie behind all others.
func (o *openEvents) add(events []*openEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, events...)
	for _, e := range events {
		o.count += len(e.items)
	}
}

// trim forgets the events at the front that have nothing open, and says how many
// deliveries the others have, and before which position they lie.
func (o *openEvents) trim() (count int, before signal.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.list) > 0 && o.list[0].open.Load() == 0 {
		o.count -= len(o.list[0].items)
		o.list[0].items = nil // an endpoint may keep one of them for long
		o.list[0] = nil
		o.list = o.list[1:]
	}
	if len(o.list) == 0 {
		o.list = nil
		return 0, before
	}
	return o.count, o.list[0].before
}

// overdue returns the deliveries that are to be stored: those told until then, and those
// that their endpoint has let go.
func (o *openEvents) overdue(then time.Time) (items []*item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.list {
		if e.open.Load() == 0 {
			continue
		}
		for _, i := range e.items {
			if !i.past.Load() && (!e.at.After(then) || i.let.Load()) {
				items = append(items, i)
			}
		}
	}
	return items
}

// storeOpen stores deliveries as pending that were told until then, and those that no
// endpoint has, and tells the partition's webhooks of them.
func (r *Recorder) storeOpen(ctx context.Context, then time.Time) error {
	r.open.storing.Lock()
	defer r.open.storing.Unlock()
	items := r.open.overdue(then)
	for len(items) > 0 {
		page := items[:min(len(items), openPage)]
		items = items[len(page):]
		for _, i := range page {
			i.pending.Store(true)
		}
		if err := r.storePending(ctx, page); err != nil {
			return err
		}
	}
	r.open.trim()
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
