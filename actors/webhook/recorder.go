package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// tables reads the webhooks of accounts, and stores deliveries.
type tables interface {
	AccountsWithWebhooks(ctx context.Context, partition int) ([]signal.AccountID, error)
	Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error)
	// LastEvent returns the position of the newest event in the log.
	LastEvent(ctx context.Context, partition int) (signal.Position, error)
	// StoreDeliveries stores new deliveries. Existing ones stay unchanged.
	StoreDeliveries(ctx context.Context, partition int, epoch int64, batch []delivery.EventDeliveries) error
}

// Limits of a Recorder.
const (
	// maxTables bounds the webhooks in a partition's tables; beyond it all are dropped, and read
	// again when needed.
	maxTables = 10_000
	// maxRecord and maxRecordBytes bound a page of deliveries and bodies. One event, which
	// may go to 100 webhooks, is never split.
	maxRecord      = 250
	maxRecordBytes = 512 << 10
)

// Recorder makes deliveries of the events of an owned partition, and notifies the
// partition's webhooks of them. Record must not be called concurrently; the other methods
// are safe for concurrent use.
type Recorder struct {
	o      *owned
	parent engine.Ref // the partition's webhooks

	recorded signal.Position // events up to here are recorded, and the webhooks notified
	// began is the end of the log when the Recorder began. A previous owner may have made
	// deliveries of the events up to there.
	began    signal.Position
	inFlight inFlight
	counts   *counts

	accounts map[signal.AccountID]struct{} // that have webhooks; nil before load
	tables   map[signal.AccountID][]subscriber
	size     int // subscribers in tables
}

// subscriber holds what the Recorder needs of an enabled webhook.
type subscriber struct {
	id      signal.WebhookID
	version string
	events  uint32 // bits by eventBit
	since   signal.Position
	filter  *signal.Filter // nil for all
	assets  []string       // of filter, folded, by all spellings of events
}

// assetsOf returns the assets of f, folded, as spelled and by their catalogue names: the
// spelling itself may be a subject of content.
func assetsOf(f *signal.Filter, name func(string) string) []string {
	var all []string
	for _, asset := range f.Assets {
		all = append(all, spelling.Fold(asset))
		if name != nil {
			all = append(all, spelling.Fold(name(asset)))
		}
	}
	return all
}

// passes reports whether the filter of s passes e. Events that concern no signal pass.
func (s *subscriber) passes(e *signal.Event, name func(string) string) bool {
	if s.filter == nil || e.Listing == nil {
		return true
	}
	traits := e.Traits()
	if !s.filter.Passes(&traits) {
		return false
	}
	asset := e.Asset
	if name != nil && e.Listing.Entry != nil {
		asset = name(asset)
	}
	return len(s.assets) == 0 || slices.Contains(s.assets, spelling.Fold(asset))
}

// eventBit returns the bit of t in a set of types, or 0 if webhooks cannot subscribe to t.
func eventBit(t signal.EventType) uint32 {
	for i, e := range delivery.WebhookEvents {
		if e == t {
			return 1 << i
		}
	}
	return 0
}

func newRecorder(o *owned) *Recorder {
	return &Recorder{o: o, counts: newCounts(o), tables: make(map[signal.AccountID][]subscriber)}
}

// Messages of the Recorder to the partition's webhooks, in the order of the log.
type (
	// deliveriesMade carries new deliveries, by webhook.
	deliveriesMade struct{ batches []batch }
	// deliveriesStored carries deliveries that are now pending in Redis, by webhook. The
	// endpoints may not have them.
	deliveriesStored struct{ batches []batch }
	// forEndpoint carries a message for the endpoint of a webhook: changed or deliveriesChanged.
	forEndpoint struct {
		account signal.AccountID
		id      signal.WebhookID
		message any
	}
	// accountDeleted is sent when an account was deleted.
	accountDeleted struct{ id signal.AccountID }
)

// batch is a list of deliveries of one webhook, oldest first.
type batch struct {
	account signal.AccountID
	id      signal.WebhookID
	items   []*item
}

// Record makes deliveries of consecutive events of the log, and notifies the webhooks of
// the partition. Deliveries that a previous owner may have made are stored first, so that
// none is sent twice. After an error it may be called again with the same events, and skips
// recorded ones. It returns KindConflict with code "not_owner" if another node owns the
// partition.
func (r *Recorder) Record(ctx context.Context, events []signal.Event) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	deleted := deletedAccounts(events)
	p := page{before: r.recorded}
	for i := range events {
		e := &events[i]
		if e.Position.Compare(r.recorded) <= 0 {
			continue
		}
		if err := r.add(ctx, &p, e, deleted); err != nil {
			return fmt.Errorf("record event %s: %w", e.ID, err)
		}
		p.before = e.Position
		// A page ends with a change, so that later deliveries come after it.
		if p.hint == nil && len(p.items) < maxRecord && p.bytes < maxRecordBytes && i < len(events)-1 {
			continue
		}
		if err := r.handOver(ctx, &p); err != nil {
			return fmt.Errorf("store deliveries: %w", err)
		}
		p = page{before: r.recorded}
	}
	return nil
}

// Follow implements ownership.Follower. It does nothing: Record notifies the webhooks of
// events, after the deliveries of earlier ones.
func (r *Recorder) Follow([]signal.Event) {}

// Stored implements ownership.Recorder.
func (r *Recorder) Stored(handled signal.Position) signal.Position {
	if count, before := r.inFlight.trim(); count > 0 {
		return before
	}
	return handled
}

// deletedAccounts returns the accounts that events delete, or nil. They get no deliveries.
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

// page is one batch for the partition's webhooks.
type page struct {
	before signal.Position // of the next event
	events []*inFlightEvent
	items  []*item // of all events
	hint   any     // another message, sent after the items
	bytes  int     // of bodies
}

// add adds the consequences of e to p.
func (r *Recorder) add(ctx context.Context, p *page, e *signal.Event, deleted map[signal.AccountID]bool) error {
	switch e.Type {
	case signal.AccountDeleted:
		r.setAccount(e.Account, false)
		p.hint = accountDeleted{e.Account}
		return nil
	case signal.WebhookChanged:
		r.setAccount(e.Account, true)
		p.hint = forEndpoint{e.Account, signal.WebhookID(e.Subject), changed{}}
		return nil
	case signal.DeliveriesChanged:
		p.hint = forEndpoint{e.Account, signal.WebhookID(e.Subject), deliveriesChanged{}}
		return nil
	}
	bit := eventBit(e.Type)
	if bit == 0 || deleted[e.Account] {
		return nil
	}
	subscribers, err := r.table(ctx, e.Account)
	if err != nil || len(subscribers) == 0 {
		return err
	}
	event, about := &inFlightEvent{before: p.before}, signalOf(e.Type, e.Data)
	bodies := map[string][]byte{} // by version
	for _, s := range subscribers {
		if s.events&bit == 0 || e.Position.Compare(s.since) <= 0 || !s.passes(e, r.o.options.Name) {
			continue
		}
		body := bodies[s.version]
		if body == nil {
			body = AppendBody(make([]byte, 0, len(e.Data)+160), e.ID, e.Type, s.version, e.Time(), e.Data)
			bodies[s.version] = body
			p.bytes += len(body)
		}
		event.items = append(event.items, newItem(event, e, &s, about, body))
	}
	if len(event.items) > 0 {
		event.count.Store(int32(len(event.items)))
		p.events, p.items = append(p.events, event), append(p.items, event.items...)
	}
	return nil
}

// newItem returns the delivery of e to a subscriber. about is the signal of e.
func newItem(event *inFlightEvent, e *signal.Event, s *subscriber, about signal.SignalID, body []byte) *item {
	return &item{
		event:  event,
		signal: about,
		PendingDelivery: delivery.PendingDelivery{
			Body: body,
			Delivery: delivery.Delivery{
				ID:            signal.DeliveryIDOf(e.ID, s.id),
				Webhook:       s.id,
				Account:       e.Account,
				Event:         e.ID,
				Type:          e.Type,
				Status:        delivery.Pending,
				CreatedAt:     e.Time(),
				NextAttemptAt: e.Time(),
			},
		},
	}
}

// handOver sends a page to the webhooks of the partition.
func (r *Recorder) handOver(ctx context.Context, p *page) error {
	switch {
	case len(p.items) == 0:
	case p.events[0].before.Compare(r.began) < 0:
		if err := r.storePending(ctx, p.items); err != nil {
			return err
		}
	default:
		if fits := func() bool { return r.inFlight.fits(len(p.items)) }; !fits() {
			if err := r.storeOldest(ctx, time.Now(), fits); err != nil { // if all are stored, they fit
				return err
			}
		}
		now := time.Now()
		for _, e := range p.events {
			e.at = now
		}
		r.inFlight.add(p.events)
		r.parent.Tell(deliveriesMade{byWebhook(p.items)})
	}
	r.recorded = p.before
	r.o.options.Metrics.byStatus[delivery.Pending].Add(float64(len(p.items)))
	if p.hint != nil {
		r.parent.Tell(p.hint)
	}
	return nil
}

// load reads the end of the log, and which accounts have webhooks. A later registration is
// an event in the log.
func (r *Recorder) load(ctx context.Context) error {
	if r.accounts != nil {
		return nil
	}
	began, err := r.o.store.LastEvent(ctx, r.o.Partition)
	if err != nil {
		return fmt.Errorf("find the end of the log: %w", err)
	}
	list, err := r.o.store.AccountsWithWebhooks(ctx, r.o.Partition)
	if err != nil {
		return fmt.Errorf("list accounts with webhooks: %w", err)
	}
	r.began = began
	r.accounts = make(map[signal.AccountID]struct{}, len(list))
	for _, a := range list {
		r.accounts[a] = struct{}{}
	}
	return nil
}

// setAccount records whether an account has webhooks, and drops its table.
func (r *Recorder) setAccount(a signal.AccountID, has bool) {
	r.size -= len(r.tables[a])
	delete(r.tables, a)
	if has {
		r.accounts[a] = struct{}{}
	} else {
		delete(r.accounts, a)
	}
}

// table returns the enabled webhooks of an account. A change of them is an event in the log.
func (r *Recorder) table(ctx context.Context, a signal.AccountID) ([]subscriber, error) {
	table, known := r.tables[a]
	if _, has := r.accounts[a]; !has || known {
		return table, nil
	}
	list, err := r.o.store.Webhooks(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	table = make([]subscriber, 0, len(list))
	for i := range list {
		if w := &list[i]; w.Status == delivery.WebhookEnabled {
			s := subscriber{id: w.ID, version: w.APIVersion, since: w.Since, filter: w.Filter}
			if w.Filter != nil {
				s.assets = assetsOf(w.Filter, r.o.options.Name)
			}
			for _, t := range w.Events {
				s.events |= eventBit(t)
			}
			table = append(table, s)
		}
	}
	if len(list) == 0 {
		delete(r.accounts, a)
	}
	if r.size+len(table) > maxTables {
		clear(r.tables)
		r.size = 0
	}
	r.tables[a] = table
	r.size += len(table)
	return table, nil
}

// storePending stores new deliveries as pending. It drops those beyond the limit of their
// account, the newest first.
func (r *Recorder) storePending(ctx context.Context, items []*item) error {
	of := map[signal.AccountID]int{}
	for _, i := range items {
		of[i.Account]++
	}
	allowed, err := r.counts.allow(ctx, of)
	if err != nil {
		return err
	}
	kept, dropped := make([]*item, 0, len(items)), map[signal.AccountID]int{}
	for _, i := range items {
		if allowed[i.Account]--; allowed[i.Account] >= 0 {
			kept = append(kept, i)
		} else {
			dropped[i.Account]++
		}
	}
	if len(kept) > 0 {
		if err := r.o.store.StoreDeliveries(ctx, r.o.Partition, r.o.Epoch, byEvent(kept)); err != nil {
			return err
		}
	}
	for _, i := range kept {
		i.noteStored()
	}
	for _, i := range items {
		i.pass()
	}
	for a, n := range dropped {
		r.counts.drop(a, n)
	}
	r.parent.Tell(deliveriesStored{byWebhook(items)})
	r.counts.notify(ctx, r.counts.notices())
	return nil
}

// storeInFlight stores the deliveries in flight that were sent to their endpoints until then, and
// released ones.
func (r *Recorder) storeInFlight(ctx context.Context, then time.Time) error {
	return r.storeOldest(ctx, then, func() bool { return false })
}

// storeOldest stores deliveries in flight as pending, the oldest first, until enough reports true, and
// notifies the partition's webhooks.
func (r *Recorder) storeOldest(ctx context.Context, then time.Time, enough func() bool) error {
	r.inFlight.storing.Lock()
	defer r.inFlight.storing.Unlock()
	items := r.inFlight.overdue(then)
	for len(items) > 0 && !enough() {
		page := items[:min(len(items), inFlightPage)]
		for _, i := range page {
			i.pending.Store(true)
		}
		if err := r.storePending(ctx, page); err != nil {
			return err
		}
		// The outcomes of others may have been stored meanwhile.
		items = slices.DeleteFunc(items[len(page):], func(i *item) bool { return i.passed.Load() })
	}
	r.inFlight.trim()
	return nil
}

// AppendBody adds an event's envelope, which contains the payload unchanged. version is the
// contract version of the webhook.
func AppendBody(b []byte, id signal.EventID, t signal.EventType, version string, at time.Time, data []byte) []byte {
	b = append(b, `{"id":`...)
	b = signal.AppendText(b, string(id))
	b = append(b, `,"type":`...)
	b = signal.AppendText(b, string(t))
	b = append(b, `,"api_version":`...)
	b = signal.AppendText(b, version)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, at)
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return append(b, '}')
}
