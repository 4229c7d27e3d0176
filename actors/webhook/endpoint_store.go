package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Messages of an endpoint to itself about Redis.
type (
	// searchDue is sent when a delivery is due in Redis.
	searchDue struct{}
	// outcomesStored is the result of a write of outcomes.
	outcomesStored struct {
		left []int
		err  error
	}
	// storeDue is sent when a write must be retried.
	storeDue struct{}
	// lingered is sent when outcomes have waited for others.
	lingered struct{}
	// pruned is the result of pruning deliveries.
	pruned struct{ err error }
)

// lastTimeout bounds the last writes of an actor that ends.
const lastTimeout = time.Second

// search reads the backlog, now or when there is room.
func (e *endpoint) search(c engine.Context) {
	e.worked = true
	e.backlog.wanted = true
	e.read(c)
}

// searchAt schedules a search.
func (e *endpoint) searchAt(c engine.Context, at time.Time) {
	if e.backlog.plan(at) {
		e.searchTimer.Stop()
		// The store's times are whole milliseconds.
		e.searchTimer = c.After(e.o.in(at)+time.Millisecond, searchDue{})
	}
}

func (e *endpoint) onSearchDue(c engine.Context) {
	e.backlog.due = time.Time{}
	e.search(c)
}

// read reads a page if one is wanted and there is room.
func (e *endpoint) read(c engine.Context) {
	if !e.known || e.sealed || e.held && !e.disabled() || !e.queue.backlogLow() {
		return
	}
	held, ok := e.backlog.beginRead()
	if !ok {
		return
	}
	until := e.o.now()
	if e.disabled() {
		until = until.AddDate(1, 0, 0) // all that is pending
	}
	o, account, id := e.o, e.account, e.id
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		due, next, err := o.store.DueDeliveries(ctx, o.Partition, account, id, until, maxBacklog, held)
		return pageRead{due, len(due) == maxBacklog, next, err}
	})
}

func (e *endpoint) onPageRead(c engine.Context, m pageRead) {
	if !e.backlog.endRead() {
		e.read(c)
		return
	}
	if m.err != nil {
		e.backlog.failed.Log(e.log, "deliveries that are due are not readable", "err", m.err)
		e.searchAt(c, e.o.now().Add(e.backlog.fail()))
		return
	}
	items := e.backlog.addPage(&m)
	e.searchAt(c, m.next)
	if e.disabled() {
		items = e.giveUp(items)
	} else {
		items = e.admit(items)
	}
	e.store(c)
	e.queue.addBacklog(items)
	if e.backlog.catchUp(&m, e.o.now()) {
		e.release(e.queue.dropLive())
		e.backlog.sortUnsaved()
	}
	e.queue.setShut(e.backlog.shut)
	e.fill(c)
	if len(items) > 0 || e.backlog.shut {
		e.read(c) // else the next outcome that is stored makes room
	}
}

// admit postpones the deliveries of a page that must wait, and returns the others.
func (e *endpoint) admit(page []*item) (items []*item) {
	for _, d := range page {
		if e.backlog.routeRead(d) == routeBehind {
			e.postpone(d)
		} else {
			items = append(items, d)
		}
	}
	return items
}

// giveUp cancels deliveries of a disabled webhook, except tests that were not tried yet,
// which it returns.
func (e *endpoint) giveUp(items []*item) (tests []*item) {
	now := e.o.now()
	for _, d := range items {
		if d.Type == signal.WebhookTest && len(d.Attempts) == 0 {
			d.Single = true
			tests = append(tests, d)
			continue
		}
		e.outcomes.add(cancelled(d.Delivery, now), d)
		e.queue.settle(-1)
	}
	return tests
}

// cancelled returns d in its final state after a cancellation.
func cancelled(d delivery.Delivery, now time.Time) delivery.Delivery {
	d.Status, d.Error, d.CompletedAt = delivery.Failed, delivery.Cancelled, now
	d.WasDueAt, d.NextAttemptAt, d.Single = d.NextAttemptAt, time.Time{}, false
	return d
}

// refill empties the queue and fills it from Redis again, because the two may differ.
func (e *endpoint) refill(c engine.Context) {
	e.empty()
	e.backlog.invalidate()
	e.search(c)
}

// evaluate handles the attempts that have ended.
func (e *endpoint) evaluate() {
	rules, schedule := e.o.options.Health, e.o.options.Schedule
	for _, a := range e.queue.collect() {
		success := a.result.Error == ""
		state := schedule.After(a.item.Delivery, a.trigger, a.result, a.ended, jitter())
		state.Sent = a.body
		if a.unsent {
			state.Status, state.NextAttemptAt, state.CompletedAt = delivery.Failed, time.Time{}, a.ended
		}
		state = e.limited(a.item, state)
		e.outcomes.add(state, a.item)
		if e.backlog.tried(a.item, &state, e.o.now(), e.o.options.OrderWait) {
			for _, next := range e.queue.takeAfter(a.item) {
				e.putBehind(next)
			}
		} else if !success { // after a success the queue has continued by itself
			e.queue.unblock(a.item)
		}
		if !a.unsent { // this is no fault of the endpoint
			e.outcomes.applyHealth(rules, &e.record, &a)
		}
	}
}

// store writes the waiting outcomes, unless a write is in flight or has just ended.
func (e *endpoint) store(c engine.Context) {
	linger, write := e.outcomes.prepare(time.Now(), &e.backlog.waits)
	if linger > 0 {
		c.After(linger, lingered{})
	}
	if write {
		e.write(c)
	}
}

// write writes the outcomes being stored.
func (e *endpoint) write(c engine.Context) {
	o, changes := e.o, e.outcomes.beginWrite()
	c.Go(func(ctx context.Context) any {
		// The write continues when the actor ends, because the attempts have happened.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		left, err := o.store.StoreOutcomes(ctx, o.Partition, o.Epoch, changes)
		return outcomesStored{left, err}
	})
}

func (e *endpoint) onLingered(c engine.Context) {
	e.outcomes.lingers = false
	e.store(c)
}

func (e *endpoint) onOutcomesStored(c engine.Context, m outcomesStored) {
	r := &e.outcomes
	r.writing = false
	switch {
	case m.err == nil:
	case e.o.Refused(m.err):
		return
	case signal.CodeOf(m.err) == signal.CodeWebhookChanged && r.keepEnabled():
		e.write(c)
		e.load(c)
		return
	default:
		r.failed.Log(e.log, "outcomes are not stored", "deliveries", len(r.storing.outcomes), "err", m.err)
		c.After(r.failed.Next(), storeDue{})
		return
	}
	e.worked = true
	stored := r.endWrite()
	for i := range stored.outcomes {
		e.settle(c, &stored.outcomes[i], slices.Contains(m.left, i))
	}
	e.queue.settle(len(stored.outcomes))
	if len(stored.mails) > 0 {
		e.o.outbox.Tell(mailStored{})
	}
	if stored.disabled != nil {
		e.onDisabled(c, stored.disabled)
	}
	e.prune(c)
	e.store(c)
	e.fill(c)
	e.read(c)
}

// settle drops a delivery whose state is stored. left means that it was not stored, because
// it was changed in Redis meanwhile.
func (e *endpoint) settle(c engine.Context, d *outcome, left bool) {
	d.item.noteStored()
	switch {
	case left:
		e.backlog.wanted = true
	case d.Status == delivery.Pending:
		e.searchAt(c, d.NextAttemptAt)
		e.backlog.wanted = e.backlog.wanted || e.disabled()
	default:
		e.outcomes.countEnded(&d.Delivery)
		e.o.options.Metrics.ended(d.Status)
	}
	e.backlog.drop(d.ID)
}

// onDisabled handles that the webhook was disabled because it has failed for too long.
func (e *endpoint) onDisabled(c engine.Context, record *delivery.Webhook) {
	e.log.Info("webhook is disabled", "account", string(e.account), "failing_since", e.outcomes.health.FailingSince)
	e.o.options.Metrics.disabled(delivery.DisabledFailing)
	e.o.recorder.forget(e.account)
	e.record = *record
	e.empty()
	e.backlog.invalidate()
	e.load(c)
}

// prune drops ended deliveries beyond the limits, if enough have ended since the last time.
func (e *endpoint) prune(c engine.Context) {
	if !e.outcomes.prune(e.o.options.KeepBytes) {
		return
	}
	o, id := e.o, e.id
	c.Go(func(ctx context.Context) any { return pruned{o.prune(ctx, id)} })
}

func (e *endpoint) onPruned(m pruned) {
	e.outcomes.pruning = false
	if m.err != nil && !e.o.Refused(m.err) {
		e.log.Debug("deliveries are not pruned", "err", m.err)
	}
}

// prune drops the ended deliveries of a webhook beyond the limits.
func (o *owned) prune(ctx context.Context, id signal.WebhookID) error {
	for more := true; more; {
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			more, err = o.store.PruneDeliveries(ctx, o.Partition, o.Epoch, id,
				o.options.Retention, o.options.Keep, o.options.KeepBytes)
			return err
		}()
		if err != nil {
			return fmt.Errorf("prune deliveries: %w", err)
		}
	}
	return nil
}

// storeLast stores the outcomes before the actor ends. If that fails, the next one repeats
// the attempts.
func (e *endpoint) storeLast(c engine.Context) {
	e.evaluate()
	last := e.outcomes.rest(&e.backlog.waits)
	if len(last) == 0 {
		return
	}
	o := e.o
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
		defer cancel()
		for _, changes := range last {
			if _, err := o.store.StoreOutcomes(ctx, o.Partition, o.Epoch, changes); err != nil {
				o.log.Debug("last outcomes are not stored", "webhook", string(changes.Webhook), "err", err)
				return nil
			}
		}
		return nil
	})
}

// limited returns the state to store after an attempt. If too many are pending, a delivery
// that is not stored yet fails instead of becoming pending.
func (e *endpoint) limited(d *item, after delivery.Delivery) delivery.Delivery {
	if after.Status != delivery.Pending || !d.isInFlight() || d.pending.Load() && !d.passed.Load() {
		return after
	}
	if !d.passed.Load() {
		if e.o.recorder.counts.reserve(e.account, 1) > 0 {
			return after
		}
		e.o.recorder.counts.drop(e.account, 1)
	} // else it was counted as dropped
	after.Status, after.NextAttemptAt, after.CompletedAt = delivery.Failed, time.Time{}, e.o.now()
	return after
}
