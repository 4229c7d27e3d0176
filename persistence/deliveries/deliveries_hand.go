package deliveries

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Deliveries that are changed by hand. Scripts change the stored records, so none of
// them is read for it.

// shiftChunk is how many deliveries one operation changes: Redis takes a millisecond
// for them, and four where the answers of their endpoints are as long as may be.
const shiftChunk = 100

// clockSlack is by how much Store.Now may be behind the clock that events have their
// times of.
const clockSlack = time.Second

var (
	errNotFailed  = redisclient.Refused("delivery_not_failed", "the delivery has not failed")
	errNotPending = redisclient.Refused("delivery_not_pending", "the delivery is not pending")
)

// RetryDelivery makes a failed delivery pending for one attempt, due at once, and
// tells the owner. It returns the delivery as it is then. KindNotFound: there is none.
// KindConflict, "delivery_not_failed".
func (h *Store) RetryDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, id signal.DeliveryID) (delivery.Delivery, error) {
	return h.changeByHand(ctx, account, webhook, id, retryFailed, redisclient.FailedKey, errNotFailed)
}

// CancelDelivery lets a pending delivery fail with the error signal.DeliveryCancelled,
// and tells the owner. It returns the delivery as it is then. KindNotFound: there is
// none. KindConflict, "delivery_not_pending".
func (h *Store) CancelDelivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, id signal.DeliveryID) (delivery.Delivery, error) {
	return h.changeByHand(ctx, account, webhook, id, cancelPending, redisclient.PendingKey, errNotPending)
}

// changeByHand changes one delivery, which must be in the set.
func (h *Store) changeByHand(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, id signal.DeliveryID, c shift,
	set func(int, signal.WebhookID) string, refusal error) (delivery.Delivery, error) {
	d, _, err := h.Delivery(ctx, account, webhook, id)
	if err != nil {
		return delivery.Delivery{}, err
	}
	member, err := deliveryMember(id, d.Type)
	if err != nil {
		return delivery.Delivery{}, err
	}
	p := h.store.Partition(account)
	c.at = h.store.Now()
	o := eventlog.NewOperation()
	o.Guard(eventlog.GuardFieldExists, o.Key(redisclient.WebhooksKey(p, account)), error(signal.NotFound("delivery")), string(webhook))
	o.Guard(eventlog.GuardMember, o.Key(set(p, webhook)), refusal, member)
	addShift(o, p, account, webhook, c, []string{member})
	o.AddAnnouncement(account, signal.DeliveriesChanged, webhook)
	if _, err := h.log.Apply(ctx, p, o); err != nil {
		return delivery.Delivery{}, err
	}
	d, _, err = h.Delivery(ctx, account, webhook, id)
	return d, err
}

// RetryDeliveries makes the deliveries that q wants pending for one attempt, due at
// once, and tells the owner. It returns how many they are; for a dry run, how many
// they would be. KindNotFound: there is no such webhook. After another error some of
// them may be pending.
func (h *Store) RetryDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, q delivery.RetryQuery) (int, error) {
	p := h.store.Partition(account)
	if err := h.exists(ctx, p, account, webhook); err != nil {
		return 0, err
	}
	c, set := retryFailed, redisclient.FailedKey(p, webhook)
	if q.Status == delivery.Succeeded {
		c, set = retrySucceeded, redisclient.SucceededKey(p, webhook)
	}
	// Deliveries made later are not meant, or this might never end.
	least, most := "-inf", h.untilNow()
	if !q.Since.IsZero() {
		least = strconv.FormatInt(codec.DueMilli(q.Since), 10)
	}
	if !q.Until.IsZero() && q.Until.Before(h.store.Now()) {
		most = "(" + strconv.FormatInt(codec.DueMilli(q.Until), 10)
	}
	if q.DryRun {
		n, err := h.store.RDB.ZCount(ctx, set, least, most).Result()
		if err != nil {
			return 0, redisclient.Unavailable(fmt.Errorf("count deliveries: %w", err))
		}
		return int(n), nil
	}
	total := 0
	err := h.eachOldest(ctx, set, least, most, func(members []string) error {
		n, err := h.shiftAll(ctx, p, account, webhook, c, members)
		total += n
		return err
	})
	return total, err
}

// CancelDeliveries lets all pending deliveries of a webhook fail, as CancelDelivery
// does, and returns how many they were. KindNotFound: there is no such webhook. After
// another error some of them may have failed.
func (h *Store) CancelDeliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID) (int, error) {
	p := h.store.Partition(account)
	if err := h.exists(ctx, p, account, webhook); err != nil {
		return 0, err
	}
	total := 0
	// As with retries, those made later are not meant. They are found by their creation,
	// since their due times may change meanwhile.
	err := h.eachOldest(ctx, redisclient.RecordedKey(p, webhook), "-inf", h.untilNow(), func(members []string) error {
		pending, err := h.pendingOf(ctx, p, webhook, members)
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("read pending deliveries: %w", err))
		}
		n, err := h.shiftAll(ctx, p, account, webhook, cancelPending, pending)
		total += n
		return err
	})
	return total, err
}

// untilNow is the end of a range of scores by creation that has all that there is now.
func (h *Store) untilNow() string { return codec.MilliText(h.store.Now().Add(clockSlack)) }

// exists returns KindNotFound if the account has no such webhook.
func (h *Store) exists(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID) error {
	found, err := h.store.RDB.HExists(ctx, redisclient.WebhooksKey(p, account), string(webhook)).Result()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("look for webhook: %w", err))
	}
	if !found {
		return errNoWebhook
	}
	return nil
}

// shiftAll changes members by hand, a chunk at a time, and returns how many it has
// changed: the others were not in the state from any more.
func (h *Store) shiftAll(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, c shift, members []string) (int, error) {
	changed := 0
	for len(members) > 0 {
		chunk := members[:min(len(members), shiftChunk)]
		members = members[len(chunk):]
		c.at = h.store.Now()
		o := eventlog.NewOperation()
		o.Guard(eventlog.GuardFieldExists, o.Key(redisclient.WebhooksKey(p, account)), errNoWebhook, string(webhook))
		addShift(o, p, account, webhook, c, chunk)
		o.AddAnnouncement(account, signal.DeliveriesChanged, webhook)
		r := h.log.CarryOut(ctx, p, o)
		if r.Err != nil {
			return changed, r.Err
		}
		changed += len(chunk) - len(r.Left)
	}
	return changed, nil
}

// eachOldest calls f with the members of a set by creation, oldest first, between two
// scores, a chunk at a time. None comes twice, even if f takes them out of the set and
// somebody puts them back.
func (h *Store) eachOldest(ctx context.Context, set, least, most string, f func(members []string) error) error {
	last := redis.Z{Score: math.Inf(-1), Member: ""}
	for offset := int64(0); ; {
		found, err := h.store.RDB.ZRangeByScoreWithScores(ctx, set, &redis.ZRangeBy{Min: least, Max: most, Offset: offset, Count: memberChunk}).Result()
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("read deliveries: %w", err))
		}
		members := make([]string, 0, len(found))
		for _, z := range found {
			if z.Score > last.Score || z.Score == last.Score && z.Member.(string) > last.Member.(string) {
				members = append(members, z.Member.(string))
				last = z
			}
		}
		if err := f(members); err != nil || len(found) < memberChunk {
			return err
		}
		if len(members) > 0 {
			// On from the last one, among those of its millisecond that f has left.
			least, offset = strconv.FormatInt(int64(last.Score), 10), 0
		} else {
			offset += memberChunk
		}
	}
}
