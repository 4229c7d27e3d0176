package deliveries

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/deliveries_list.lua
var deliveriesListText string

//go:embed scripts/pending_from.lua
var pendingFromText string

var (
	deliveriesListScript = redis.NewScript(deliveriesListText)
	pendingFromScript    = redis.NewScript(pendingFromText)
)

// memberChunk is how many members of a sorted set are read at once: Redis takes half
// a millisecond for them.
const memberChunk = 1000

// Delivery returns a delivery and what it sends. KindNotFound: the account has no such
// webhook, or it has no such delivery.
func (h *Store) Delivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, id signal.DeliveryID) (delivery.Delivery, []byte, error) {
	p := h.store.Partition(account)
	pipe := h.store.RDB.Pipeline()
	exists, record := pipe.HExists(ctx, redisclient.WebhooksKey(p, account), string(webhook)), pipe.HGet(ctx, redisclient.DeliveriesKey(p, webhook), deliveryField(id))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return delivery.Delivery{}, nil, redisclient.Unavailable(fmt.Errorf("read delivery: %w", err))
	}
	if !exists.Val() || record.Err() != nil {
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	d, key, err := decodeDelivery([]byte(record.Val()))
	if err != nil {
		return delivery.Delivery{}, nil, err
	}
	d.ID, d.Webhook, d.Account = id, webhook, account
	body, err := h.store.RDB.HGet(ctx, redisclient.BodiesKey(p), key).Bytes()
	if errors.Is(err, redis.Nil) { // erased between the reads
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	if err != nil {
		return delivery.Delivery{}, nil, redisclient.Unavailable(fmt.Errorf("read body of delivery: %w", err))
	}
	return d, body, nil
}

// PendingDeliveries returns how many deliveries of each of the accounts, which lie in
// partition p, are pending.
func (h *Store) PendingDeliveries(ctx context.Context, p int, accounts []signal.AccountID) ([]int, error) {
	pipe := h.store.RDB.Pipeline()
	webhooks := make([]*redis.StringSliceCmd, len(accounts))
	for i, a := range accounts {
		webhooks[i] = pipe.HKeys(ctx, redisclient.WebhooksKey(p, a))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read webhooks: %w", err))
	}
	pending := make([][]*redis.IntCmd, len(accounts))
	for i := range accounts {
		for _, w := range webhooks[i].Val() {
			pending[i] = append(pending[i], pipe.ZCard(ctx, redisclient.PendingKey(p, signal.WebhookID(w))))
		}
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("count pending deliveries: %w", err))
	}
	n := make([]int, len(accounts))
	for i := range pending {
		for _, c := range pending[i] {
			n[i] += int(c.Val())
		}
	}
	return n, nil
}

// Deliveries returns q.Limit deliveries of a webhook after the first q.Offset ones
// that q wants, newest first, and how many it wants in all. Of their attempts there is
// only the last, with its number and response status. A webhook that does not exist
// has none.
func (h *Store) Deliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID, q delivery.Query) ([]delivery.Delivery, int, error) {
	p := h.store.Partition(account)
	var members []string
	var total int
	var err error
	switch {
	case q.Type != "":
		select { // it passes over all that the webhook has
		case h.scans <- struct{}{}:
			members, total, err = h.scanDeliveries(ctx, p, webhook, q)
			<-h.scans
		case <-ctx.Done():
			err = ctx.Err()
		}
	case q.Status == delivery.Pending:
		members, total, err = h.pendingPage(ctx, p, webhook, q)
	default:
		members, total, err = h.page(ctx, setOf(p, webhook, q.Status), q)
	}
	if err != nil {
		return nil, 0, redisclient.Unavailable(fmt.Errorf("list deliveries: %w", err))
	}
	if len(members) == 0 {
		if err = h.exists(ctx, p, account, webhook); errors.Is(err, errNoWebhook) {
			total, err = 0, nil
		}
		return []delivery.Delivery{}, total, err
	}
	list, exists, err := h.readFronts(ctx, p, account, webhook, members)
	if !exists {
		total = 0
	}
	return list, total, err
}

// setOf returns the sorted set by creation that has the deliveries with a status; "" is
// any, and stands in for pending.
func setOf(p int, webhook signal.WebhookID, status delivery.Status) string {
	switch status {
	case delivery.Succeeded:
		return redisclient.SucceededKey(p, webhook)
	case delivery.Failed:
		return redisclient.FailedKey(p, webhook)
	}
	return redisclient.RecordedKey(p, webhook)
}

// page returns the members of a page of a set by creation, and its length.
func (h *Store) page(ctx context.Context, set string, q delivery.Query) ([]string, int, error) {
	pipe := h.store.RDB.Pipeline()
	total := pipe.ZCard(ctx, set)
	members := pipe.ZRevRange(ctx, set, int64(q.Offset), int64(q.Offset)+int64(q.Limit)-1)
	if err := redisclient.Execute(ctx, pipe); err != nil || q.Limit <= 0 {
		return nil, int(total.Val()), err
	}
	return members.Val(), int(total.Val()), nil
}

// pendingPage is page for what is pending, whose own set is by due time: if that is
// short it is read, else the set of all, newest first, from where the page begins.
func (h *Store) pendingPage(ctx context.Context, p int, webhook signal.WebhookID, q delivery.Query) ([]string, int, error) {
	pipe := h.store.RDB.Pipeline()
	count := pipe.ZCard(ctx, redisclient.PendingKey(p, webhook))
	first := pipe.ZRange(ctx, redisclient.PendingKey(p, webhook), 0, memberChunk-1)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, err
	}
	total := int(count.Val())
	if total <= memberChunk {
		page, err := h.newestOf(ctx, redisclient.RecordedKey(p, webhook), first.Val(), q)
		return page, total, err
	}
	if q.Offset >= total {
		return nil, total, nil
	}
	select { // as for a type
	case h.scans <- struct{}{}:
		defer func() { <-h.scans }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	keys := []string{redisclient.RecordedKey(p, webhook), redisclient.SucceededKey(p, webhook), redisclient.FailedKey(p, webhook)}
	from, err := pendingFromScript.Run(ctx, h.store.RDB, keys, q.Offset).Int64Slice()
	if err != nil {
		return nil, 0, err
	}
	var page []string
	left := int(from[1])
	err = h.eachNewest(ctx, redisclient.RecordedKey(p, webhook), from[0], func(members []string) (bool, error) {
		pending, err := h.pendingOf(ctx, p, webhook, members)
		if err != nil {
			return false, err
		}
		skipped := min(left, len(pending))
		left -= skipped
		page = append(page, pending[skipped:]...)
		return len(page) < q.Limit, nil
	})
	return page[:min(len(page), q.Limit)], total, err
}

// newestOf returns the page of members that q wants, by their scores in set.
func (h *Store) newestOf(ctx context.Context, set string, members []string, q delivery.Query) ([]string, error) {
	if len(members) == 0 || q.Offset >= len(members) {
		return nil, nil
	}
	scores, err := h.store.RDB.ZMScore(ctx, set, members...).Result()
	if err != nil {
		return nil, err
	}
	list := make([]redis.Z, len(members))
	for i := range members {
		list[i] = redis.Z{Score: scores[i], Member: members[i]}
	}
	slices.SortFunc(list, func(a, b redis.Z) int {
		return -cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Member.(string), b.Member.(string)))
	})
	list = list[q.Offset:min(len(list), q.Offset+q.Limit)]
	page := make([]string, len(list))
	for i := range list {
		page[i] = list[i].Member.(string)
	}
	return page, nil
}

// pendingOf returns those of members that are pending.
func (h *Store) pendingOf(ctx context.Context, p int, webhook signal.WebhookID, members []string) ([]string, error) {
	if len(members) == 0 {
		return nil, nil
	}
	due, err := h.store.RDB.ZMScore(ctx, redisclient.PendingKey(p, webhook), members...).Result()
	if err != nil {
		return nil, err
	}
	pending := make([]string, 0, len(members))
	for i, at := range due {
		if at != 0 { // the library's word for none: nothing is due in 1970
			pending = append(pending, members[i])
		}
	}
	return pending, nil
}

// scanDeliveries is page for a type of events: it passes over the members of all, a
// chunk at a time.
func (h *Store) scanDeliveries(ctx context.Context, p int, webhook signal.WebhookID, q delivery.Query) (page []string, total int, err error) {
	code := codec.CodeOfEvent[q.Type]
	err = h.eachNewest(ctx, setOf(p, webhook, q.Status), 0, func(members []string) (bool, error) {
		wanted := slices.DeleteFunc(members, func(m string) bool { return len(m) != memberBytes || m[memberBytes-1] != code })
		if q.Status == delivery.Pending {
			if wanted, err = h.pendingOf(ctx, p, webhook, wanted); err != nil {
				return false, err
			}
		}
		for _, m := range wanted {
			if total++; total > q.Offset && len(page) < q.Limit {
				page = append(page, m)
			}
		}
		return true, nil
	})
	return page, total, err
}

// eachNewest calls f with the members of a set by creation, newest first but for the
// first offset ones, until it says false. None comes twice, whatever is added meanwhile.
func (h *Store) eachNewest(ctx context.Context, set string, offset int64, f func(members []string) (bool, error)) error {
	last := redis.Z{Score: math.Inf(1), Member: ""}
	for ; ; offset += memberChunk {
		found, err := h.store.RDB.ZRevRangeWithScores(ctx, set, offset, offset+memberChunk-1).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		members := make([]string, 0, len(found))
		for _, z := range found {
			// What was added at the front has moved the rest back.
			if z.Score < last.Score || z.Score == last.Score && z.Member.(string) < last.Member.(string) {
				members = append(members, z.Member.(string))
				last = z
			}
		}
		if more, err := f(members); err != nil || !more {
			return err
		}
	}
}

// readFronts returns the deliveries behind members, as lists show them. Those that
// were erased meanwhile are left out; one that cannot be read is logged, too. It says
// whether the webhook exists.
func (h *Store) readFronts(ctx context.Context, p int, account signal.AccountID, webhook signal.WebhookID, members []string) (list []delivery.Delivery, exists bool, err error) {
	list = make([]delivery.Delivery, 0, len(members))
	args := make([]any, 1, 1+len(members))
	args[0] = deliveryFront
	for _, m := range members {
		args = append(args, m[:min(len(m), 16)])
	}
	answer, err := deliveriesListScript.Run(ctx, h.store.RDB, []string{redisclient.DeliveriesKey(p, webhook), redisclient.WebhooksKey(p, account)}, append(args, string(webhook))...).Slice()
	if err != nil {
		return nil, false, redisclient.Unavailable(fmt.Errorf("list deliveries: %w", err))
	}
	for i, front := range redisclient.Texts(answer) {
		if front == "" {
			continue
		}
		d, _, err := decodeDelivery([]byte(front))
		if err != nil {
			h.store.Log.Error("a delivery is not readable", "component", "persistence", "partition", p, "webhook", string(webhook), "err", err)
			continue
		}
		d.ID, d.Webhook, d.Account = deliveryOf(members[i]), webhook, account
		list = append(list, d)
	}
	return list, len(answer) > 0, nil
}
