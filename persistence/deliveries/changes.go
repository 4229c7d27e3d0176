package deliveries

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Manual changes of deliveries. Scripts change the stored records, so that they need not be read.

// shiftChunk is how many deliveries one operation changes. Redis takes a millisecond for them,
// and four where the answers of their endpoints are as long as possible.
const shiftChunk = 100

// clockSlack is by how much Store.Now may be behind the clock of the events' times.
const clockSlack = time.Second

var (
	errNotFailed  = redisclient.Refused("delivery_not_failed", "the delivery has not failed")
	errNotPending = redisclient.Refused("delivery_not_pending", "the delivery is not pending")
)

// Changes are what clients do to deliveries.
type Changes struct {
	*redisclient.Client
	log     *eventlog.Log
	history *History
}

// CreateDelivery stores one pending delivery with its body and notifies the owner of the
// partition. KindNotFound: there is no such webhook.
func (h *Changes) CreateDelivery(ctx context.Context, d delivery.Delivery, body []byte) error {
	w := hookOf(h.Client, d.Account, d.Webhook)
	o := eventlog.NewOperation(h.Keys)
	w.guard(o, errNoWebhook)
	addDeliveries(o, w.p, []delivery.EventDeliveries{{Event: d.Event, Body: body, Deliveries: []delivery.Delivery{d}}})
	w.announce(o, signal.DeliveriesChanged)
	_, err := h.log.Apply(ctx, w.p, o)
	return err
}

// RetryDelivery makes a failed delivery pending for one attempt, due at once, and notifies the
// owner of the partition. It returns the changed delivery. KindNotFound: there is no such
// delivery. KindConflict, "delivery_not_failed".
func (h *Changes) RetryDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, error) {
	w := hookOf(h.Client, account, webhook)
	return h.shiftOne(ctx, w, id, retryFailed, w.failed(), errNotFailed)
}

// CancelDelivery lets a pending delivery fail with the error delivery.Cancelled and notifies the
// owner of the partition. It returns the changed delivery. KindNotFound: there is no such
// delivery. KindConflict, "delivery_not_pending".
func (h *Changes) CancelDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, error) {
	w := hookOf(h.Client, account, webhook)
	return h.shiftOne(ctx, w, id, cancelPending, w.pending(), errNotPending)
}

// shiftOne changes one delivery, which must be in the set.
func (h *Changes) shiftOne(ctx context.Context, w hook, id signal.DeliveryID, c shift, set string, refusal error) (
	delivery.Delivery, error) {
	d, _, err := h.history.Delivery(ctx, w.account, w.id, id)
	if err != nil {
		return delivery.Delivery{}, err
	}
	member, err := deliveryMember(id, d.Type)
	if err != nil {
		return delivery.Delivery{}, err
	}
	c.at = h.Now()
	o := eventlog.NewOperation(h.Keys)
	w.guard(o, signal.NotFound("delivery"))
	o.Guard(eventlog.GuardMember, o.Key(set), refusal, member)
	addShift(o, w, c, []string{member})
	w.announce(o, signal.DeliveriesChanged)
	if _, err := h.log.Apply(ctx, w.p, o); err != nil {
		return delivery.Delivery{}, err
	}
	d, _, err = h.history.Delivery(ctx, w.account, w.id, id)
	return d, err
}

// RetryDeliveries makes the deliveries that match q pending for one attempt, due at once, and
// notifies the owner of the partition. It returns how many they are; for a dry run, how many
// would be. KindNotFound: there is no such webhook. After another error some may be pending.
func (h *Changes) RetryDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
	q delivery.RetryQuery) (int, error) {
	w := hookOf(h.Client, account, webhook)
	if err := h.history.exists(ctx, w); err != nil {
		return 0, err
	}
	c, set := retryFailed, w.failed()
	if q.Status == delivery.Succeeded {
		c, set = retrySucceeded, w.succeeded()
	}
	// Without those that are made later, or this might never end.
	from, to := "-inf", h.untilNow()
	if !q.Since.IsZero() {
		from = codec.DueText(q.Since)
	}
	if !q.Until.IsZero() && q.Until.Before(h.Now()) {
		to = "(" + codec.DueText(q.Until)
	}
	if q.DryRun {
		n, err := h.RDB.ZCount(ctx, set, from, to).Result()
		return int(n), redisclient.Failed(err, "count deliveries")
	}
	total := 0
	err := h.eachOldest(ctx, set, from, to, func(members []string) error {
		n, err := h.shiftAll(ctx, w, c, members)
		total += n
		return err
	})
	return total, err
}

// CancelDeliveries cancels all pending deliveries of a webhook as CancelDelivery does, and
// returns how many they were. KindNotFound: there is no such webhook. After another error
// some may have failed.
func (h *Changes) CancelDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID) (int, error) {
	w := hookOf(h.Client, account, webhook)
	if err := h.history.exists(ctx, w); err != nil {
		return 0, err
	}
	total := 0
	// Also without those that are made later. They are found by their creation, since their
	// due times may change meanwhile.
	err := h.eachOldest(ctx, w.all(), "-inf", h.untilNow(), func(members []string) error {
		pending, err := h.history.pendingOf(ctx, w, members)
		if err != nil {
			return redisclient.Failed(err, "read pending deliveries")
		}
		n, err := h.shiftAll(ctx, w, cancelPending, pending)
		total += n
		return err
	})
	return total, err
}

// untilNow is the end of a range of scores by creation that has all present deliveries.
func (h *Changes) untilNow() string { return codec.MilliText(h.Now().Add(clockSlack)) }

// shiftAll changes members, a chunk at a time, and returns how many it has changed: the others
// were no longer in the state c.from.
func (h *Changes) shiftAll(ctx context.Context, w hook, c shift, members []string) (int, error) {
	changed := 0
	for chunk := range slices.Chunk(members, shiftChunk) {
		c.at = h.Now()
		o := eventlog.NewOperation(h.Keys)
		w.guard(o, errNoWebhook)
		addShift(o, w, c, chunk)
		w.announce(o, signal.DeliveriesChanged)
		r := h.log.CarryOut(ctx, w.p, o)
		if r.Err != nil {
			return changed, r.Err
		}
		changed += len(chunk) - len(r.Left)
	}
	return changed, nil
}

// eachOldest calls f with the members of a set by creation between two scores, oldest first, a
// chunk at a time. None comes twice, even if it leaves the set and returns meanwhile.
func (h *Changes) eachOldest(ctx context.Context, set, from, to string, f func(members []string) error) error {
	last := redis.Z{Score: math.Inf(-1), Member: ""}
	for offset := int64(0); ; {
		page := &redis.ZRangeBy{Min: from, Max: to, Offset: offset, Count: memberChunk}
		found, err := h.RDB.ZRangeByScoreWithScores(ctx, set, page).Result()
		if err != nil {
			return redisclient.Failed(err, "read deliveries")
		}
		members := beyond(&last, found, 1)
		if err := f(members); err != nil || len(found) < memberChunk {
			return err
		}
		if len(members) > 0 {
			// Next are those of the last one's millisecond that f has left.
			from, offset = strconv.FormatInt(int64(last.Score), 10), 0
		} else {
			offset += memberChunk
		}
	}
}
