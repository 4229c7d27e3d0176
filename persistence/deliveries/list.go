package deliveries

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	deliveriesListScript = redisclient.Script(scripts, "deliveries_list")
	pendingFromScript    = redisclient.Script(scripts, "pending_from")
)

const (
	// memberChunk is how many members of a sorted set are read at once. Redis takes half a
	// millisecond for them.
	memberChunk = 1000
	// maxScans is how many lists of one process may scan all deliveries of a webhook at once.
	maxScans = 2
)

// History reads deliveries. Its methods for lists of all webhooks are in list_all.go.
type History struct {
	*redisclient.Client
	scans chan struct{} // holds maxScans
}

// Delivery returns a delivery and its body. KindNotFound: the account does not have the webhook,
// or the webhook does not have the delivery.
func (h *History) Delivery(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
	id signal.DeliveryID) (delivery.Delivery, []byte, error) {
	w := hookOf(h.Client, account, webhook)
	pipe := h.RDB.Pipeline()
	exists := pipe.HExists(ctx, w.webhooks(), string(webhook))
	record := pipe.HGet(ctx, w.records(), deliveryField(id))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return delivery.Delivery{}, nil, redisclient.Failed(err, "read delivery")
	}
	if !exists.Val() || record.Err() != nil {
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	d, key, err := decodeDelivery([]byte(record.Val()))
	if err != nil {
		return delivery.Delivery{}, nil, err
	}
	d.ID, d.Webhook, d.Account = id, webhook, account
	body, err := h.RDB.HGet(ctx, h.BodiesKey(w.p), key).Bytes()
	if errors.Is(err, redis.Nil) { // erased between the reads
		return delivery.Delivery{}, nil, signal.NotFound("delivery")
	}
	if err != nil {
		return delivery.Delivery{}, nil, redisclient.Failed(err, "read body of delivery")
	}
	return d, body, nil
}

// Deliveries returns q.Limit deliveries of a webhook after the first q.Offset ones that match q,
// newest first, and how many match. Of their attempts there is only the last, with its number
// and response status. A webhook that does not exist has none.
func (h *History) Deliveries(ctx context.Context, account signal.AccountID, webhook signal.WebhookID,
	q delivery.Query) (list []delivery.Delivery, total int, err error) {
	w := hookOf(h.Client, account, webhook)
	var members []string
	switch {
	case q.Type != "":
		members, total, err = h.scanType(ctx, w, q)
	case q.Status == delivery.Pending:
		members, total, err = h.pendingPage(ctx, w, q)
	default:
		members, total, err = h.page(ctx, w.byCreation(q.Status), q)
	}
	if err != nil {
		return nil, 0, redisclient.Failed(err, "list deliveries")
	}
	if len(members) == 0 {
		if err = h.exists(ctx, w); errors.Is(err, errNoWebhook) {
			total, err = 0, nil
		}
		return []delivery.Delivery{}, total, err
	}
	list, exists, err := h.readFronts(ctx, w, members)
	if !exists {
		total = 0
	}
	return list, total, err
}

// page returns the members of a page of a set by creation, and its length.
func (h *History) page(ctx context.Context, set string, q delivery.Query) ([]string, int, error) {
	pipe := h.RDB.Pipeline()
	total := pipe.ZCard(ctx, set)
	members := pipe.ZRevRange(ctx, set, int64(q.Offset), int64(q.Offset)+int64(q.Limit)-1)
	if err := redisclient.Execute(ctx, pipe); err != nil || q.Limit <= 0 {
		return nil, int(total.Val()), err
	}
	return members.Val(), int(total.Val()), nil
}

// beginScan waits until fewer than maxScans are running, or ctx ends. After a nil error the
// caller must call endScan.
func (h *History) beginScan(ctx context.Context) error {
	select {
	case h.scans <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *History) endScan() { <-h.scans }

// pendingPage is page for pending deliveries, whose own set is by due time. A short set is read
// as a whole; else the set of all is read, newest first, from where the page begins.
func (h *History) pendingPage(ctx context.Context, w hook, q delivery.Query) ([]string, int, error) {
	pipe := h.RDB.Pipeline()
	count := pipe.ZCard(ctx, w.pending())
	first := pipe.ZRange(ctx, w.pending(), 0, memberChunk-1)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, err
	}
	total := int(count.Val())
	if total <= memberChunk {
		page, err := h.newestOf(ctx, w.all(), first.Val(), q)
		return page, total, err
	}
	if q.Offset >= total {
		return nil, total, nil
	}
	if err := h.beginScan(ctx); err != nil {
		return nil, 0, err
	}
	defer h.endScan()
	keys := []string{w.all(), w.succeeded(), w.failed()}
	from, err := pendingFromScript.Run(ctx, h.RDB, keys, q.Offset).Int64Slice()
	if err != nil {
		return nil, 0, err
	}
	var page []string
	left := int(from[1])
	err = h.eachNewest(ctx, w.all(), from[0], func(members []string) (bool, error) {
		pending, err := h.pendingOf(ctx, w, members)
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

// newestOf returns the page of members that q selects, by their scores in set.
func (h *History) newestOf(ctx context.Context, set string, members []string, q delivery.Query) ([]string, error) {
	if len(members) == 0 || q.Offset >= len(members) {
		return nil, nil
	}
	scores, err := h.RDB.ZMScore(ctx, set, members...).Result()
	if err != nil {
		return nil, err
	}
	list := make([]redis.Z, len(members))
	for i := range members {
		list[i] = redis.Z{Score: scores[i], Member: members[i]}
	}
	slices.SortFunc(list, func(a, b redis.Z) int { return byScore(b, a) })
	return membersOf(list[q.Offset:min(len(list), q.Offset+q.Limit)]), nil
}

// byScore compares as Redis orders a sorted set.
func byScore(a, b redis.Z) int {
	if c := cmp.Compare(a.Score, b.Score); c != 0 { // nearly always, and a merge asks for each member
		return c
	}
	return cmp.Compare(a.Member.(string), b.Member.(string))
}

func membersOf(list []redis.Z) []string {
	members := make([]string, len(list))
	for i := range list {
		members[i] = list[i].Member.(string)
	}
	return members
}

// beyond returns the members of found that stand after last in the given direction, 1 for
// ascending and -1 for descending scores, and sets last to the last of them.
func beyond(last *redis.Z, found []redis.Z, direction int) []string {
	found = slices.DeleteFunc(found, func(z redis.Z) bool { return byScore(z, *last) != direction })
	if n := len(found); n > 0 {
		*last = found[n-1]
	}
	return membersOf(found)
}

// pendingOf returns those of members that are pending.
func (h *History) pendingOf(ctx context.Context, w hook, members []string) ([]string, error) {
	if len(members) == 0 {
		return nil, nil
	}
	due, err := h.RDB.ZMScore(ctx, w.pending(), members...).Result()
	if err != nil {
		return nil, err
	}
	pending := make([]string, 0, len(members))
	for i, at := range due {
		if at != 0 { // 0 is not in the set: nothing is due in 1970
			pending = append(pending, members[i])
		}
	}
	return pending, nil
}

// scanType is page for a type of events: it scans the members of all, a chunk at a time.
func (h *History) scanType(ctx context.Context, w hook, q delivery.Query) (page []string, total int, err error) {
	if err := h.beginScan(ctx); err != nil {
		return nil, 0, err
	}
	defer h.endScan()
	code := codec.CodeOfEvent[q.Type]
	other := func(m string) bool { return len(m) != memberBytes || m[memberBytes-1] != code }
	err = h.eachNewest(ctx, w.byCreation(q.Status), 0, func(members []string) (_ bool, err error) {
		matching := slices.DeleteFunc(members, other)
		if q.Status == delivery.Pending {
			if matching, err = h.pendingOf(ctx, w, matching); err != nil {
				return false, err
			}
		}
		for _, m := range matching {
			if total++; total > q.Offset && len(page) < q.Limit {
				page = append(page, m)
			}
		}
		return true, nil
	})
	return page, total, err
}

// eachNewest calls f with the members of a set by creation, newest first and without the first
// offset ones, until it returns false. Each comes once, even if others are added meanwhile.
func (h *History) eachNewest(ctx context.Context, set string, offset int64, f func([]string) (bool, error)) error {
	last := redis.Z{Score: math.Inf(1), Member: ""}
	for ; ; offset += memberChunk {
		found, err := h.RDB.ZRevRangeWithScores(ctx, set, offset, offset+memberChunk-1).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		// Members that were added at the front have moved the others back.
		if more, err := f(beyond(&last, found, -1)); err != nil || !more {
			return err
		}
	}
}

// readFronts returns the deliveries of members as lists show them, without those that were
// erased meanwhile. It logs those that cannot be read. exists reports whether the webhook does.
func (h *History) readFronts(ctx context.Context, w hook, members []string) (
	list []delivery.Delivery, exists bool, err error) {
	list = make([]delivery.Delivery, 0, len(members))
	args := []any{deliveryFront}
	for _, field := range recordFields(members) {
		args = append(args, field)
	}
	keys := []string{w.records(), w.webhooks()}
	answer, err := deliveriesListScript.Run(ctx, h.RDB, keys, append(args, string(w.id))...).Slice()
	if err != nil {
		return nil, false, redisclient.Failed(err, "list deliveries")
	}
	for i, front := range redisclient.Texts(answer) {
		if front == "" {
			continue
		}
		d, _, err := decodeDelivery([]byte(front))
		if err != nil {
			h.Log.Error("a delivery is not readable", "component", "persistence", "partition", w.p,
				"webhook", string(w.id), "err", err)
			continue
		}
		d.ID, d.Webhook, d.Account = deliveryOf(members[i]), w.id, w.account
		list = append(list, d)
	}
	return list, len(answer) > 0, nil
}

// exists returns errNoWebhook if the account does not have the webhook.
func (h *History) exists(ctx context.Context, w hook) error {
	found, err := h.RDB.HExists(ctx, w.webhooks(), string(w.id)).Result()
	if err == nil && !found {
		return errNoWebhook
	}
	return redisclient.Failed(err, "look for webhook")
}
