package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
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
	// maintenancePause separates two webhooks, so that Redis can serve others.
	maintenancePause = 5 * time.Millisecond
)

// firstMaintenance returns the time between the start of an owner and its first pass.
func (n *Node) firstMaintenance() time.Duration {
	if n.keys.Len() > 1 {
		return resealStart
	}
	return maintenanceStart
}

// maintain visits all webhooks of the partition, most of which have no actor. It prunes
// their deliveries, and seals secrets of older keys with the newest one.
func (o *owned) maintain(ctx context.Context) error {
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
				if err := o.reseal(ctx, *w); err != nil {
					o.log.Error("secret is not sealed with the newest key", "webhook", string(w.ID), "err", err)
				}
			}
			if err := o.prune(ctx, w.ID); err != nil {
				return err
			}
			if !backoff.Sleep(ctx, maintenancePause) {
				return ctx.Err()
			}
		}
	}
	return nil
}
