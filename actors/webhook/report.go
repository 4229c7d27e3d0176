package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
)

// outcomes stores what became of deliveries.
type outcomes interface {
	// StoreOutcomes stores states after attempts and all that follows from them in one
	// step. left are the indices of the deliveries that it left out, because somebody
	// changed them by hand meanwhile: all of them if the webhook is gone. KindConflict,
	// "webhook_changed": o.Disabled was made from another record than the present one.
	StoreOutcomes(ctx context.Context, partition int, epoch int64, o delivery.Outcomes) (left []int, err error)
	// PruneDeliveries drops ended deliveries that need not be kept, a number at once.
	PruneDeliveries(ctx context.Context, partition int, epoch int64, webhook signal.WebhookID, retention time.Duration,
		keep int, keepBytes int64) (more bool, err error)
}

// outcomesStored says how a write of outcomes ended.
type outcomesStored struct {
	left []int
	err  error
}

// storeDue says to try it again.
type storeDue struct{}

// lingered says that outcomes have waited for others.
type lingered struct{}

// pruned says how the pruning of deliveries ended.
type pruned struct{ err error }

const (
	// maxStored is how many outcomes are stored at once, and maxStoredBytes how much of
	// what those send that are stored for the first time.
	maxStored      = 128
	maxStoredBytes = 256 << 10
	// storeEvery is how long after a write the next one begins, so that it has more to
	// store; at once if half of what it can store waits.
	storeEvery = 25 * time.Millisecond
	// pruneEvery is after how many ended deliveries their number is looked at.
	pruneEvery = 1000
	// pruneShare is which part of the bytes that may be kept is answered before they are
	// looked at, too: so much more may be there.
	pruneShare = 16
	// lastTimeout bounds what an actor stores when it ends.
	lastTimeout = time.Second
)

// report is what has happened and is not stored yet. One write is under way at a
// time; what ends meanwhile forms the next one.
type report struct {
	health delivery.WebhookHealth // as it will be stored

	waiting outcomeList // in the order in which they ended
	storing outcomeList // is being stored, or will be tried again
	busy    bool        // there is something in storing
	written bool        // its write is under way
	failed  engine.Backoff
	last    time.Time // when the last write began
	lingers bool      // outcomes wait for others

	ended   int // deliveries that ended since the last pruning,
	bytes   int // and what was answered to them
	pruning bool
}

// outcomeList is what goes into one write.
type outcomeList struct {
	outcomes []outcome
	health   bool
	disabled *delivery.Webhook
	event    *signal.Event
	mails    []delivery.Mail
	waits    []delivery.Wait
}

// outcome is a delivery in its new state, and as it was held.
type outcome struct {
	delivery.Delivery
	item *item
}

func (r *report) idle() bool { return !r.busy && len(r.waiting.outcomes) == 0 && !r.pruning }

// split takes what goes into the next write off the list.
func (l *outcomeList) split() outcomeList {
	first, n, bytes := *l, 0, 0
	for n < len(l.outcomes) && n < maxStored && bytes < maxStoredBytes {
		if item := l.outcomes[n].item; item.isOpen() {
			bytes += len(item.Body)
		}
		n++
	}
	if n == len(l.outcomes) {
		*l = outcomeList{}
		return first
	}
	*l = outcomeList{outcomes: first.outcomes[n:]}
	first.outcomes = first.outcomes[:n:n]
	return first
}

// conclude draws the conclusions from the attempts that have ended.
func (e *endpoint) conclude() {
	r, rules, schedule := &e.report, e.o.options.Health, e.o.options.Schedule
	for _, a := range e.queue.collect() {
		state := e.limited(a.item, schedule.After(a.item.Delivery, a.trigger, a.result, a.ended, jitter()))
		r.waiting.outcomes = append(r.waiting.outcomes, outcome{state, a.item})
		e.tried(a.item, &state, a.result.Error == "")
		before := r.health
		after, v := rules.After(before, a.result.Error == "", a.ended)
		r.health = after
		r.waiting.health = r.waiting.health || after != before
		e.judge(v, before, &a)
	}
}

// judge does what a verdict demands. before is the health ahead of the attempt.
func (e *endpoint) judge(v Verdict, before delivery.WebhookHealth, a *attempt) {
	w := &e.report.waiting
	if v == (Verdict{}) || e.disabled() || w.disabled != nil || e.report.storing.disabled != nil {
		return
	}
	mail := delivery.Mail{Account: e.account, Webhook: e.id, URL: e.record.URL, Since: before.FailingSince, At: a.ended, Error: a.result.Error}
	switch {
	case v.Warn:
		mail.Kind = delivery.MailWebhookFailing
	case v.Recovered:
		mail.Kind = delivery.MailWebhookRecovered
	case v.Disable:
		mail.Kind = delivery.MailWebhookDisabled
		record := e.record
		record.Status, record.DisabledReason = delivery.WebhookDisabled, delivery.DisabledFailing
		record.DisabledAt, record.UpdatedAt = a.ended, a.ended
		w.disabled = &record
		w.event = &signal.Event{ID: signal.NewEventID(), Account: e.account, Type: signal.SystemNotification,
			Data: disabledNotice(e.id, a.ended.Sub(before.FailingSince))}
	}
	w.mails = append(w.mails, mail)
}

// disabledNotice returns the payload of the notification that a webhook was disabled
// after it had failed for so long.
func disabledNotice(id signal.WebhookID, failing time.Duration) []byte {
	b := signal.AppendText([]byte(`{"message":`), fmt.Sprintf("Webhook %s was disabled after %s of failures.", id, mail.InWords(failing)))
	return append(b, `,"severity":"warning","code":"webhook_disabled"}`...)
}

// store stores what has happened, unless a write is under way or was just before.
func (e *endpoint) store(c engine.Context) {
	r := &e.report
	if r.busy || len(r.waiting.outcomes) == 0 {
		return
	}
	now := time.Now()
	if wait := storeEvery - now.Sub(r.last); wait > 0 && len(r.waiting.outcomes) < maxStored/2 {
		if !r.lingers {
			r.lingers = true
			c.After(wait, lingered{})
		}
		return
	}
	r.busy, r.last = true, now
	r.storing = r.waiting.split()
	r.storing.waits = e.order.take()
	e.write(c)
}

// write writes what is being stored.
func (e *endpoint) write(c engine.Context) {
	e.report.written = true
	o, changes := e.o, e.outcomes(&e.report.storing)
	c.Go(func(ctx context.Context) any {
		// The write goes on when the actor ends: what it stores has happened.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		left, err := o.store.StoreOutcomes(ctx, o.Partition, o.Epoch, changes)
		return outcomesStored{left, err}
	})
}

func (e *endpoint) outcomes(l *outcomeList) delivery.Outcomes {
	o := delivery.Outcomes{Account: e.account, Webhook: e.id, Disabled: l.disabled, Event: l.event, Mails: l.mails, Waits: l.waits,
		Deliveries: make([]delivery.Delivery, len(l.outcomes)), Bodies: make([][]byte, len(l.outcomes))}
	for i := range l.outcomes {
		o.Deliveries[i] = l.outcomes[i].Delivery
		if item := l.outcomes[i].item; item.isOpen() {
			o.Bodies[i] = item.Body
		}
	}
	if l.health {
		health := e.report.health
		o.Health = &health
	}
	return o
}

func (e *endpoint) onLingered(c engine.Context) {
	e.report.lingers = false
	e.store(c)
}

func (e *endpoint) onOutcomesStored(c engine.Context, m outcomesStored) {
	r := &e.report
	r.written = false
	switch {
	case m.err == nil:
	case e.o.Refused(m.err):
		return
	case signal.CodeOf(m.err) == signal.CodeWebhookChanged && r.storing.disabled != nil:
		// Somebody has changed the webhook meanwhile. If it goes on failing, the next
		// attempt disables it.
		mails := slices.DeleteFunc(r.storing.mails, func(m delivery.Mail) bool { return m.Kind == delivery.MailWebhookDisabled })
		r.storing.disabled, r.storing.event, r.storing.mails = nil, nil, mails
		e.write(c)
		e.load(c)
		return
	default:
		r.failed.Log(e.log, "outcomes are not stored", "deliveries", len(r.storing.outcomes), "err", m.err)
		c.After(r.failed.Next(), storeDue{})
		return
	}
	e.worked = true
	stored := r.storing
	r.busy, r.storing = false, outcomeList{}
	r.failed.Reset()
	for i := range stored.outcomes {
		e.settle(c, &stored.outcomes[i], slices.Contains(m.left, i))
	}
	e.queue.settle(len(stored.outcomes))
	if len(stored.mails) > 0 {
		e.o.mailer.Tell(mailStored{})
	}
	if stored.disabled != nil {
		e.onDisabled(c, stored.disabled)
	}
	e.prune(c)
	e.store(c)
	e.fill(c)
	e.read(c)
}

// settle lets go of a delivery whose state is stored, unless it was left out: then
// Redis has another one of it.
func (e *endpoint) settle(c engine.Context, d *outcome, left bool) {
	d.item.close()
	switch {
	case left:
		e.backlog.wanted = true
	case d.Status == delivery.Pending:
		e.searchAt(c, d.NextAttemptAt)
		e.backlog.wanted = e.backlog.wanted || e.disabled()
	default:
		e.report.ended++
		for i := range d.Attempts {
			e.report.bytes += len(d.Attempts[i].ResponseBody)
		}
		e.o.options.Metrics.ended(d.Status)
	}
	if b := &e.backlog; b.reading {
		b.released = append(b.released, d.ID)
	} else {
		delete(e.held, d.ID)
	}
}

// onDisabled goes on when the webhook was disabled because it has failed for too long.
func (e *endpoint) onDisabled(c engine.Context, record *delivery.Webhook) {
	e.log.Info("webhook is disabled", "account", string(e.account), "failing_since", e.report.health.FailingSince)
	e.o.options.Metrics.disabled(delivery.DisabledFailing)
	e.o.recorder.forget(e.account)
	e.record = *record
	e.empty()
	e.backlog.stale = e.backlog.reading
	e.load(c)
}

// prune drops ended deliveries that need not be kept, now and then.
func (e *endpoint) prune(c engine.Context) {
	r := &e.report
	if r.ended < pruneEvery && int64(r.bytes) < e.o.options.KeepBytes/pruneShare || r.pruning {
		return
	}
	r.ended, r.bytes, r.pruning = 0, 0, true
	o, id := e.o, e.id
	c.Go(func(ctx context.Context) any { return pruned{o.prune(ctx, id)} })
}

func (e *endpoint) onPruned(m pruned) {
	e.report.pruning = false
	if m.err != nil && !e.o.Refused(m.err) {
		e.log.Debug("deliveries are not pruned", "err", m.err)
	}
}

// prune drops the ended deliveries of a webhook that need not be kept.
func (o *owned) prune(ctx context.Context, id signal.WebhookID) error {
	for more := true; more; {
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			more, err = o.store.PruneDeliveries(ctx, o.Partition, o.Epoch, id, o.options.Retention, o.options.Keep, o.options.KeepBytes)
			return err
		}()
		if err != nil {
			return fmt.Errorf("prune deliveries: %w", err)
		}
	}
	return nil
}

// storeLast stores what has happened before the actor ends. If that fails, the next
// one sends again what was sent already.
func (e *endpoint) storeLast(c engine.Context) {
	e.conclude()
	r := &e.report
	var last []delivery.Outcomes
	if r.busy && !r.written {
		last = append(last, e.outcomes(&r.storing))
	}
	for len(r.waiting.outcomes) > 0 {
		l := r.waiting.split()
		l.waits = e.order.take()
		last = append(last, e.outcomes(&l))
	}
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
