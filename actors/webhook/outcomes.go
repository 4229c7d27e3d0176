package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
)

// outcomeStore stores the outcomes of attempts.
type outcomeStore interface {
	// StoreOutcomes stores states after attempts and all their consequences atomically. left
	// are the indices of the deliveries that it did not store because a client has changed
	// them meanwhile, or all if the webhook is removed. It returns KindConflict with code
	// "webhook_changed" if o.Disabled is based on an older record.
	StoreOutcomes(ctx context.Context, partition int, epoch int64, o delivery.Outcomes) (left []int, err error)
	// PruneDeliveries drops some of the ended deliveries beyond the limits.
	PruneDeliveries(ctx context.Context, partition int, epoch int64, webhook signal.WebhookID, retention time.Duration,
		keep int, keepBytes int64) (more bool, err error)
}

const (
	// maxStored bounds the outcomes stored at once, and maxStoredBytes the bodies of those
	// stored for the first time.
	maxStored      = 128
	maxStoredBytes = 256 << 10
	// storeEvery is the time between two writes, so that each has more to store. If half of
	// maxStored waits, the next one begins at once.
	storeEvery = 25 * time.Millisecond
	// Deliveries are pruned after pruneEvery of them have ended, or when the answers to them
	// exceed a pruneShare-th of the bytes that may be kept.
	pruneEvery = 1000
	pruneShare = 16
	// lastTimeout bounds the last writes of an actor that ends.
	lastTimeout = time.Second
)

// Messages of an endpoint to itself about outcomes.
type (
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

// outcomes are the states of deliveries and of the webhook that are not stored yet. One
// write is in flight at a time; later outcomes form the next one.
type outcomes struct {
	o       *owned
	account signal.AccountID
	webhook signal.WebhookID

	health delivery.WebhookHealth // the newest, stored or not

	waiting outcomeList // in the order of their ends
	storing outcomeList // being stored, or to be retried
	busy    bool        // storing is not empty
	writing bool        // its write is in flight
	failed  backoff.Backoff
	last    time.Time // when the last write began
	lingers bool      // outcomes wait for others

	ended   int // deliveries that ended since the last pruning
	bytes   int // of the messages and the answers to them
	pruning bool
}

// outcomeList is the content of one write.
type outcomeList struct {
	outcomes []outcome
	health   bool
	disabled *delivery.Webhook
	event    *signal.Event
	mails    []delivery.Mail
	waits    []delivery.Wait
}

// outcome is a delivery in its new state, and the item held for it.
type outcome struct {
	delivery.Delivery
	item *item
}

func (r *outcomes) idle() bool { return !r.busy && len(r.waiting.outcomes) == 0 && !r.pruning }

// add adds the new state of a delivery.
func (r *outcomes) add(d delivery.Delivery, i *item) {
	r.waiting.outcomes = append(r.waiting.outcomes, outcome{d, i})
}

// split removes the next write from the list.
func (l *outcomeList) split() outcomeList {
	first, n, bytes := *l, 0, 0
	for n < len(l.outcomes) && n < maxStored && bytes < maxStoredBytes {
		bytes += len(l.outcomes[n].Sent)
		if item := l.outcomes[n].item; item.isInFlight() {
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

// applyHealth applies the rules of health to an attempt, and adds its consequences for the
// webhook, whose record is w.
func (r *outcomes) applyHealth(rules HealthRules, w *delivery.Webhook, a *attempt) {
	before := r.health
	after, v := rules.After(before, a.result.Error == "", a.ended)
	after.HeldUntil = a.held
	r.health = after
	r.waiting.health = r.waiting.health || after != before
	disabled := w.Status == delivery.WebhookDisabled || r.waiting.disabled != nil || r.storing.disabled != nil
	if disabled || v == (Verdict{}) {
		return
	}
	m := delivery.Mail{
		Account: r.account,
		Webhook: r.webhook,
		URL:     w.ShownURL(),
		Since:   before.FailingSince,
		At:      a.ended,
		Error:   a.result.Error,
	}
	switch {
	case v.Warn:
		m.Kind = delivery.MailWebhookFailing
	case v.Recovered:
		m.Kind = delivery.MailWebhookRecovered
	case v.Disable:
		m.Kind = delivery.MailWebhookDisabled
		record := *w
		record.Status, record.DisabledReason = delivery.WebhookDisabled, delivery.DisabledFailing
		record.DisabledAt, record.UpdatedAt = a.ended, a.ended
		r.waiting.disabled = &record
		r.waiting.event = &signal.Event{
			ID:      signal.NewEventID(),
			Account: r.account,
			Type:    signal.SystemNotification,
			Data:    disabledNotice(r.webhook, a.ended.Sub(before.FailingSince)),
		}
	}
	r.waiting.mails = append(r.waiting.mails, m)
}

// disabledNotice returns the payload of the notification that a webhook was disabled.
func disabledNotice(id signal.WebhookID, failing time.Duration) []byte {
	text := fmt.Sprintf("Webhook %s was disabled after %s of failures.", id, mail.InWords(failing))
	b := signal.AppendText([]byte(`{"message":`), text)
	return append(b, `,"severity":"warning","code":"webhook_disabled"}`...)
}

// store writes the waiting outcomes, unless a write is in flight or has just ended.
func (r *outcomes) store(c engine.Context, changed *waits) {
	linger, write := r.prepare(time.Now(), changed)
	if linger > 0 {
		c.After(linger, lingered{})
	}
	if write {
		r.write(c)
	}
}

// write writes the outcomes that are prepared.
func (r *outcomes) write(c engine.Context) {
	r.writing = true
	o, changes := r.o, r.changes(&r.storing)
	c.Go(func(ctx context.Context) any {
		// The write continues when the actor ends, because the attempts have happened.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		left, err := o.store.StoreOutcomes(ctx, o.Partition, o.Epoch, changes)
		return outcomesStored{left, err}
	})
}

// prepare prepares a write of the waiting outcomes and the changed waits of the backlog, and
// reports whether it did. If the last write was too recent, linger is the time after which
// the caller must call prepare again; otherwise it is 0.
func (r *outcomes) prepare(now time.Time, changed *waits) (linger time.Duration, write bool) {
	if r.busy || len(r.waiting.outcomes) == 0 {
		return 0, false
	}
	if wait := storeEvery - now.Sub(r.last); wait > 0 && len(r.waiting.outcomes) < maxStored/2 {
		if r.lingers {
			return 0, false
		}
		r.lingers = true
		return wait, false
	}
	r.busy, r.last = true, now
	r.storing = r.waiting.split()
	r.storing.waits = changed.collect()
	return 0, true
}

func (r *outcomes) changes(l *outcomeList) delivery.Outcomes {
	o := delivery.Outcomes{
		Account:    r.account,
		Webhook:    r.webhook,
		Disabled:   l.disabled,
		Event:      l.event,
		Mails:      l.mails,
		Waits:      l.waits,
		Deliveries: make([]delivery.Delivery, len(l.outcomes)),
		Bodies:     make([][]byte, len(l.outcomes)),
	}
	for i := range l.outcomes {
		o.Deliveries[i] = l.outcomes[i].Delivery
		if item := l.outcomes[i].item; item.isInFlight() {
			o.Bodies[i] = item.Body
		}
	}
	if l.health {
		health := r.health
		o.Health = &health
	}
	return o
}

// keepEnabled removes the disabling of the webhook from the write, because the record was
// changed meanwhile, and reports whether there was one: then the caller must write the
// rest. If the webhook continues to fail, the next attempt disables it.
func (r *outcomes) keepEnabled() bool {
	if r.storing.disabled == nil {
		return false
	}
	r.storing.disabled, r.storing.event = nil, nil
	r.storing.mails = slices.DeleteFunc(r.storing.mails, func(m delivery.Mail) bool {
		return m.Kind == delivery.MailWebhookDisabled
	})
	return true
}

// endWrite records that the write has succeeded, and returns its content.
func (r *outcomes) endWrite() outcomeList {
	stored := r.storing
	r.busy, r.storing = false, outcomeList{}
	r.failed.Reset()
	return stored
}

// countEnded counts a delivery that has ended.
func (r *outcomes) countEnded(d *delivery.Delivery) {
	r.ended++
	r.bytes += len(d.Sent)
	for i := range d.Attempts {
		r.bytes += len(d.Attempts[i].ResponseBody)
	}
}

// prune drops ended deliveries beyond the limits, if enough have ended since the last time.
func (r *outcomes) prune(c engine.Context) {
	if r.ended < pruneEvery && r.bytes < keepBytes/pruneShare || r.pruning {
		return
	}
	r.ended, r.bytes, r.pruning = 0, 0, true
	stored, id := maintenance{r.o}, r.webhook
	c.Go(func(ctx context.Context) any { return pruned{stored.prune(ctx, id)} })
}

// rest returns the remaining writes when the endpoint ends.
func (r *outcomes) rest(changed *waits) (last []delivery.Outcomes) {
	if r.busy && !r.writing {
		last = append(last, r.changes(&r.storing))
	}
	for len(r.waiting.outcomes) > 0 {
		l := r.waiting.split()
		l.waits = changed.collect()
		last = append(last, r.changes(&l))
	}
	return last
}

// storeLast stores the rest before the actor ends. If that fails, the next one repeats
// the attempts.
func (r *outcomes) storeLast(c engine.Context, changed *waits) {
	last, o := r.rest(changed), r.o
	if len(last) == 0 {
		return
	}
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
