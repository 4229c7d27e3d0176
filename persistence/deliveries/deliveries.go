package deliveries

import (
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Limits of one operation, which Redis carries out as a whole while all others wait:
// two milliseconds.
const (
	stepDeliveries = 250
	stepBodies     = 512 << 10 // bytes
)

// StoreDeliveries makes the pending deliveries of batch with what they send. One
// without a due time is due at its creation. What is there already stays as it is, so
// it may be repeated. Deliveries of webhooks that are gone are left out. After an error
// some of them may be stored.
func (h *Store) StoreDeliveries(ctx context.Context, p int, epoch int64, batch []delivery.EventDeliveries) error {
	for len(batch) > 0 {
		n := partOf(batch)
		o := eventlog.NewOperation()
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

// CreateDelivery makes one pending delivery with what it sends, and tells the owner.
// KindNotFound: there is no such webhook.
func (h *Store) CreateDelivery(ctx context.Context, d delivery.Delivery, body []byte) error {
	p := h.store.Partition(d.Account)
	o := eventlog.NewOperation()
	o.Guard(eventlog.GuardFieldExists, o.Key(redisclient.WebhooksKey(p, d.Account)), errNoWebhook, string(d.Webhook))
	addDeliveries(o, p, []delivery.EventDeliveries{{Event: d.Event, Body: body, Deliveries: []delivery.Delivery{d}}})
	o.AddAnnouncement(d.Account, signal.DeliveriesChanged, d.Webhook)
	_, err := h.log.Apply(ctx, p, o)
	return err
}

// Notify appends an event for an account under the epoch of its partition's owner.
func (h *Store) Notify(ctx context.Context, epoch int64, e signal.Event) error {
	_, err := h.log.Append(ctx, signal.Change{Account: e.Account, Epoch: epoch, Events: []signal.Event{e}})
	return err
}

// StoreOutcomes stores what attempts of one endpoint have changed: all of it or
// nothing, but for deliveries that are not pending any more, or not for the attempt
// (see signal.Delivery.WasDueAt). It returns their indexes: all of them if the webhook
// is gone. Deliveries that are not there yet are made, if what they send is given. It
// may be repeated: what was stored is then left out. KindConflict, "webhook_changed":
// out.Disabled was not read from the present record.
func (h *Store) StoreOutcomes(ctx context.Context, p int, epoch int64, out delivery.Outcomes) (left []int, err error) {
	o := eventlog.NewOperation()
	o.Fence(epoch)
	o.Guard(eventlog.GuardFieldExists, o.Key(redisclient.WebhooksKey(p, out.Account)), errNoWebhook, string(out.Webhook))
	addOutcomes(o, p, &out)
	addWaits(o, p, out.Webhook, out.Waits)
	if out.Health != nil {
		k := o.Key(redisclient.WebhookHealthKey(p, out.Account))
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
		c := signal.Change{Account: out.Account, Events: []signal.Event{*out.Event}}
		o.AddEvent(&c, 0)
	}
	for i := range out.Mails {
		addMail(o, p, out.Mails[i], h.store.Now())
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
