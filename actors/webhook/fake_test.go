package webhook

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

var errDown = errors.New("connection refused")

var errNotOwner = &signal.Error{Kind: signal.KindConflict, Code: signal.CodeNotOwner, Message: "not the owner"}

// fakeStore keeps the webhooks of one partition like Redis. Every change is atomic; times
// are whole milliseconds, due ones rounded up.
type fakeStore struct {
	mu         sync.Mutex
	epoch      int64
	revisions  int
	webhooks   map[signal.WebhookID]delivery.Webhook   // without their health
	accounts   map[signal.AccountID][]signal.WebhookID // including removed ones
	health     map[signal.WebhookID]delivery.WebhookHealth
	deliveries map[signal.DeliveryID]*delivery.PendingDelivery
	due        []delivery.EndpointDue // of deliveries, or nil after a change: scans are frequent
	waits      map[signal.WebhookID]map[signal.SignalID]delivery.Wait
	mailbox    map[string]delivery.Mail
	mailDue    map[string]time.Time
	position   signal.Position
	notices    []signal.Event // of Outcomes
	pruned     map[signal.WebhookID]int

	log      []signal.Event
	appended func() // called after an event was added to log; must not block

	// fail returns the error of an operation, or nil, and whether it fails after its effect.
	fail  func(op string) (err error, after bool)
	takes time.Duration // of each operation
	// early and late return the additional time before and after the effect; or nil.
	early, late func(op string) time.Duration
	ahead       atomic.Int64 // of the clock of Redis, in nanoseconds
	calls       map[string]int
	kept        []storedPage // by StoreDeliveries
	maxHeld     int          // largest number of held deliveries passed to DueDeliveries
}

// storedPage counts the arguments of one call of StoreDeliveries.
type storedPage struct {
	Bodies     int
	Deliveries int
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		epoch:      1,
		webhooks:   map[signal.WebhookID]delivery.Webhook{},
		accounts:   map[signal.AccountID][]signal.WebhookID{},
		health:     map[signal.WebhookID]delivery.WebhookHealth{},
		deliveries: map[signal.DeliveryID]*delivery.PendingDelivery{},
		waits:      map[signal.WebhookID]map[signal.SignalID]delivery.Wait{},
		mailbox:    map[string]delivery.Mail{},
		mailDue:    map[string]time.Time{},
		pruned:     map[signal.WebhookID]int{},
		calls:      map[string]int{},
	}
}

// failIf returns for fail that the operations selected by cond fail, perhaps after their
// effect.
func failIf(after bool, cond func(op string) bool) func(string) (error, bool) {
	return func(op string) (error, bool) {
		if cond(op) {
			return errDown, after
		}
		return nil, false
	}
}

// do performs an operation, unless it must fail.
func (s *fakeStore) do(ctx context.Context, op string, f func() error) error {
	takes := s.takes
	s.mu.Lock()
	if s.early != nil {
		takes += s.early(op)
	}
	s.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	late := time.Duration(0)
	if s.late != nil {
		late = s.late(op)
	}
	defer func() {
		s.mu.Unlock()
		time.Sleep(late)
	}()
	s.calls[op]++
	var fails error
	if s.fail != nil {
		err, after := s.fail(op)
		if fails = err; err != nil && !after {
			return err
		}
	}
	return cmp.Or(f(), fails)
}

// slow returns for early or late that one operation takes d longer.
func slow(op string, d time.Duration) func(string) time.Duration {
	return func(asked string) time.Duration {
		if asked == op {
			return d
		}
		return 0
	}
}

// now returns the time by the clock of Redis.
func (s *fakeStore) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// set calls f under the lock.
func (s *fakeStore) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = nil
	f()
}

// peek returns the result of f under the lock.
func peek[T any](s *fakeStore, f func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// hook returns a stored webhook.
func (s *fakeStore) hook(id signal.WebhookID) delivery.Webhook {
	return peek(s, func() delivery.Webhook { return s.webhooks[id] })
}

// count returns how often an operation was called.
func (s *fakeStore) count(op string) int { return peek(s, func() int { return s.calls[op] }) }

// append adds an event to the log. s is locked.
func (s *fakeStore) append(e signal.Event) {
	e.Position = signal.Position{MS: s.now().UnixMilli()}
	if n := len(s.log); n > 0 && s.log[n-1].Position.Compare(e.Position) >= 0 {
		e.Position = s.log[n-1].Position.Plus(1)
	}
	s.log = append(s.log, e)
	if s.appended != nil {
		s.appended()
	}
}

// save stores a record under a new revision and notifies the owner. s is locked.
func (s *fakeStore) save(w delivery.Webhook) delivery.Webhook {
	s.revisions++
	w.Revision = strconv.Itoa(s.revisions)
	w.Health = delivery.WebhookHealth{}
	before, ok := s.webhooks[w.ID]
	if !ok {
		s.accounts[w.Account] = append(s.accounts[w.Account], w.ID)
	}
	s.notify(signal.WebhookChanged, w.Account, w.ID)
	if w.Status == delivery.WebhookEnabled && before.Status != w.Status {
		w.Since = s.log[len(s.log)-1].Position
	}
	s.webhooks[w.ID] = w
	return w
}

// notify appends an internal event about a webhook. s is locked.
func (s *fakeStore) notify(t signal.EventType, account signal.AccountID, id signal.WebhookID) {
	s.append(signal.Event{ID: signal.NewEventID(), Account: account, Type: t, Subject: string(id)})
}

// remove removes a webhook like the API.
func (s *fakeStore) remove(id signal.WebhookID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.webhooks[id].Account
	delete(s.webhooks, id)
	s.due = nil
	maps.DeleteFunc(s.deliveries, func(_ signal.DeliveryID, d *delivery.PendingDelivery) bool {
		return d.Webhook == id
	})
	s.notify(signal.WebhookChanged, account, id)
}

// change changes a record like the API.
func (s *fakeStore) change(id signal.WebhookID, f func(w *delivery.Webhook)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.webhooks[id]
	f(&w)
	w.UpdatedAt = s.now()
	s.save(w)
}

// enable enables a webhook like the API, and clears its health.
func (s *fakeStore) enable(id signal.WebhookID) {
	s.set(func() { delete(s.health, id) })
	s.change(id, func(w *delivery.Webhook) {
		w.Status, w.DisabledReason, w.DisabledAt, w.ClearedAt = delivery.WebhookEnabled, "", time.Time{}, s.now()
	})
}

// disable disables a webhook like the API.
func (s *fakeStore) disable(id signal.WebhookID) {
	s.change(id, func(w *delivery.Webhook) {
		w.Status, w.DisabledReason, w.DisabledAt = delivery.WebhookDisabled, delivery.DisabledManual, s.now()
	})
}

// changeDelivery changes a delivery like the API.
func (s *fakeStore) changeDelivery(id signal.DeliveryID, f func(d *delivery.Delivery)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deliveries[id]
	f(&d.Delivery)
	s.due = nil
	s.notify(signal.DeliveriesChanged, d.Account, d.Webhook)
}

// retry makes an ended delivery pending again, due now.
func (s *fakeStore) retry(id signal.DeliveryID) {
	s.changeDelivery(id, func(d *delivery.Delivery) {
		d.Status, d.Single, d.NextAttemptAt, d.CompletedAt = delivery.Pending, true, dueTime(s.now()), time.Time{}
	})
}

// cancel cancels a pending delivery.
func (s *fakeStore) cancel(id signal.DeliveryID) {
	s.changeDelivery(id, func(d *delivery.Delivery) {
		d.Status, d.Error, d.NextAttemptAt, d.CompletedAt = delivery.Failed, delivery.Cancelled, time.Time{}, s.now()
	})
}

// create makes a delivery, like the API for a test.
func (s *fakeStore) create(d delivery.Delivery, body string) {
	s.set(func() { s.deliveries[d.ID] = &delivery.PendingDelivery{Delivery: d, Body: []byte(body)} })
	s.changeDelivery(d.ID, func(*delivery.Delivery) {})
}

// delivery returns a stored delivery, or the zero value.
func (s *fakeStore) delivery(id signal.DeliveryID) delivery.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.deliveries[id]; d != nil {
		return d.Delivery
	}
	return delivery.Delivery{}
}

// statuses counts the deliveries of a webhook by status and error.
func (s *fakeStore) statuses(id signal.WebhookID) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, d := range s.deliveries {
		if d.Webhook == id {
			text := string(d.Status)
			if d.Error != "" {
				text += ", " + d.Error
			}
			n[text]++
		}
	}
	return n
}

// healthOf returns the stored health of a webhook.
func (s *fakeStore) healthOf(id signal.WebhookID) delivery.WebhookHealth {
	return peek(s, func() delivery.WebhookHealth { return s.health[id] })
}

// kinds returns the kinds of the stored mails, by time.
func (s *fakeStore) kinds() []delivery.MailKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.SortedFunc(maps.Values(s.mailbox), func(a, b delivery.Mail) int { return a.At.Compare(b.At) })
	var kinds []delivery.MailKind
	for _, m := range list {
		kinds = append(kinds, m.Kind)
	}
	return kinds
}

// dueTime rounds up to whole milliseconds, UTC.
func dueTime(t time.Time) time.Time { return t.Add(time.Millisecond - 1).Truncate(time.Millisecond) }

func (s *fakeStore) AccountsWithWebhooks(ctx context.Context, _ int) (list []signal.AccountID, err error) {
	err = s.do(ctx, "AccountsWithWebhooks", func() error {
		for a, ids := range s.accounts {
			if slices.ContainsFunc(ids, func(id signal.WebhookID) bool { return s.webhooks[id].ID != "" }) {
				list = append(list, a)
			}
		}
		return nil
	})
	return list, err
}

func (s *fakeStore) Webhooks(ctx context.Context, account signal.AccountID) (list []delivery.Webhook, err error) {
	err = s.do(ctx, "Webhooks", func() error {
		for _, id := range slices.Backward(s.accounts[account]) {
			if w, ok := s.webhooks[id]; ok {
				w.Health = s.health[id]
				list = append(list, w)
			}
		}
		return nil
	})
	return list, err
}

func (s *fakeStore) Webhook(
	ctx context.Context, account signal.AccountID, id signal.WebhookID,
) (w delivery.Webhook, err error) {
	err = s.do(ctx, "Webhook", func() error {
		found, ok := s.webhooks[id]
		if !ok || found.Account != account {
			return signal.NotFound("webhook")
		}
		w = found
		w.Health = s.health[id]
		return nil
	})
	return w, err
}

func (s *fakeStore) ChangeWebhook(
	ctx context.Context, w delivery.Webhook, clearHealth bool,
) (stored delivery.Webhook, err error) {
	err = s.do(ctx, "ChangeWebhook", func() error {
		if s.webhooks[w.ID].Revision != w.Revision { // or it was removed
			return &signal.Error{Kind: signal.KindConflict, Code: signal.CodeWebhookChanged}
		}
		if clearHealth {
			delete(s.health, w.ID)
			w.ClearedAt = s.now()
		}
		stored = s.save(w)
		return nil
	})
	return stored, err
}

func (s *fakeStore) LastEvent(ctx context.Context, _ int) (last signal.Position, err error) {
	err = s.do(ctx, "LastEvent", func() error {
		if n := len(s.log); n > 0 {
			last = s.log[n-1].Position
		}
		return nil
	})
	return last, err
}

func (s *fakeStore) StoreDeliveries(ctx context.Context, _ int, epoch int64, batch []delivery.EventDeliveries) error {
	return s.do(ctx, "StoreDeliveries", func() error {
		if epoch != s.epoch {
			return errNotOwner
		}
		s.due = nil
		page := storedPage{Bodies: len(batch)}
		for _, b := range batch {
			for _, d := range b.Deliveries {
				page.Deliveries++
				if _, ok := s.webhooks[d.Webhook]; ok && s.deliveries[d.ID] == nil {
					s.deliveries[d.ID] = &delivery.PendingDelivery{Delivery: d, Body: slices.Clone(b.Body)}
				}
			}
		}
		s.kept = append(s.kept, page)
		return nil
	})
}

// earlier compares deliveries by when they are due.
func earlier(a, b *delivery.PendingDelivery) int {
	return cmp.Or(a.NextAttemptAt.Compare(b.NextAttemptAt), cmp.Compare(a.ID, b.ID))
}

func (s *fakeStore) DueEndpoints(
	ctx context.Context, _ int, until time.Time, offset, limit int,
) (due []delivery.EndpointDue, err error) {
	err = s.do(ctx, "DueEndpoints", func() error {
		if s.due == nil {
			s.due = s.endpoints()
		}
		n, _ := slices.BinarySearchFunc(s.due, until, func(e delivery.EndpointDue, until time.Time) int {
			if e.At.After(until) {
				return 1
			}
			return -1
		})
		due = s.due[min(offset, n):min(offset+limit, n)]
		return nil
	})
	return due, err
}

// endpoints returns the webhooks with pending deliveries by when the first one is due.
func (s *fakeStore) endpoints() []delivery.EndpointDue {
	first := map[signal.WebhookID]delivery.EndpointDue{}
	for _, d := range s.deliveries {
		if d.Status != delivery.Pending {
			continue
		}
		if e, ok := first[d.Webhook]; !ok || d.NextAttemptAt.Before(e.At) {
			first[d.Webhook] = delivery.EndpointDue{Account: d.Account, Webhook: d.Webhook, At: d.NextAttemptAt}
		}
	}
	due := slices.AppendSeq([]delivery.EndpointDue{}, maps.Values(first))
	slices.SortFunc(due, func(a, b delivery.EndpointDue) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Webhook, b.Webhook))
	})
	return due
}

func (s *fakeStore) DueDeliveries(ctx context.Context, _ int, account signal.AccountID, id signal.WebhookID,
	until time.Time, limit int, except map[signal.DeliveryID]bool,
) (due []delivery.PendingDelivery, next time.Time, err error) {
	err = s.do(ctx, "DueDeliveries", func() error {
		s.maxHeld = max(s.maxHeld, len(except))
		var first []*delivery.PendingDelivery // sorted
		for _, d := range s.deliveries {
			switch {
			case d.Webhook != id || d.Account != account || d.Status != delivery.Pending:
			case d.NextAttemptAt.After(until):
				if next.IsZero() || d.NextAttemptAt.Before(next) {
					next = d.NextAttemptAt
				}
			case !except[d.ID] && (len(first) < limit || earlier(d, first[limit-1]) < 0):
				i, _ := slices.BinarySearchFunc(first, d, earlier)
				first = slices.Insert(first, i, d)
				first = first[:min(len(first), limit)]
			}
		}
		for _, d := range first {
			due = append(due, *d)
		}
		return nil
	})
	return due, next, err
}

func (s *fakeStore) StoreOutcomes(
	ctx context.Context, _ int, epoch int64, o delivery.Outcomes,
) (left []int, err error) {
	err = s.do(ctx, "StoreOutcomes", func() error {
		s.due = nil
		w, ok := s.webhooks[o.Webhook]
		switch {
		case epoch != s.epoch:
			return errNotOwner
		case !ok:
			for i := range o.Deliveries {
				left = append(left, i)
			}
			return nil
		case o.Disabled != nil && o.Disabled.Revision != w.Revision:
			return &signal.Error{Kind: signal.KindConflict, Code: signal.CodeWebhookChanged}
		}
		for i, d := range o.Deliveries {
			old := s.deliveries[d.ID]
			wasDue := dueTime(d.WasDueAt)
			if old == nil && o.Bodies[i] != nil {
				old = &delivery.PendingDelivery{Body: o.Bodies[i]}
				old.Status, old.NextAttemptAt = delivery.Pending, wasDue
				s.deliveries[d.ID] = old
			}
			if old == nil || old.Status != delivery.Pending ||
				!d.WasDueAt.IsZero() && !wasDue.Equal(old.NextAttemptAt) {
				left = append(left, i)
				continue
			}
			d.WasDueAt = time.Time{}
			if !d.NextAttemptAt.IsZero() {
				d.NextAttemptAt = dueTime(d.NextAttemptAt)
			}
			old.Delivery = d
		}
		if o.Health != nil {
			s.health[o.Webhook] = *o.Health
		}
		if o.Disabled != nil {
			s.save(*o.Disabled)
		}
		if o.Event != nil {
			s.notices = append(s.notices, *o.Event)
			s.append(*o.Event)
		}
		for _, wait := range o.Waits {
			if s.waits[o.Webhook] == nil {
				s.waits[o.Webhook] = map[signal.SignalID]delivery.Wait{}
			}
			if s.waits[o.Webhook][wait.Signal] = wait; wait.Head == "" && wait.Last == "" {
				delete(s.waits[o.Webhook], wait.Signal)
			}
		}
		for _, m := range o.Mails {
			m.ID = strconv.Itoa(len(s.mailbox) + 1)
			s.mailbox[m.ID], s.mailDue[m.ID] = m, s.now()
		}
		return nil
	})
	return left, err
}

func (s *fakeStore) PendingDeliveries(
	ctx context.Context, _ int, accounts []signal.AccountID,
) (pending []int, err error) {
	err = s.do(ctx, "PendingDeliveries", func() error {
		pending = make([]int, len(accounts))
		for _, d := range s.deliveries {
			if i := slices.Index(accounts, d.Account); i >= 0 && d.Status == delivery.Pending {
				pending[i]++
			}
		}
		return nil
	})
	return pending, err
}

func (s *fakeStore) Notify(ctx context.Context, epoch int64, e signal.Event) error {
	return s.do(ctx, "Notify", func() error {
		if epoch != s.epoch {
			return errNotOwner
		}
		s.notices = append(s.notices, e)
		s.append(e)
		return nil
	})
}

func (s *fakeStore) SignalWaits(ctx context.Context, _ int, id signal.WebhookID) (list []delivery.Wait, err error) {
	err = s.do(ctx, "SignalWaits", func() error {
		list = slices.Collect(maps.Values(s.waits[id]))
		return nil
	})
	return list, err
}

func (s *fakeStore) PruneDeliveries(
	ctx context.Context, _ int, epoch int64, id signal.WebhookID, _ time.Duration, _ int, _ int64,
) (more bool, err error) {
	err = s.do(ctx, "PruneDeliveries", func() error {
		if epoch != s.epoch {
			return errNotOwner
		}
		s.pruned[id]++
		more = s.pruned[id]%2 == 1 // two steps at a time
		return nil
	})
	return more, err
}

func (s *fakeStore) DueMails(
	ctx context.Context, _ int, until time.Time, limit int,
) (due []delivery.Mail, next time.Time, err error) {
	err = s.do(ctx, "DueMails", func() error {
		byTime := func(a, b string) int { return s.mailDue[a].Compare(s.mailDue[b]) }
		for _, id := range slices.SortedFunc(maps.Keys(s.mailDue), byTime) {
			if at := s.mailDue[id]; at.After(until) {
				next = at
				return nil
			}
			if len(due) < limit {
				due = append(due, s.mailbox[id])
			}
		}
		return nil
	})
	return due, next, err
}

func (s *fakeStore) StoreMailOutcome(ctx context.Context, _ int, epoch int64, m delivery.Mail, again time.Time) error {
	return s.do(ctx, "StoreMailOutcome", func() error {
		if epoch != s.epoch {
			return errNotOwner
		}
		if again.IsZero() {
			delete(s.mailDue, m.ID)
			return nil
		}
		m.Tries++
		s.mailbox[m.ID], s.mailDue[m.ID] = m, again
		return nil
	})
}
