package deliveries

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	deliveriesDropScript = redisclient.Script(scripts, "deliveries_drop")
	webhookErasedScript  = redisclient.Script(scripts, "webhook_erased")
	webhooksRemoveScript = redisclient.Script(scripts, "webhooks_remove")
)

// dropChunk is how many deliveries one script drops. Redis takes half a millisecond for them, and
// two where the answers of their endpoints are as long as possible.
const dropChunk = 100

// usageSamples is how many values Redis measures to estimate the size of all.
const usageSamples = 1000

// Conditions of Retention.drop.
const (
	dropAll   = "all"
	dropEnded = ""
)

// Retention drops deliveries that are not kept any longer.
type Retention struct {
	*redisclient.Client
}

// drop drops those of members, at most dropChunk, that which allows: dropAll, dropEnded or the bytes
// of a time until which they must have ended. It returns how many it has dropped.
func (h *Retention) drop(ctx context.Context, w hook, epoch int64, which string, members []string) (int, error) {
	keys := []string{h.EpochKey(w.p), h.WebhookStatsKey(w.p), h.BodiesKey(w.p),
		h.BodyRefsKey(w.p), w.pending(), w.records(), w.all(), w.succeeded(), w.failed()}
	args := append(make([]any, 0, 2+len(members)), strconv.FormatInt(epoch, 10), which)
	for _, m := range members {
		args = append(args, m)
	}
	n, err := deliveriesDropScript.Run(ctx, h.RDB, keys, args...).Int()
	if err == nil && n < 0 {
		return 0, eventlog.ErrNotOwner
	}
	return n, redisclient.Failed(err, "drop deliveries of webhook %s", w.id)
}

// PruneDeliveries drops ended deliveries of a webhook: all except the newest keep of them, and
// the oldest while all records take more than keepBytes of the memory of Redis (0: any); else
// those that ended longer ago than retention. more reports whether it is to be called again at
// once. KindConflict: another epoch holds the partition.
func (h *Retention) PruneDeliveries(ctx context.Context, p int, epoch int64, webhook signal.WebhookID,
	retention time.Duration, keep int, keepBytes int64) (more bool, err error) {
	w := hook{keys: h.Keys, p: p, id: webhook}
	ended := []string{w.succeeded(), w.failed()}
	pipe := h.RDB.Pipeline()
	succeeded, failed := pipe.ZCard(ctx, ended[0]), pipe.ZCard(ctx, ended[1])
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return false, redisclient.Failed(err, "count deliveries of webhook %s", webhook)
	}
	count := int(succeeded.Val() + failed.Val())
	excess := count - max(keep, 0)
	if excess <= 0 && keepBytes > 0 && count > 0 {
		used, err := h.bytesOf(ctx, w.records())
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
		_, err = h.drop(ctx, w, epoch, dropEnded, oldest)
		return excess > n, err
	}
	limit := h.Now().Add(-retention)
	for _, set := range ended {
		if err := h.pruneBefore(ctx, w, epoch, set, limit); err != nil {
			return false, err
		}
	}
	return false, nil
}

// bytesOf estimates the memory that Redis uses for a key.
func (h *Retention) bytesOf(ctx context.Context, key string) (int64, error) {
	used, err := h.RDB.MemoryUsage(ctx, key, usageSamples).Result()
	if refusal, ok := errors.AsType[redis.Error](err); ok && !errors.Is(refusal, redis.Nil) {
		used, err = h.RDB.MemoryUsage(ctx, key).Result() // the in-process store takes no samples
	}
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return used, redisclient.Failed(err, "measure %s", key)
}

// oldest returns the first n members of all sets.
func (h *Retention) oldest(ctx context.Context, sets []string, n int) ([]string, error) {
	var all []redis.Z
	for _, set := range sets {
		found, err := h.RDB.ZRangeWithScores(ctx, set, 0, int64(n)-1).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "read %s", set)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, byScore)
	return membersOf(all[:min(n, len(all))]), nil
}

// pruneBefore drops the deliveries of a set by creation that ended until limit. It looks only at
// those that were created until then, of which a few may have ended much later.
func (h *Retention) pruneBefore(ctx context.Context, w hook, epoch int64, set string, limit time.Time) error {
	until := string(appendTime(nil, codec.MilliOf(limit)))
	for kept := 0; ; {
		page := &redis.ZRangeBy{Min: "-inf", Max: codec.MilliText(limit), Offset: int64(kept), Count: dropChunk}
		members, err := h.RDB.ZRangeByScore(ctx, set, page).Result()
		if err != nil || len(members) == 0 {
			return redisclient.Failed(err, "read %s", set)
		}
		n, err := h.drop(ctx, w, epoch, until, members)
		if err != nil || len(members) < dropChunk {
			return err
		}
		kept += len(members) - n
	}
}

// EraseWebhooks drops a chunk of the deliveries that removed webhooks of partition p have left,
// and reports whether there may be more. KindConflict: another epoch holds the partition.
func (h *Retention) EraseWebhooks(ctx context.Context, p int, epoch int64) (more bool, err error) {
	// Not WITHVALUES: the in-process server answers it in another form.
	found, err := h.RDB.HRandField(ctx, h.WebhooksEraseKey(p), 1).Result()
	if err != nil || len(found) == 0 {
		return false, redisclient.Failed(err, "read removed webhooks of partition %d", p)
	}
	account, err := h.RDB.HGet(ctx, h.WebhooksEraseKey(p), found[0]).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil // erased meanwhile
	}
	if err != nil {
		return false, redisclient.Failed(err, "read removed webhook of partition %d", p)
	}
	return true, h.erase(ctx, hook{h.Keys, p, signal.AccountID(account), signal.WebhookID(found[0])}, epoch)
}

// erase drops a chunk of the deliveries of a removed webhook, and with the last chunk all else that
// is left of it.
func (h *Retention) erase(ctx context.Context, w hook, epoch int64) error {
	members, err := h.RDB.ZRange(ctx, w.all(), 0, dropChunk-1).Result()
	if err != nil {
		return redisclient.Failed(err, "read deliveries of removed webhook %s", w.id)
	}
	if len(members) > 0 {
		_, err := h.drop(ctx, w, epoch, dropAll, members)
		if err != nil || len(members) == dropChunk {
			return err
		}
	}
	keys := []string{h.EpochKey(w.p), h.WebhooksEraseKey(w.p), w.webhooks(),
		h.WebhookAccountsKey(w.p), w.all(), w.records(), w.pending(), w.succeeded(), w.failed(),
		h.WaitsKey(w.p, w.id)}
	args := []any{strconv.FormatInt(epoch, 10), string(w.id), string(w.account)}
	n, err := webhookErasedScript.Run(ctx, h.RDB, keys, args...).Int()
	if err == nil && n < 0 {
		return eventlog.ErrNotOwner
	}
	return redisclient.Failed(err, "erase webhook %s", w.id)
}

// EraseWebhooks removes the webhooks of a deleted account and drops a chunk of the deliveries of removed ones.
// It returns the cursor of the next call, or "" at the end, when no removed webhook is left.
func EraseWebhooks(ctx context.Context, c *redisclient.Client, p int, epoch int64, account signal.AccountID,
	cursor string) (string, error) {
	if cursor == "" {
		keys := []string{c.WebhooksKey(p, account), c.WebhookHealthKey(p, account),
			c.WebhookStatsKey(p), c.WebhooksEraseKey(p), c.WebhooksDueKey(p), c.WebhookAccountsKey(p)}
		if err := webhooksRemoveScript.Run(ctx, c.RDB, keys, string(account)).Err(); err != nil {
			return "", err
		}
	}
	if more, err := (&Retention{c}).EraseWebhooks(ctx, p, epoch); !more || err != nil {
		return "", err
	}
	return "0", nil
}

// EraseMails erases the mails to a deleted account that are still to be sent, with cursors as
// EraseWebhooks.
func EraseMails(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID, cursor string) (
	string, error) {
	key := c.MailRecordsKey(p)
	found, next, err := c.ScanStep(ctx, key, cursor, func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd {
		return pipe.HScan(ctx, key, from, "", redisclient.EraseChunk)
	})
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
	return next, nil
}
