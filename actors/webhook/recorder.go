package webhook

import (
	"context"
	"fmt"
	"sync"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// tables knows which webhooks an account has, and stores deliveries.
type tables interface {
	AccountsWithWebhooks(ctx context.Context, partition int) ([]signal.AccountID, error)
	Webhooks(ctx context.Context, account signal.AccountID) ([]signal.Webhook, error)
	// StoreDeliveries stores new deliveries and, with them, that the events up to a
	// position have had their effect. Deliveries that are there already stay as they
	// are.
	StoreDeliveries(ctx context.Context, partition int, epoch int64, upTo signal.Position, batch []signal.EventDeliveries) error
}

// Limits of a Recorder.
const (
	// maxTables is how many webhooks a partition's tables hold; beyond it tables are
	// forgotten, and read again when they are needed.
	maxTables = 10_000
	// maxRecord and maxRecordBytes bound the deliveries and bodies stored at once. One
	// event, which may go to 100 webhooks, is never divided: so the position that is
	// stored with deliveries always says which events have had all of theirs.
	maxRecord      = 250
	maxRecordBytes = 512 << 10
)

// Recorder makes deliveries of the events of an owned partition, and tells the
// partition's webhooks of them once they are stored. Record is for one goroutine at
// a time.
type Recorder struct {
	o      *owned
	parent engine.Ref // the partition's webhooks

	told signal.Position // events up to here are recorded, and told

	mu       sync.Mutex
	accounts map[signal.AccountID]struct{} // that have webhooks; nil until they are known
	tables   map[signal.AccountID][]subscriber
	size     int // subscribers in tables
	// forgotten counts calls of forget, so that what was read meanwhile is not kept.
	forgotten int
}

// subscriber is what the Recorder knows of an enabled webhook.
type subscriber struct {
	id      signal.WebhookID
	version string
	events  uint8 // bits by eventBit
	since   signal.Position
}

// eventBit returns the bit of t in a set of types; 0 if no webhook gets such events
// from the log.
func eventBit(t signal.EventType) uint8 {
	for i, e := range signal.WebhookEvents {
		if e == t {
			return 1 << i
		}
	}
	return 0
}

func newRecorder(o *owned) *Recorder {
	return &Recorder{o: o, tables: make(map[signal.AccountID][]subscriber)}
}

// What the Recorder tells the partition's webhooks, in the order of the log.
type (
	// deliveriesStored are new deliveries, by webhook.
	deliveriesStored struct{ batches []batch }
	// webhookChanged says that a webhook's record is another one, or gone.
	webhookChanged struct {
		account signal.AccountID
		id      signal.WebhookID
	}
	// webhookPoked says that deliveries of a webhook were added or taken by hand.
	webhookPoked struct {
		account signal.AccountID
		id      signal.WebhookID
	}
	// accountDeleted says that an account is gone.
	accountDeleted struct{ id signal.AccountID }
)

// batch are new deliveries of one webhook, oldest first.
type batch struct {
	account signal.AccountID
	id      signal.WebhookID
	items   []*signal.PendingDelivery
}

// Record makes deliveries of events, which lie in the log one after the other, stores
// them and tells the webhooks of the partition. It returns the position that was
// stored with the last ones, zero if there were none. After an error it may be called
// again with the same events: those that were stored are not stored or told again.
// KindConflict with the code "not_owner": the partition is another's.
func (r *Recorder) Record(ctx context.Context, events []signal.Event) (stored signal.Position, err error) {
	if err := r.load(ctx); err != nil {
		return stored, err
	}
	deleted := deletedAccounts(events)
	p := page{batches: map[signal.WebhookID]int{}}
	for i := range events {
		e := &events[i]
		if e.Position.Compare(r.told) <= 0 {
			continue
		}
		p.upTo = e.Position
		if err := r.add(ctx, &p, e, deleted); err != nil {
			return stored, fmt.Errorf("record event %s: %w", e.ID, err)
		}
		if p.deliveries < maxRecord && p.bytes < maxRecordBytes && i < len(events)-1 {
			continue
		}
		if p.deliveries > 0 {
			if err := r.o.store.StoreDeliveries(ctx, r.o.partition, r.o.epoch, p.upTo, p.stored); err != nil {
				return stored, fmt.Errorf("store %d deliveries: %w", p.deliveries, err)
			}
			stored = p.upTo
		}
		r.tell(&p)
		p = page{batches: map[signal.WebhookID]int{}}
	}
	return stored, nil
}

// deletedAccounts returns the accounts that are deleted among events, nil if none is:
// nothing is delivered for them any more.
func deletedAccounts(events []signal.Event) map[signal.AccountID]bool {
	var deleted map[signal.AccountID]bool
	for i := range events {
		if events[i].Type == signal.AccountDeleted {
			if deleted == nil {
				deleted = make(map[signal.AccountID]bool)
			}
			deleted[events[i].Account] = true
		}
	}
	return deleted
}

// page is what is stored and told at once.
type page struct {
	upTo       signal.Position
	stored     []signal.EventDeliveries
	versions   []string                 // of the bodies in stored
	batches    map[signal.WebhookID]int // index in told.batches
	told       deliveriesStored
	hints      []any // messages for the partition's webhooks
	deliveries int
	bytes      int
}

// add adds what e brings about to p.
func (r *Recorder) add(ctx context.Context, p *page, e *signal.Event, deleted map[signal.AccountID]bool) error {
	switch e.Type {
	case signal.AccountDeleted:
		r.setAccount(e.Account, false)
		p.hints = append(p.hints, accountDeleted{e.Account})
		return nil
	case signal.WebhookChanged:
		r.setAccount(e.Account, true)
		p.hints = append(p.hints, webhookChanged{e.Account, signal.WebhookID(e.Subject)})
		return nil
	case signal.WebhookPoked:
		p.hints = append(p.hints, webhookPoked{e.Account, signal.WebhookID(e.Subject)})
		return nil
	}
	bit := eventBit(e.Type)
	if bit == 0 || deleted[e.Account] {
		return nil
	}
	subscribers, err := r.table(ctx, e.Account)
	if err != nil {
		return err
	}
	first := len(p.stored) // the bodies of e, one of each version
	for _, s := range subscribers {
		if s.events&bit == 0 || e.Position.Compare(s.since) <= 0 {
			continue
		}
		p.deliver(e, s, first)
	}
	return nil
}

// deliver adds the delivery of e to s. The bodies of e stand in p.stored from first
// on.
func (p *page) deliver(e *signal.Event, s subscriber, first int) {
	i := first
	for i < len(p.stored) && p.versions[i] != s.version {
		i++
	}
	if i == len(p.stored) {
		body := AppendBody(make([]byte, 0, len(e.Data)+160), e.ID, e.Type, s.version, e.Time(), e.Data)
		p.stored = append(p.stored, signal.EventDeliveries{Event: e.ID, Body: body})
		p.versions = append(p.versions, s.version)
		p.bytes += len(body)
	}
	stored := &p.stored[i]
	d := signal.Delivery{
		ID: signal.DeliveryIDOf(e.ID, s.id), Webhook: s.id, Account: e.Account, Event: e.ID, Type: e.Type,
		Status: signal.DeliveryPending, CreatedAt: e.Time(), NextAttemptAt: e.Time(),
	}
	stored.Deliveries = append(stored.Deliveries, d)
	b, ok := p.batches[s.id]
	if !ok {
		b = len(p.told.batches)
		p.batches[s.id] = b
		p.told.batches = append(p.told.batches, batch{account: e.Account, id: s.id})
	}
	// One by one and not in one slice, which a slow endpoint would keep as a whole.
	p.told.batches[b].items = append(p.told.batches[b].items, &signal.PendingDelivery{Delivery: d, Body: stored.Body})
	p.deliveries++
}

// tell tells the webhooks of the partition of what is stored.
func (r *Recorder) tell(p *page) {
	r.told = p.upTo
	r.o.options.Metrics.recorded(p.deliveries)
	if p.deliveries > 0 {
		r.parent.Tell(p.told)
	}
	for _, m := range p.hints {
		r.parent.Tell(m)
	}
}

// load finds out which accounts have webhooks. Whoever registers the first one of an
// account after that appears in the log.
func (r *Recorder) load(ctx context.Context) error {
	if r.accounts != nil { // set by this goroutine only
		return nil
	}
	list, err := r.o.store.AccountsWithWebhooks(ctx, r.o.partition)
	if err != nil {
		return fmt.Errorf("list accounts with webhooks: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accounts = make(map[signal.AccountID]struct{}, len(list))
	for _, a := range list {
		r.accounts[a] = struct{}{}
	}
	return nil
}

// setAccount notes that an account has webhooks, or none, and forgets what was known
// of them.
func (r *Recorder) setAccount(a signal.AccountID, has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(a)
	if has {
		r.accounts[a] = struct{}{}
	} else {
		delete(r.accounts, a)
	}
}

// forget has the webhooks of an account read again. It may be called from anywhere.
func (r *Recorder) forget(a signal.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(a)
}

// drop forgets a table. r is locked.
func (r *Recorder) drop(a signal.AccountID) {
	r.forgotten++
	r.size -= len(r.tables[a])
	delete(r.tables, a)
}

// table returns the enabled webhooks of an account.
func (r *Recorder) table(ctx context.Context, a signal.AccountID) ([]subscriber, error) {
	r.mu.Lock()
	_, has := r.accounts[a]
	table, known := r.tables[a]
	forgotten := r.forgotten
	r.mu.Unlock()
	if !has || known {
		return table, nil
	}
	list, err := r.o.store.Webhooks(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	table = make([]subscriber, 0, len(list))
	for i := range list {
		if w := &list[i]; w.Status == signal.WebhookEnabled {
			s := subscriber{id: w.ID, version: w.APIVersion, since: w.Since}
			for _, t := range w.Events {
				s.events |= eventBit(t)
			}
			table = append(table, s)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(list) == 0 {
		delete(r.accounts, a) // registering one appears in the log
	}
	if forgotten == r.forgotten {
		r.keep(a, table)
	}
	return table, nil
}

// keep keeps a table, in place of others if there are too many. r is locked.
func (r *Recorder) keep(a signal.AccountID, table []subscriber) {
	r.tables[a] = table
	r.size += len(table)
	for other, t := range r.tables {
		if r.size <= maxTables {
			return
		}
		if other != a {
			r.size -= len(t)
			delete(r.tables, other)
		}
	}
}
