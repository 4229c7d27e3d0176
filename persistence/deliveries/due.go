package deliveries

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// rereadAfter is the pause before the next read if a full page had deliveries that cannot be
// sent, since they may still be there.
const rereadAfter = 100 * time.Millisecond

// DueEndpoints returns the webhooks of partition p that have a delivery due until the given
// time, in the order of the first: at most limit after the first offset ones. One that cannot
// be read is logged and postponed.
func (h *Store) DueEndpoints(ctx context.Context, p int, until time.Time, offset, limit int) (
	due []delivery.EndpointDue, err error) {
	key := h.WebhooksDueKey(p)
	page := &redis.ZRangeBy{Min: "-inf", Max: codec.MilliText(until), Offset: int64(offset), Count: int64(limit)}
	found, err := h.RDB.ZRangeByScoreWithScores(ctx, key, page).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read due webhooks of partition %d", p)
	}
	for _, z := range found {
		member, _ := z.Member.(string)
		account, webhook, ok := cutMember(member)
		if !ok {
			h.Log.Error("a due webhook is not readable", "component", "persistence", "partition", p, "member", member)
			if err := h.Postpone(ctx, key, until, member); err != nil {
				return nil, err
			}
			continue
		}
		at := codec.TimeOfMilli(int64(z.Score))
		due = append(due, delivery.EndpointDue{Account: account, Webhook: webhook, At: at})
	}
	return due, nil
}

// dueMembers returns at most limit members of a set that are due until the given time, the
// earliest first, and when the first one after that time is due, or zero.
func (h *Store) dueMembers(ctx context.Context, set string, until time.Time, limit int) (
	members []string, next time.Time, err error) {
	at := codec.MilliText(until)
	pipe := h.RDB.Pipeline()
	found := pipe.ZRangeByScore(ctx, set, &redis.ZRangeBy{Min: "-inf", Max: at, Count: int64(limit)})
	later := pipe.ZRangeByScoreWithScores(ctx, set, &redis.ZRangeBy{Min: "(" + at, Max: "+inf", Count: 1})
	err = redisclient.Execute(ctx, pipe)
	if z := later.Val(); len(z) > 0 {
		next = codec.TimeOfMilli(int64(z[0].Score))
	}
	return found.Val(), next, err
}

// DueDeliveries returns at most limit pending deliveries of a webhook that are due until the
// given time, with their bodies, the earliest first, without those in except. There are fewer
// if some were changed or erased meanwhile, or cannot be read. next is when to read again:
// when the first one after that time is due, or soon if such ones have filled the page. It is
// zero if nothing else is due.
func (h *Store) DueDeliveries(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID,
	until time.Time, limit int, except map[signal.DeliveryID]bool) (
	due []delivery.PendingDelivery, next time.Time, err error) {
	w := hook{h.Keys, p, account, webhook}
	members, next, err := h.dueMembers(ctx, w.pending(), until, limit+len(except))
	if err != nil {
		return nil, next, redisclient.Failed(err, "read due deliveries")
	}
	members = slices.DeleteFunc(members, func(m string) bool { return except[deliveryOf(m)] })
	due, err = h.readPending(ctx, w, until, members[:min(len(members), limit)])
	if len(members) >= limit && len(due) < limit {
		next = h.Now().Add(rereadAfter)
	}
	return due, next, err
}

// readPending reads the records and bodies of members, which are due until the given time.
// One that cannot be read is postponed. One without a record or a body is no longer pending:
// it would stay in the way for ever.
func (h *Store) readPending(ctx context.Context, w hook, until time.Time, members []string) (
	[]delivery.PendingDelivery, error) {
	if len(members) == 0 {
		return nil, nil
	}
	records, err := h.RDB.HMGet(ctx, w.records(), recordFields(members)...).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read due deliveries")
	}
	list, keys := make([]delivery.PendingDelivery, 0, len(members)), make([]string, 0, len(members))
	pending := make([]string, 0, len(members))
	for i, r := range records {
		record, ok := r.(string)
		d, key, err := decodeDelivery([]byte(record))
		switch {
		case !ok:
			err = h.setAside(ctx, w, members[i], time.Time{}, errors.New("it has no record"))
		case err != nil:
			err = h.setAside(ctx, w, members[i], h.Postponed(until), err)
		case d.Status == delivery.Pending: // else it was changed between the reads
			d.ID, d.Webhook, d.Account = deliveryOf(members[i]), w.id, w.account
			list, keys = append(list, delivery.PendingDelivery{Delivery: d}), append(keys, key)
			pending = append(pending, members[i])
		}
		if err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	bodies, err := h.RDB.HMGet(ctx, h.BodiesKey(w.p), keys...).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read bodies of due deliveries")
	}
	n := 0
	for i, b := range bodies {
		body, ok := b.(string)
		if !ok { // normally erased between the reads
			if err := h.setAside(ctx, w, pending[i], time.Time{}, errors.New("it has no body")); err != nil {
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

// setAside keeps a pending delivery that cannot be read, for the given reason, from holding up
// others: it is due again at the given time, or no longer pending if that is zero.
func (h *Store) setAside(ctx context.Context, w hook, member string, again time.Time, reason error) error {
	o := eventlog.NewOperation(h.Keys)
	pending := o.Key(w.pending())
	settled := errors.New("it is no longer pending")
	w.guard(o, settled)
	o.Guard(eventlog.GuardMember, pending, settled, member)
	if again.IsZero() {
		o.Step(eventlog.CmdZRem, pending, member)
		o.Step(eventlog.CmdHIncrBy, eventlog.RefWebhookStats, "pending", "-1")
	} else {
		o.Step(eventlog.CmdZAdd, pending, codec.MilliText(again), member)
	}
	o.Step(eventlog.CmdDue, pending, w.member())
	_, err := h.log.Apply(ctx, w.p, o)
	if errors.Is(err, settled) {
		return nil
	}
	if err == nil {
		h.Log.Error("a pending delivery is not readable", "component", "persistence", "partition", w.p,
			"webhook", string(w.id), "err", reason)
	}
	return err
}
