package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

const (
	// maintenanceEvery is the time between two passes, maintenanceRetry that after a failed
	// one, maintenanceStart that before the first one of an owner.
	maintenanceEvery = 6 * time.Hour
	maintenanceRetry = time.Minute
	maintenanceStart = time.Minute
	// resealStart is the time before the first one if there are old keys, which can be
	// removed after it.
	resealStart = 5 * time.Second
	// keepBytes bounds the store's memory for the deliveries of a webhook; beyond it the oldest
	// ended ones are dropped.
	keepBytes = 8 << 20
	// maintenancePause separates two webhooks, so that Redis can serve others.
	maintenancePause = 5 * time.Millisecond
)

// maintenance cares for the stored webhooks and deliveries of a partition, most of which have no actor.
type maintenance struct{ o *owned }

// first returns the time between the start of an owner and its first pass.
func (m maintenance) first() time.Duration {
	if m.o.keys.Len() > 1 {
		return resealStart
	}
	return maintenanceStart
}

// run visits all webhooks of the partition. It prunes
// their deliveries, and seals secrets of older keys with the newest one.
func (m maintenance) run(ctx context.Context) error {
	o := m.o
	accounts, err := o.store.AccountsWithWebhooks(ctx, o.Partition)
	if err != nil {
		return fmt.Errorf("list accounts with webhooks: %w", err)
	}
	for _, a := range accounts {
		list, err := o.store.Webhooks(ctx, a)
		if err != nil {
			return fmt.Errorf("list webhooks: %w", err)
		}
		for i := range list {
			w := &list[i]
			if outdated(o.keys, w, o.now()) {
				if err := m.reseal(ctx, *w); err != nil {
					o.log.Error("secret is not sealed with the newest key", "webhook", string(w.ID), "err", err)
				}
			}
			if err := m.prune(ctx, w.ID); err != nil {
				return err
			}
			if !backoff.Sleep(ctx, maintenancePause) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// prune drops the ended deliveries of a webhook beyond the limits.
func (m maintenance) prune(ctx context.Context, id signal.WebhookID) error {
	o := m.o
	for more := true; more; {
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			more, err = o.store.PruneDeliveries(ctx, o.Partition, o.Epoch, id,
				o.options.Retention, o.options.Keep, keepBytes)
			return err
		}()
		if err != nil {
			return fmt.Errorf("prune deliveries: %w", err)
		}
	}
	return nil
}

// reseal stores w with its secrets sealed by the newest key, unless the record was changed
// or removed meanwhile: a new record is checked when it is read.
func (m maintenance) reseal(ctx context.Context, w delivery.Webhook) error {
	o := m.o
	secret, err := o.keys.Open(w.Secret, string(w.ID))
	if err != nil {
		return err
	}
	w.Secret = o.keys.Seal(secret, string(w.ID))
	if overlaps(&w, o.now()) {
		previous, err := o.keys.Open(w.PreviousSecret, string(w.ID))
		if err != nil {
			return fmt.Errorf("previous secret: %w", err)
		}
		w.PreviousSecret = o.keys.Seal(previous, string(w.ID))
	}
	_, err = o.store.ChangeWebhook(ctx, w, false)
	if signal.CodeOf(err) == signal.CodeWebhookChanged {
		return nil
	}
	return err
}
