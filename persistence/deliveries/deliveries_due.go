package deliveries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// rereadAfter is when a page is read again that was full, but not of deliveries that
// can be sent: not at once, in case they are still there.
const rereadAfter = 100 * time.Millisecond

// DueEndpoints returns the webhooks of partition p of which a delivery is due until
// the given time, by when the first is due: at most limit after the first offset ones.
// One that cannot be read is logged and postponed.
func (h *Store) DueEndpoints(ctx context.Context, p int, until time.Time, offset, limit int) ([]delivery.EndpointDue, error) {
	found, err := h.store.RDB.ZRangeByScoreWithScores(ctx, redisclient.WebhooksDueKey(p), &redis.ZRangeBy{Min: "-inf", Max: codec.MilliText(until),
		Offset: int64(offset), Count: int64(limit)}).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read due webhooks of partition %d: %w", p, err))
	}
	var due []delivery.EndpointDue
	for _, z := range found {
		member, _ := z.Member.(string)
		account, webhook, ok := cutMember(member)
		if !ok {
			h.store.Log.Error("a due webhook is not readable", "component", "persistence", "partition", p, "member", member)
			if err := h.store.Postpone(ctx, redisclient.WebhooksDueKey(p), until, member); err != nil {
				return nil, err
			}
			continue
		}
		due = append(due, delivery.EndpointDue{Account: account, Webhook: webhook, At: codec.TimeOfMilli(int64(z.Score))})
	}
	return due, nil
}

// DueDeliveries returns at most limit pending deliveries of a webhook that are due
// until the given time, with what they send, the earliest first, those in except
// passed over; fewer if some were changed or erased meanwhile, or cannot be read. next is
// when the first one after that time is due, or when to read again what such ones have
// kept from view; zero: neither.
func (h *Store) DueDeliveries(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, until time.Time, limit int,
	except map[signal.DeliveryID]bool) (due []delivery.PendingDelivery, next time.Time, err error) {
	at, key := codec.MilliText(until), redisclient.PendingKey(p, webhook)
	pipe := h.store.RDB.Pipeline()
	found := pipe.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: at, Count: int64(limit + len(except))})
	later := pipe.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "(" + at, Max: "+inf", Count: 1})
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, next, redisclient.Unavailable(fmt.Errorf("read due deliveries: %w", err))
	}
	if z := later.Val(); len(z) > 0 {
		next = codec.TimeOfMilli(int64(z[0].Score))
	}
	members := slices.DeleteFunc(found.Val(), func(m string) bool { return except[deliveryOf(m)] })
	due, err = h.readPending(ctx, p, account, webhook, until, members[:min(len(members), limit)])
	if len(members) >= limit && len(due) < limit {
		next = h.store.Now().Add(rereadAfter)
	}
	return due, next, err
}

// readPending reads the records and bodies of members, which are due until the given
// time. One that cannot be read is postponed; one without a record or a body is taken
// out of the pending ones, where it would stand in the way for ever.
func (h *Store) readPending(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, until time.Time,
	members []string) ([]delivery.PendingDelivery, error) {
	if len(members) == 0 {
		return nil, nil
	}
	fields := make([]string, len(members))
	for i, m := range members {
		fields[i] = m[:min(len(m), 16)]
	}
	records, err := h.store.RDB.HMGet(ctx, redisclient.DeliveriesKey(p, webhook), fields...).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read due deliveries: %w", err))
	}
	list, keys := make([]delivery.PendingDelivery, 0, len(members)), make([]string, 0, len(members))
	pending := make([]string, 0, len(members))
	for i, r := range records {
		record, ok := r.(string)
		d, key, err := decodeDelivery([]byte(record))
		switch {
		case !ok:
			if err := h.dropPending(ctx, p, account, webhook, members[i], errors.New("it has no record")); err != nil {
				return nil, err
			}
		case err != nil:
			if err := h.postponePending(ctx, p, account, webhook, members[i], until, err); err != nil {
				return nil, err
			}
		case d.Status == delivery.Pending: // else it was changed between the reads
			d.ID, d.Webhook, d.Account = deliveryOf(members[i]), webhook, account
			list, keys, pending = append(list, delivery.PendingDelivery{Delivery: d}), append(keys, key), append(pending, members[i])
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	bodies, err := h.store.RDB.HMGet(ctx, redisclient.BodiesKey(p), keys...).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read bodies of due deliveries: %w", err))
	}
	n := 0
	for i, b := range bodies {
		body, ok := b.(string)
		if !ok { // erased between the reads, if nothing is wrong
			err := h.dropPending(ctx, p, account, webhook, pending[i], errors.New("what it sends is gone"))
			if err != nil {
				return nil, err
			}
			continue
		}
		list[n] = list[i]
		list[n].Body = []byte(body)
		n++
	}
	return list[:n], nil
}

// dropPending takes a delivery that cannot be sent, for the given reason, out of the
// pending ones.
func (h *Store) dropPending(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, member string, reason error) error {
	return h.changePending(ctx, p, account, webhook, member, reason, func(o *eventlog.Operation, pending eventlog.KeyRef) {
		o.Step(eventlog.CmdZRem, pending, member)
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, "pending", "-1")
	})
}

// postponePending makes a delivery due later that was read as due until the given time
// and could not be read, for the given reason.
func (h *Store) postponePending(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, member string, until time.Time,
	reason error) error {
	return h.changePending(ctx, p, account, webhook, member, reason, func(o *eventlog.Operation, pending eventlog.KeyRef) {
		o.Step(eventlog.CmdZAdd, pending, codec.MilliText(h.store.Postponed(until)), member)
	})
}

// changePending makes steps about a pending delivery that is to hold up no other.
func (h *Store) changePending(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, member string, reason error,
	steps func(o *eventlog.Operation, pending eventlog.KeyRef)) error {
	o := eventlog.NewOperation()
	k := o.Key(redisclient.PendingKey(p, webhook))
	gone := errors.New("it is not pending any more")
	o.Guard(eventlog.GuardFieldExists, o.Key(redisclient.WebhooksKey(p, account)), gone, string(webhook))
	o.Guard(eventlog.GuardMember, k, gone, member)
	steps(o, k)
	o.Step(eventlog.CmdDue, k, webhookMember(account, webhook))
	_, err := h.log.Apply(ctx, p, o)
	if errors.Is(err, gone) {
		return nil
	}
	if err == nil {
		h.store.Log.Error("a pending delivery is not readable", "component", "persistence", "partition", p, "webhook", string(webhook), "err", reason)
	}
	return err
}
