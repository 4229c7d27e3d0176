package deliveries

import (
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// Limits of one operation. Redis takes two milliseconds for it, while all others wait.
const (
	stepDeliveries = 250
	stepBodies     = 512 << 10 // bytes
)

// StoreDeliveries stores the pending deliveries of batch with their bodies. One without a
// due time is due at its creation. Those that are stored already stay as they are, so it may
// be repeated. Deliveries of removed webhooks are left out. After an error some of them may
// be stored.
func (h *Store) StoreDeliveries(ctx context.Context, p int, epoch int64, batch []delivery.EventDeliveries) error {
	for len(batch) > 0 {
		n := partOf(batch)
		o := eventlog.NewOperation(h.Keys)
		o.Fence(epoch)
		addDeliveries(o, p, batch[:n])
		batch = batch[n:]
		if _, err := h.log.Apply(ctx, p, o); err != nil {
			return err
		}
	}
	return nil
}

// partOf returns how many of the first events go into one operation, at least one.
func partOf(batch []delivery.EventDeliveries) int {
	deliveries, bytes := 0, 0
	for i := range batch {
		deliveries += len(batch[i].Deliveries)
		bytes += len(batch[i].Body)
		if i > 0 && (deliveries > stepDeliveries || bytes > stepBodies) {
			return i
		}
	}
	return len(batch)
}

// CreateDelivery stores one pending delivery with its body and notifies the owner of the
// partition. KindNotFound: there is no such webhook.
func (h *Store) CreateDelivery(ctx context.Context, d delivery.Delivery, body []byte) error {
	w := h.hook(d.Account, d.Webhook)
	o := eventlog.NewOperation(h.Keys)
	w.guard(o, errNoWebhook)
	addDeliveries(o, w.p, []delivery.EventDeliveries{{Event: d.Event, Body: body, Deliveries: []delivery.Delivery{d}}})
	w.announce(o, signal.DeliveriesChanged)
	_, err := h.log.Apply(ctx, w.p, o)
	return err
}

// Notify appends an event for an account under the epoch of its partition's owner.
func (h *Store) Notify(ctx context.Context, epoch int64, e signal.Event) error {
	_, err := h.log.Append(ctx, signal.Change{Account: e.Account, Epoch: epoch, Events: []signal.Event{e}})
	return err
}

// StoreOutcomes stores what attempts of one endpoint have changed, all of it or nothing,
// except for deliveries that are no longer pending, or not for this attempt (see
// delivery.Delivery.WasDueAt). It returns the indexes of these: all if the webhook was
// removed. Deliveries that are not stored yet are made if their body is given. It may be
// repeated: what was stored is then left out. KindConflict, "webhook_changed": out.Disabled
// was not read from the present record.
func (h *Store) StoreOutcomes(ctx context.Context, p int, epoch int64, out delivery.Outcomes) (left []int, err error) {
	o := eventlog.NewOperation(h.Keys)
	o.Fence(epoch)
	hook{h.Keys, p, out.Account, out.Webhook}.guard(o, errNoWebhook)
	addOutcomes(o, p, &out)
	addWaits(o, p, out.Webhook, out.Waits)
	if out.Health != nil {
		k := o.Key(h.WebhookHealthKey(p, out.Account))
		if *out.Health == (delivery.WebhookHealth{}) {
			o.Step(eventlog.CmdHDel, k, string(out.Webhook))
		} else {
			o.Step(eventlog.CmdHSet, k, string(out.Webhook), codec.Text(appendHealth(nil, out.Health)))
		}
	}
	if w := out.Disabled; w != nil {
		if _, err := addWebhook(o, p, w); err != nil {
			return nil, err
		}
	}
	if out.Event != nil {
		o.AddEvent(&signal.Change{Account: out.Account, Events: []signal.Event{*out.Event}}, 0)
	}
	for i := range out.Mails {
		addMail(o, p, out.Mails[i], h.Now())
	}
	r := h.log.CarryOut(ctx, p, o)
	if errors.Is(r.Err, errNoWebhook) {
		for i := range out.Deliveries {
			left = append(left, i)
		}
		return left, nil
	}
	return r.Left, r.Err
}
