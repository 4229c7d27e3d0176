package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
)

// outcomeStore stores what became of deliveries.
type outcomeStore interface {
	// StoreOutcomes stores states after attempts and all that follows from them in one
	// step. left are the indices of the deliveries that it left out, because they were
	// changed by hand meanwhile: all of them if the webhook is removed. KindConflict,
	// "webhook_changed": o.Disabled was made from another record than the present one.
	StoreOutcomes(ctx context.Context, partition int, epoch int64, o delivery.Outcomes) (left []int, err error)
	// PruneDeliveries drops ended deliveries that need not be kept, a number at once.
	PruneDeliveries(ctx context.Context, partition int, epoch int64, webhook signal.WebhookID, retention time.Duration,
		keep int, keepBytes int64) (more bool, err error)
}

const (
	// maxStored is how many outcomes are stored at once, and maxStoredBytes how much of
	// what those send that are stored for the first time.
	maxStored      = 128
	maxStoredBytes = 256 << 10
	// storeEvery is how long after a write the next one begins, so that it has more to
	// store; at once if half of what it can store waits.
	storeEvery = 25 * time.Millisecond
	// pruneEvery is after how many ended deliveries they are pruned.
	pruneEvery = 1000
	// pruneShare is which part of the bytes that may be kept is answered before they are
	// pruned, too: so much more may be there.
	pruneShare = 16
)

// outcomes are the states of deliveries and of the webhook that are not stored yet. One
// write is under way at a time; what ends meanwhile forms the next one.
//
// It does not write: its methods return what the endpoint is to do.
type outcomes struct {
	account signal.AccountID
	webhook signal.WebhookID

	health delivery.WebhookHealth // as it will be stored

	waiting outcomeList // in the order in which they ended
	storing outcomeList // is being stored, or will be tried again
	busy    bool        // there is something in storing
	written bool        // its write is under way
	failed  backoff.Backoff
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

func (r *outcomes) idle() bool { return !r.busy && len(r.waiting.outcomes) == 0 && !r.pruning }

// add adds the new state of a delivery.
func (r *outcomes) add(d delivery.Delivery, i *item) {
	r.waiting.outcomes = append(r.waiting.outcomes, outcome{d, i})
}

// split takes what goes into the next write off the list.
func (l *outcomeList) split() outcomeList {
	first, n, bytes := *l, 0, 0
	for n < len(l.outcomes) && n < maxStored && bytes < maxStoredBytes {
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

// judge applies the rules of health to an attempt, and adds what follows from it for the
// webhook, whose record is w.
func (r *outcomes) judge(rules HealthRules, w *delivery.Webhook, a *attempt) {
	before := r.health
	after, v := rules.After(before, a.result.Error == "", a.ended)
	r.health = after
	r.waiting.health = r.waiting.health || after != before
	if v == (Verdict{}) || w.Status == delivery.WebhookDisabled || r.waiting.disabled != nil || r.storing.disabled != nil {
		return
	}
	m := delivery.Mail{
		Account: r.account,
		Webhook: r.webhook,
		URL:     w.URL,
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

// disabledNotice returns the payload of the notification that a webhook was disabled
// after it had failed for so long.
func disabledNotice(id signal.WebhookID, failing time.Duration) []byte {
	text := fmt.Sprintf("Webhook %s was disabled after %s of failures.", id, mail.InWords(failing))
	b := signal.AppendText([]byte(`{"message":`), text)
	return append(b, `,"severity":"warning","code":"webhook_disabled"}`...)
}

// begin reports whether a write is to begin now, of what waits and of the changed waits of
// the backlog. If it is too soon after the last one, begin is to be called again after
// linger; 0: it need not.
func (r *outcomes) begin(now time.Time, changed *waits) (linger time.Duration, write bool) {
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
	r.storing.waits = changed.take()
	return 0, true
}

// write notes that a write begins, and returns what it stores.
func (r *outcomes) write() delivery.Outcomes {
	r.written = true
	return r.changes(&r.storing)
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

// keepEnabled takes the disabling of the webhook out of what is being stored, because its
// record was changed meanwhile. It reports whether there was one: then the rest is to be
// written. If the webhook goes on failing, the next attempt disables it.
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

// end notes that the write has succeeded, and returns what is stored.
func (r *outcomes) end() outcomeList {
	stored := r.storing
	r.busy, r.storing = false, outcomeList{}
	r.failed.Reset()
	return stored
}

// countEnded notes that a delivery has ended.
func (r *outcomes) countEnded(d *delivery.Delivery) {
	r.ended++
	for i := range d.Attempts {
		r.bytes += len(d.Attempts[i].ResponseBody)
	}
}

// prune reports whether ended deliveries are to be pruned now, of which keepBytes may be
// kept.
func (r *outcomes) prune(keepBytes int64) bool {
	if r.ended < pruneEvery && int64(r.bytes) < keepBytes/pruneShare || r.pruning {
		return false
	}
	r.ended, r.bytes, r.pruning = 0, 0, true
	return true
}

// rest returns the writes that are left when the endpoint ends.
func (r *outcomes) rest(changed *waits) (last []delivery.Outcomes) {
	if r.busy && !r.written {
		last = append(last, r.changes(&r.storing))
	}
	for len(r.waiting.outcomes) > 0 {
		l := r.waiting.split()
		l.waits = changed.take()
		last = append(last, r.changes(&l))
	}
	return last
}
