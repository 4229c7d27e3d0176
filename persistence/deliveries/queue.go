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

// Limits of one operation. Redis takes two milliseconds for it, while all others wait.
const (
	stepDeliveries = 250
	stepBodies     = 512 << 10 // bytes
)

// rereadAfter is the pause before the next read if a full page had deliveries that cannot be
// sent, since they may still be there.
const rereadAfter = 100 * time.Millisecond

// Queue has the pending deliveries for the owner of their partition, which sends them.
type Queue struct {
	*redisclient.Client
	log *eventlog.Log
}

// StoreDeliveries stores the pending deliveries of batch with their bodies. One without a
// due time is due at its creation. Those that are stored already stay as they are, so it may
// be repeated. Deliveries of removed webhooks are left out. After an error some of them may
// be stored.
func (h *Queue) StoreDeliveries(ctx context.Context, p int, epoch int64, batch []delivery.EventDeliveries) error {
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

// StoreOutcomes stores what attempts of one endpoint have changed, all of it or nothing,
// except for deliveries that are no longer pending, or not for this attempt (see
// delivery.Delivery.WasDueAt). It returns the indexes of these: all if the webhook was
// removed. Deliveries that are not stored yet are made if their body is given. It may be
// repeated: what was stored is then left out. KindConflict, "webhook_changed": out.Disabled
// was not read from the present record.
func (h *Queue) StoreOutcomes(ctx context.Context, p int, epoch int64, out delivery.Outcomes) (left []int, err error) {
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

// DueEndpoints returns the webhooks of partition p that have a delivery due until the given
// time, in the order of the first: at most limit after the first offset ones. One that cannot
// be read is logged and postponed.
func (h *Queue) DueEndpoints(ctx context.Context, p int, until time.Time, offset, limit int) (
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
func dueMembers(ctx context.Context, c *redisclient.Client, set string, until time.Time, limit int) (
	members []string, next time.Time, err error) {
	at := codec.MilliText(until)
	pipe := c.RDB.Pipeline()
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
func (h *Queue) DueDeliveries(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID,
	until time.Time, limit int, except map[signal.DeliveryID]bool) (
	due []delivery.PendingDelivery, next time.Time, err error) {
	w := hook{h.Keys, p, account, webhook}
	members, next, err := dueMembers(ctx, h.Client, w.pending(), until, limit+len(except))
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
func (h *Queue) readPending(ctx context.Context, w hook, until time.Time, members []string) (
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
func (h *Queue) setAside(ctx context.Context, w hook, member string, again time.Time, reason error) error {
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

// PendingDeliveries returns the number of pending deliveries of each of the accounts, all of
// partition p.
func (h *Queue) PendingDeliveries(ctx context.Context, p int, accounts []signal.AccountID) ([]int, error) {
	pipe := h.RDB.Pipeline()
	webhooks := make([]*redis.StringSliceCmd, len(accounts))
	for i, a := range accounts {
		webhooks[i] = pipe.HKeys(ctx, h.WebhooksKey(p, a))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "read webhooks")
	}
	pending := make([][]*redis.IntCmd, len(accounts))
	for i := range accounts {
		for _, w := range webhooks[i].Val() {
			pending[i] = append(pending[i], pipe.ZCard(ctx, h.PendingKey(p, signal.WebhookID(w))))
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "count pending deliveries")
	}
	n := make([]int, len(accounts))
	for i := range pending {
		for _, c := range pending[i] {
			n[i] += int(c.Val())
		}
	}
	return n, nil
}

// SignalWaits returns what the later events of signals wait for at a webhook. A record
// that cannot be read is logged and left out.
func (h *Queue) SignalWaits(ctx context.Context, p int, webhook signal.WebhookID) ([]delivery.Wait, error) {
	found, err := h.RDB.HGetAll(ctx, h.WaitsKey(p, webhook)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read waits of webhook %s", webhook)
	}
	var list []delivery.Wait
	for id, record := range found {
		w, err := decodeWait(signal.SignalID(id), []byte(record))
		if err != nil {
			h.Log.Error("the wait of a signal is not readable", "component", "persistence", "partition", p,
				"webhook", string(webhook), "err", err)
			continue
		}
		list = append(list, w)
	}
	return list, nil
}

// Notify appends an event for an account under the epoch of its partition's owner.
func (h *Queue) Notify(ctx context.Context, epoch int64, e signal.Event) error {
	_, err := h.log.Append(ctx, signal.Change{Account: e.Account, Epoch: epoch, Events: []signal.Event{e}})
	return err
}
