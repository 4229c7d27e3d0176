package deliveries

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Stats counts webhooks and deliveries.
type Stats struct {
	*redisclient.Client
	queue *Queue
}

// WebhookStats counts webhooks and pending deliveries of all partitions. The deliveries that wait because their endpoint has
// asked for it are not due before the end of the wait, and those to an endpoint with a rate are never due.
func (h *Stats) WebhookStats(ctx context.Context) (delivery.WebhookStats, error) {
	var stats delivery.WebhookStats
	counts, due := make([]*redis.SliceCmd, h.Partitions()), make([]*redis.ZSliceCmd, h.Partitions())
	pipe := h.RDB.Pipeline()
	fields := []string{"pending", string(delivery.WebhookEnabled), string(delivery.WebhookDisabled)}
	for p := range counts {
		counts[p] = pipe.HMGet(ctx, h.WebhookStatsKey(p), fields...)
		due[p] = pipe.ZRangeWithScores(ctx, h.WebhooksDueKey(p), 0, 0)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return stats, redisclient.Failed(err, "count webhooks")
	}
	for p := range counts {
		for i, total := range []*int64{&stats.Pending, &stats.Enabled, &stats.Disabled} {
			if value, ok := counts[p].Val()[i].(string); ok {
				n, _ := strconv.ParseInt(value, 10, 64) // Redis counts in decimal
				*total += n
			}
		}
		first := due[p].Val()
		if len(first) == 0 {
			continue
		}
		at := codec.TimeOfMilli(int64(first[0].Score))
		if h.Now().Sub(at) > expectedLag {
			var err error
			if at, err = h.oldestDue(ctx, p); err != nil {
				return stats, err
			}
		}
		if !at.IsZero() && (stats.OldestDue.IsZero() || at.Before(stats.OldestDue)) {
			stats.OldestDue = at
		}
	}
	return stats, nil
}

// expectedLag is a lag of deliveries for which no reason is looked for.
const expectedLag = 5 * time.Second

// oldestDue returns since when a delivery of partition p is due that waits for no endpoint, or zero.
func (h *Stats) oldestDue(ctx context.Context, p int) (oldest time.Time, err error) {
	const page = 1000
	for offset := 0; ; offset += page {
		list, err := h.queue.DueEndpoints(ctx, p, h.Now(), offset, page)
		if err != nil {
			return oldest, err
		}
		pipe := h.RDB.Pipeline()
		records, health := make([]*redis.StringCmd, len(list)), make([]*redis.StringCmd, len(list))
		for i := range list {
			w := hook{h.Keys, p, list[i].Account, list[i].Webhook}
			records[i] = pipe.HGet(ctx, w.webhooks(), string(w.id))
			health[i] = pipe.HGet(ctx, h.WebhookHealthKey(p, w.account), string(w.id))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return oldest, redisclient.Failed(err, "read due webhooks")
		}
		for i := range list {
			at := list[i].At
			if !oldest.IsZero() && !at.Before(oldest) {
				return oldest, nil
			}
			w, err := readWebhook(list[i].Account, list[i].Webhook, records[i].Val(), health[i].Val())
			switch until := w.Health.HeldUntil; {
			case err != nil: // it counts, as nothing is sent to it
			case w.Rate() > 0 || until.After(h.Now()):
				continue
			case until.After(at):
				at = until
			}
			if oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
		if len(list) < page {
			return oldest, nil
		}
	}
}
