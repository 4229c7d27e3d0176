package webhook

import (
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// search reads the backlog, now or when the queue is low.
func (e *endpoint) search(c engine.Context) {
	e.worked = true
	e.backlog.wanted = true
	e.read(c)
}

func (e *endpoint) onSearchDue(c engine.Context) {
	e.backlog.due = time.Time{}
	e.search(c)
}

// read reads a page if one is wanted and the queue is low.
func (e *endpoint) read(c engine.Context) {
	if !e.settings.known || e.settings.sealed || e.held && !e.settings.disabled() || !e.queue.backlogLow() {
		return
	}
	until := e.o.now()
	if e.settings.disabled() {
		until = until.AddDate(1, 0, 0) // all that is pending
	}
	e.backlog.read(c, until)
}

func (e *endpoint) onPageRead(c engine.Context, m pageRead) {
	if !e.backlog.endRead() {
		e.read(c)
		return
	}
	if m.err != nil {
		e.backlog.failed.Log(e.log, "deliveries that are due are not readable", "err", m.err)
		e.backlog.readAt(c, e.o.now().Add(e.backlog.fail()))
		return
	}
	items := e.backlog.addPage(&m)
	e.backlog.readAt(c, m.next)
	if e.settings.disabled() {
		items = e.giveUp(items)
	} else {
		items = e.admit(items)
	}
	e.outcomes.store(c, &e.backlog.waits)
	e.queue.change(func(o *order) { o.addBacklog(items) })
	if e.backlog.catchUp(&m, e.o.now()) {
		var dropped []*item
		recovering := e.queue.recovering()
		e.queue.change(func(o *order) { dropped = o.dropLive(recovering) })
		e.release(dropped)
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
		if e.backlog.waits.mustWait(d) {
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
		if e.backlog.waits.tried(a.item, &state, e.o.now(), e.o.options.OrderWait) {
			var behind []*item
			e.queue.change(func(o *order) { behind = o.takeAfter(a.item) })
			for _, next := range behind {
				e.putBehind(next)
			}
		} else if !success { // after a success the queue has continued by itself
			e.queue.change(func(o *order) { o.leave(a.item) })
		}
		if !a.unsent { // this is no fault of the endpoint
			e.outcomes.applyHealth(rules, &e.settings.record, &a)
		}
	}
}

func (e *endpoint) onOutcomesStored(c engine.Context, m outcomesStored) {
	r := &e.outcomes
	r.writing = false
	switch {
	case m.err == nil:
	case e.o.Refused(m.err):
		return
	case signal.CodeOf(m.err) == signal.CodeWebhookChanged && r.keepEnabled():
		e.outcomes.write(c)
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
	e.outcomes.prune(c)
	e.outcomes.store(c, &e.backlog.waits)
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
		e.backlog.readAt(c, d.NextAttemptAt)
		e.backlog.wanted = e.backlog.wanted || e.settings.disabled()
	default:
		e.outcomes.countEnded(&d.Delivery)
		e.o.options.Metrics.byStatus[d.Status].Inc()
	}
	e.backlog.drop(d.ID)
}

// onDisabled handles that the webhook was disabled because it has failed for too long.
func (e *endpoint) onDisabled(c engine.Context, record *delivery.Webhook) {
	e.log.Info("webhook is disabled", "account", string(e.account), "failing_since", e.outcomes.health.FailingSince)
	e.o.options.Metrics.disabled(delivery.DisabledFailing)
	e.settings.record = *record
	e.empty()
	e.backlog.invalidate()
	e.load(c)
}

func (e *endpoint) onPruned(m pruned) {
	e.outcomes.pruning = false
	if m.err != nil && !e.o.Refused(m.err) {
		e.log.Debug("deliveries are not pruned", "err", m.err)
	}
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
