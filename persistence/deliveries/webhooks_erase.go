package deliveries

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/deliveries_drop.lua
var deliveriesDropText string

//go:embed scripts/webhook_erased.lua
var webhookErasedText string

//go:embed scripts/webhooks_remove.lua
var webhooksRemoveText string

var (
	deliveriesDropScript = redis.NewScript(deliveriesDropText)
	webhookErasedScript  = redis.NewScript(webhookErasedText)
	webhooksRemoveScript = redis.NewScript(webhooksRemoveText)
)

// dropChunk is how many deliveries one script drops: Redis takes half a millisecond
// for them, and two where the answers of their endpoints are as long as may be.
const dropChunk = 100

// usageSamples is of how many values Redis takes the size to estimate that of all.
const usageSamples = 1000

// Conditions of dropDeliveries.
const (
	dropAll   = "all"
	dropEnded = ""
)

// dropDeliveries drops those of members, at most dropChunk, that which allows: dropAll,
// dropEnded or the bytes of a time until which they must have ended. It returns how
// many they were.
func dropDeliveries(ctx context.Context, c *redisclient.Client, p int, epoch int64, webhook signal.WebhookID, which string, members []string) (int, error) {
	keys := []string{redisclient.EpochKey(p), redisclient.WebhookStatsKey(p), redisclient.BodiesKey(p), redisclient.BodyRefsKey(p), redisclient.PendingKey(p, webhook), redisclient.DeliveriesKey(p, webhook),
		redisclient.RecordedKey(p, webhook), redisclient.SucceededKey(p, webhook), redisclient.FailedKey(p, webhook)}
	args := append(make([]any, 0, 2+len(members)), strconv.FormatInt(epoch, 10), which)
	for _, m := range members {
		args = append(args, m)
	}
	n, err := deliveriesDropScript.Run(ctx, c.RDB, keys, args...).Int()
	if err != nil {
		return 0, redisclient.Unavailable(fmt.Errorf("drop deliveries of webhook %s: %w", webhook, err))
	}
	if n < 0 {
		return 0, eventlog.ErrNotOwner
	}
	return n, nil
}

// PruneDeliveries drops ended deliveries of a webhook: those beyond the newest keep of
// them, the oldest ones while all records take more than keepBytes of Redis' memory (0:
// any), else those that ended longer ago than retention. It reports whether it is to be
// called again at once. KindConflict: another epoch holds the partition.
func (h *Store) PruneDeliveries(ctx context.Context, p int, epoch int64, webhook signal.WebhookID, retention time.Duration,
	keep int, keepBytes int64) (more bool, err error) {
	ended := []string{redisclient.SucceededKey(p, webhook), redisclient.FailedKey(p, webhook)}
	pipe := h.store.RDB.Pipeline()
	succeeded, failed := pipe.ZCard(ctx, ended[0]), pipe.ZCard(ctx, ended[1])
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return false, redisclient.Unavailable(fmt.Errorf("count deliveries of webhook %s: %w", webhook, err))
	}
	count := int(succeeded.Val() + failed.Val())
	excess := count - max(keep, 0)
	if excess <= 0 && keepBytes > 0 && count > 0 {
		used, err := h.bytesOf(ctx, redisclient.DeliveriesKey(p, webhook))
		if err != nil {
			return false, err
		}
		if used > keepBytes {
			excess = int(int64(count) * (used - keepBytes) / used)
		}
	}
	if excess > 0 {
		n := min(excess, dropChunk)
		oldest, err := h.oldest(ctx, ended, n)
		if err != nil {
			return false, err
		}
		_, err = dropDeliveries(ctx, h.store.Client, p, epoch, webhook, dropEnded, oldest)
		return excess > n, err
	}
	limit := h.store.Now().Add(-retention)
	for _, set := range ended {
		if err := h.pruneBefore(ctx, p, epoch, webhook, set, limit); err != nil {
			return false, err
		}
	}
	return false, nil
}

// bytesOf estimates the memory that Redis uses for a key.
func (h *Store) bytesOf(ctx context.Context, key string) (int64, error) {
	used, err := h.store.RDB.MemoryUsage(ctx, key, usageSamples).Result()
	if refusal, ok := errors.AsType[redis.Error](err); ok && !errors.Is(refusal, redis.Nil) {
		used, err = h.store.RDB.MemoryUsage(ctx, key).Result() // the in-process store takes no samples
	}
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, redisclient.Unavailable(fmt.Errorf("measure %s: %w", key, err))
	}
	return used, nil
}

// oldest returns the first n members of several sets together.
func (h *Store) oldest(ctx context.Context, sets []string, n int) ([]string, error) {
	var all []redis.Z
	for _, set := range sets {
		found, err := h.store.RDB.ZRangeWithScores(ctx, set, 0, int64(n)-1).Result()
		if err != nil {
			return nil, redisclient.Unavailable(fmt.Errorf("read %s: %w", set, err))
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b redis.Z) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Member.(string), b.Member.(string)))
	})
	members := make([]string, min(n, len(all)))
	for i := range members {
		members[i] = all[i].Member.(string)
	}
	return members, nil
}

// pruneBefore drops the deliveries in set, which is by creation, that ended until
// limit: those that were created later have not, and a few may have ended much later.
func (h *Store) pruneBefore(ctx context.Context, p int, epoch int64, webhook signal.WebhookID, set string, limit time.Time) error {
	until := codec.MilliOf(limit)
	for kept := 0; ; {
		members, err := h.store.RDB.ZRangeByScore(ctx, set, &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(until, 10),
			Offset: int64(kept), Count: dropChunk}).Result()
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("read %s: %w", set, err))
		}
		if len(members) == 0 {
			return nil
		}
		n, err := dropDeliveries(ctx, h.store.Client, p, epoch, webhook, string(appendTime(nil, until)), members)
		if err != nil || len(members) < dropChunk {
			return err
		}
		kept += len(members) - n
	}
}

// EraseWebhooks drops a chunk of the deliveries that removed webhooks of partition p
// have left, and says whether there may be more. KindConflict: another epoch holds the
// partition.
func (h *Store) EraseWebhooks(ctx context.Context, p int, epoch int64) (more bool, err error) {
	// Not WITHVALUES, which the server inside a process answers in a form of its own.
	found, err := h.store.RDB.HRandField(ctx, redisclient.WebhooksEraseKey(p), 1).Result()
	if err != nil {
		return false, redisclient.Unavailable(fmt.Errorf("read removed webhooks of partition %d: %w", p, err))
	}
	if len(found) == 0 {
		return false, nil
	}
	account, err := h.store.RDB.HGet(ctx, redisclient.WebhooksEraseKey(p), found[0]).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil // erased meanwhile
	}
	if err != nil {
		return false, redisclient.Unavailable(fmt.Errorf("read removed webhook of partition %d: %w", p, err))
	}
	return true, eraseWebhook(ctx, h.store.Client, p, epoch, signal.AccountID(account), signal.WebhookID(found[0]))
}

// eraseWebhook drops a chunk of the deliveries of a removed webhook, and all that is
// left of it behind the last one.
func eraseWebhook(ctx context.Context, c *redisclient.Client, p int, epoch int64, account signal.AccountID, webhook signal.WebhookID) error {
	members, err := c.RDB.ZRange(ctx, redisclient.RecordedKey(p, webhook), 0, dropChunk-1).Result()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("read deliveries of removed webhook %s: %w", webhook, err))
	}
	if len(members) > 0 {
		if _, err := dropDeliveries(ctx, c, p, epoch, webhook, dropAll, members); err != nil {
			return err
		}
		if len(members) == dropChunk {
			return nil
		}
	}
	keys := []string{redisclient.EpochKey(p), redisclient.WebhooksEraseKey(p), redisclient.WebhooksKey(p, account), redisclient.WebhookAccountsKey(p), redisclient.RecordedKey(p, webhook),
		redisclient.DeliveriesKey(p, webhook), redisclient.PendingKey(p, webhook), redisclient.SucceededKey(p, webhook), redisclient.FailedKey(p, webhook), redisclient.WaitsKey(p, webhook)}
	n, err := webhookErasedScript.Run(ctx, c.RDB, keys, strconv.FormatInt(epoch, 10), string(webhook), string(account)).Int()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("erase webhook %s: %w", webhook, err))
	}
	if n < 0 {
		return eventlog.ErrNotOwner
	}
	return nil
}

// EraseWebhooks removes the webhooks of a deleted account and drops a chunk of their
// deliveries.
func EraseWebhooks(ctx context.Context, c *redisclient.Client, p int, epoch int64, account signal.AccountID, cursor string) (string, error) {
	if cursor == "" {
		keys := []string{redisclient.WebhooksKey(p, account), redisclient.WebhookHealthKey(p, account), redisclient.WebhookStatsKey(p), redisclient.WebhooksEraseKey(p),
			redisclient.WebhooksDueKey(p), redisclient.WebhookAccountsKey(p)}
		if err := webhooksRemoveScript.Run(ctx, c.RDB, keys, string(account)).Err(); err != nil {
			return "", err
		}
		cursor = "0"
	}
	found, next, err := c.RDB.HScan(ctx, redisclient.WebhooksEraseKey(p), redisclient.ScanCursor(cursor), "", redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(found); i += 2 { // webhook and account
		if found[i+1] == string(account) {
			// Once more from here, until there is none.
			return cursor, eraseWebhook(ctx, c, p, epoch, account, signal.WebhookID(found[i]))
		}
	}
	return redisclient.CursorText(next), nil
}

// EraseMails erases the mails to the account that are still to be sent.
func EraseMails(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID, cursor string) (string, error) {
	found, next, err := c.RDB.HScan(ctx, redisclient.MailRecordsKey(p), redisclient.ScanCursor(cursor), "", redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	var ids []string
	for i := 0; i+1 < len(found); i += 2 { // identifier and record
		m, err := decodeMail(found[i], []byte(found[i+1]))
		if err != nil {
			c.Log.Error("a mail is not readable", "component", "persistence", "partition", p, "err", err)
			continue
		}
		if m.Account == account {
			ids = append(ids, found[i])
		}
	}
	if len(ids) > 0 {
		if err := removeMails(ctx, c, p, ids); err != nil {
			return "", err
		}
	}
	return redisclient.CursorText(next), nil
}
